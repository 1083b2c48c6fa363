//! `Builder`: a broker of one's own, put together from the parts of this crate and one's own.
//!
//! Decides nothing of what the broker does: it collects plugins and routes, and starts the server with them.

use std::fmt;

use axum::Router;
use narad_core::plugin::{Registry, RegistryError};

use super::{ServeError, Server, run_built};
use crate::{
    broker::{Broker, default_plugins},
    config::{Config, Overrides},
};

type MakeRoutes = Box<dyn FnOnce(Broker) -> Router + Send>;

/// A broker to be started: its plugins, and routes beside `/v1`.
///
/// ```
/// use std::sync::Arc;
/// use axum::{Router, extract::Path, routing::get};
/// use narad_core::{origin, plugin::{NoConfig, RegistryError, SilentWake}};
/// use narad_server::{broker::{Broker, BrokerError}, security::Caller, serve::Builder};
///
/// /// How many partitions a topic has, for whoever may look at it.
/// async fn width(broker: Broker, caller: Caller, name: &str) -> Result<String, BrokerError> {
///     let topic = broker.topic(name).await?;
///     if !caller.may_see(&topic) {
///         return Err(BrokerError::Forbidden(format!("{name} is not yours to look at").into()));
///     }
///     Ok(topic.partitions.to_string())
/// }
///
/// fn broker() -> Result<Builder, RegistryError> {
///     let builder = Builder::new()?
///         .plugins(|registry| registry.wake(origin!(), "mine", |NoConfig {}, _| Ok(Arc::new(SilentWake))))?
///         .routes(|broker| {
///             let width = async move |caller: Caller, Path(name): Path<String>| {
///                 width(broker, caller, &name).await
///             };
///             Router::new().route("/width/{topic}", get(width))
///         });
///     Ok(builder)
/// }
/// # broker().unwrap();
/// ```
///
/// [`start`](Self::start) runs it inside a program; [`cli::main_with`](crate::cli::main_with) gives the program the whole
/// command line of `narad`, which then knows these plugins: `serve`, `config schema`, `plugin ls`, `log dump`.
pub struct Builder {
    registry: Registry,
    routes: Vec<MakeRoutes>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl Builder {
    /// With the plugins that every broker knows, [`default_plugins`].
    ///
    /// # Errors
    /// Two of them claim one name or codec number.
    pub fn new() -> Result<Self, RegistryError> {
        default_plugins().map(Self::with_plugins)
    }

    /// With the plugins of `registry` and no others.
    pub fn with_plugins(registry: Registry) -> Self {
        Self { registry, routes: Vec::new() }
    }

    /// Has `register` add plugins, such as the `register` function of a plugin's crate.
    ///
    /// # Errors
    /// What `register` says: two plugins claim one name or codec number.
    pub fn plugins(
        mut self,
        register: impl FnOnce(&mut Registry) -> Result<(), RegistryError>,
    ) -> Result<Self, RegistryError> {
        register(&mut self.registry)?;
        Ok(self)
    }

    /// Routes beside the broker's own, which come first: a path that the broker has is the broker's, and so is the answer
    /// where there is no route. Further calls add further routes.
    ///
    /// Whoever asks is checked as for the broker's routes (credentials, hosts, origins, limits of size and time); what
    /// they may do is for the routes to say: a handler that takes a [`Caller`](crate::security::Caller) is told who it is.
    /// The handlers get the broker, as the routes of `/v1` do; its errors are answers, with the status that they have
    /// there. Requests are counted, timed and traced by the path that `make` has given the route.
    ///
    /// # Panics
    /// Not here, but at the start, as axum does: two of them have a path in common.
    #[must_use]
    pub fn routes(mut self, make: impl FnOnce(Broker) -> Router + Send + 'static) -> Self {
        self.routes.push(Box::new(make));
        self
    }

    /// What is registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Opens the data directory, listens, and serves; partitions open in the background.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start(self, config: Config) -> Result<Server, ServeError> {
        let Self { registry, routes } = self;
        let all = |broker: Broker| {
            // A fallback of one's own is never asked, and two of them could not be merged.
            let made = routes.into_iter().map(|make| make(broker.clone()).reset_fallback());
            made.fold(Router::new(), Router::merge)
        };
        Server::start_built(config, registry, all).await
    }

    /// Runs the server until SIGTERM or SIGINT, with the settings of the file, the environment and `overrides`: see
    /// [`run`](super::run).
    ///
    /// # Errors
    /// It could not start.
    pub async fn run(self, overrides: Overrides) -> Result<(), ServeError> {
        run_built(overrides, self).await
    }
}
