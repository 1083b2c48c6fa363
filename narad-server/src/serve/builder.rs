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
/// use axum::{Router, routing::get};
/// use narad_core::{origin, plugin::{NoConfig, RegistryError, SilentWake}};
/// use narad_server::serve::Builder;
///
/// fn broker() -> Result<Builder, RegistryError> {
///     let builder = Builder::new()?
///         .plugins(|registry| registry.wake(origin!(), "mine", |NoConfig {}, _| Ok(Arc::new(SilentWake))))?
///         .routes(|broker| Router::new().route("/node", get(async move || broker.node_id().to_owned())));
///     Ok(builder)
/// }
/// # broker().unwrap();
/// ```
///
/// [`start`](Self::start) runs it inside a program; [`cli::main_with`](crate::cli::main_with) gives the program the whole
/// command line of `narad`, which then knows these plugins: `serve`, `config schema`, `plugin ls`, `log dump`.
pub struct Builder {
    registry: Registry,
    routes: Option<MakeRoutes>,
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
        Self { registry, routes: None }
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

    /// Routes beside the broker's own, which come first: a path that the broker has is the broker's. Whoever asks is
    /// checked as for the broker's routes (credentials, hosts, origins, limits of size and time); what they may do is for
    /// the routes to say. The handlers get the broker, as the routes of `/v1` do. A second call replaces the first.
    #[must_use]
    pub fn routes(self, make: impl FnOnce(Broker) -> Router + Send + 'static) -> Self {
        Self { routes: Some(Box::new(make)), ..self }
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
        let routes = routes.unwrap_or_else(|| Box::new(|_| Router::new()));
        Server::start_built(config, registry, routes).await
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
