//! A server from its start to its end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use narad_core::{
    plugin::Registry,
    runtime::{Runtime, RuntimeOptions},
};
use tokio::time::Instant;

use super::{
    ServeError,
    accept::{Acceptor, Connections},
    limits,
    listeners::{Bound, Listeners, Listening},
};
use crate::{
    broker::{Broker, BrokerError, default_plugins},
    config::Config,
    http::{Access, App},
    secret::Secret,
    telemetry::Source,
};

/// Threads for file I/O, which start when there is work: three times the commits to partitions that run at one time.
/// When each of those hangs in the disk, there are some left for the produce log and for reads, those of one topic
/// with many partitions included.
const IO_WORKERS: usize = 48;
/// Memory for decoded frames: those that are on their way from the produce log to their partitions and from there to
/// consumers that keep up. What is read further back is in the system's cache.
const CACHE_BYTES: usize = 24 << 20;
/// Connections to the metrics' own listener, at most.
const METRICS_CONNECTIONS: u32 = 64;

/// A running server. Call [`shutdown`](Self::shutdown): dropping it leaves the data directory as a crash would.
#[derive(Debug)]
pub struct Server {
    api: Listening,
    /// Where the metrics are when they are not with the API.
    metrics: Option<Listening>,
    generated_password: Option<Secret>,
    broker: Broker,
    app: App,
    grace: Duration,
}

impl Server {
    /// Opens the data directory, listens, and serves; partitions open in the background.
    ///
    /// # Errors
    /// Nothing stays open after an error.
    pub async fn start(config: Config) -> Result<Self, ServeError> {
        Self::start_built(config, default_plugins()?, |_| Router::new()).await
    }

    /// The same with the plugins of `registry`, from which the configuration names them, and with routes beside `/v1`: what
    /// a [`Builder`](super::Builder) starts.
    pub(super) async fn start_built(
        config: Config,
        registry: Registry,
        routes: impl FnOnce(Broker) -> Router,
    ) -> Result<Self, ServeError> {
        // Before anything is opened: a port that is taken leaves the data directory as it is.
        let bound = Bound::all(&config).await?;
        let mut options = RuntimeOptions::default();
        options.workers = IO_WORKERS;
        options.cache_bytes = CACHE_BYTES;
        let broker = Broker::open(Runtime::new(options), registry, &config).await.map_err(why)?;
        let routes = routes(broker.clone());
        Self::listen_on(Ok(bound), broker, config, routes).await
    }

    /// Serves a broker that is open already, as `config` says of the listener. It is the server's from here on: an error
    /// and [`shutdown`](Self::shutdown) close it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(broker: Broker, config: Config) -> Result<Self, ServeError> {
        let bound = Bound::all(&config).await;
        Self::listen_on(bound, broker, config, Router::new()).await
    }

    async fn listen_on(
        bound: Result<Bound, ServeError>,
        broker: Broker,
        config: Config,
        routes: Router,
    ) -> Result<Self, ServeError> {
        let ready = async {
            let listeners = bound?.listen()?;
            // The address is there before the first user is: a password that was made up is told once.
            let generated = match Access::of(&config) {
                Access::Users => {
                    broker.seed_root(config.admin_password.clone()).await.map_err(ServeError::FirstUser)?
                }
                Access::Anybody | Access::Loopback => None,
            };
            Ok((listeners, generated))
        };
        match ready.await {
            Ok((listeners, generated)) => Ok(Self::serve(listeners, generated, broker, config, routes)),
            Err(error) => {
                if let Err(close) = broker.close(Duration::ZERO).await {
                    tracing::error!(error = %close, "the data directory could not be closed");
                }
                Err(error)
            }
        }
    }

    fn serve(
        listeners: Listeners,
        generated_password: Option<Secret>,
        broker: Broker,
        config: Config,
        routes: Router,
    ) -> Self {
        let grace = config.http.shutdown_grace.0;
        let app = App::new(broker.clone(), config.http.clone(), Access::of(&config));
        let listening = |(listener, addr), routes, connections| {
            let (connections, http) = (Connections::new(connections), config.http.clone());
            let acceptor = Acceptor::start(listener, routes, http, connections.clone(), broker.clone());
            Listening { addr, acceptor, connections }
        };
        let metrics = listeners
            .metrics
            .map(|listener| listening(listener, app.clone().metrics_routes(), METRICS_CONNECTIONS));
        let connections = limits::connections(config.http.max_connections);
        let api = listening(listeners.api, app.clone().routes_beside(routes), connections);
        Self { api, metrics, generated_password, broker, app, grace }
    }

    /// Where it listens; never port 0.
    pub fn addr(&self) -> SocketAddr {
        self.api.addr
    }

    /// Where the metrics are, when they have a listener of their own.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|metrics| metrics.addr)
    }

    /// The password that this start has made up for the first user, which is durable. Nobody else knows it: show it to
    /// whoever started the server.
    pub fn generated_password(&self) -> Option<&Secret> {
        self.generated_password.as_ref()
    }

    /// The broker behind it.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Where its series come from, for as long as anybody asks.
    pub fn series(&self) -> Arc<dyn Source> {
        Arc::new(self.app.clone())
    }

    /// Ends the server within `http.shutdown_grace`: parked consumes are answered with nothing, requests that run
    /// are finished, then everything is closed.
    ///
    /// When the grace is not enough, that is logged and it ends all the same: the next start does what was left.
    ///
    /// # Errors
    /// What failed to be closed. What was acknowledged is on disk all the same.
    pub async fn shutdown(self) -> Result<(), ServeError> {
        let end = Instant::now() + self.grace;
        self.app.begin_shutdown();
        self.broker.stop_consumes();
        // A client that never finishes its request must not cost the others their orderly end.
        let for_requests = end - self.grace * 2 / 5;
        self.api.end(for_requests).await;
        if let Some(metrics) = self.metrics {
            metrics.end(for_requests).await;
        }
        let for_backlog = end.saturating_duration_since(Instant::now()) / 2;
        match tokio::time::timeout_at(end, self.broker.close(for_backlog)).await {
            Ok(closed) => closed.map_err(ServeError::Close),
            Err(_) => {
                tracing::error!(
                    grace = ?self.grace,
                    "http.shutdown_grace is over before everything was closed; the next start does what is left"
                );
                // What lets go of files as it is dropped, such as the metastore's, would wait here for the disk.
                std::mem::forget(self.broker);
                Ok(())
            }
        }
    }
}

/// A plugin that cannot be built is no fault of the directory, and must not read like one.
fn why(error: BrokerError) -> ServeError {
    match error {
        BrokerError::Plugin(error) => ServeError::Plugins(error),
        error => ServeError::Open(error),
    }
}
