//! A server from its start to its end.

use std::{net::SocketAddr, time::Duration};

use narad_core::{
    plugin::Registry,
    runtime::{Runtime, RuntimeOptions},
};
use tokio::{net::TcpListener, time::Instant};

use super::{
    ServeError,
    accept::{Acceptor, Connections},
};
use crate::{
    broker::{Broker, BrokerError, default_plugins},
    config::{Config, Http},
    http::App,
};

/// Threads for file I/O, which start when there is work: three times the commits to partitions that run at one time.
/// When each of those hangs in the disk, there are some left for the produce log and for reads, those of one topic
/// with many partitions included.
const IO_WORKERS: usize = 48;

/// A running server. Call [`shutdown`](Self::shutdown): dropping it leaves the data directory as a crash would.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    broker: Broker,
    app: App,
    acceptor: Acceptor,
    connections: Connections,
    grace: Duration,
}

impl Server {
    /// Opens the data directory, listens, and serves; partitions open in the background.
    ///
    /// # Errors
    /// Nothing stays open after an error.
    pub async fn start(config: Config) -> Result<Self, ServeError> {
        Self::start_with(config, default_plugins()?).await
    }

    /// The same with the plugins of `registry`, from which the configuration names them: begin with
    /// [`default_plugins`] and register your own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(config: Config, registry: Registry) -> Result<Self, ServeError> {
        if !config.dev {
            return Err(ServeError::NoSecurity);
        }
        let mut options = RuntimeOptions::default();
        options.workers = IO_WORKERS;
        let broker = Broker::open(Runtime::new(options), registry, &config).await.map_err(why)?;
        Self::start_on(broker, config).await
    }

    /// Serves a broker that is open already, as `config` says of the listener. It is the server's from here on: an error
    /// and [`shutdown`](Self::shutdown) close it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(broker: Broker, config: Config) -> Result<Self, ServeError> {
        let listening =
            if config.dev { listen(&config.http, config.dev).await } else { Err(ServeError::NoSecurity) };
        match listening {
            Ok((listener, addr)) => Ok(Self::serve(listener, addr, broker, config)),
            Err(error) => {
                if let Err(close) = broker.close(Duration::ZERO).await {
                    tracing::error!(error = %close, "the data directory could not be closed");
                }
                Err(error)
            }
        }
    }

    fn serve(listener: TcpListener, addr: SocketAddr, broker: Broker, config: Config) -> Self {
        let grace = config.http.shutdown_grace.0;
        let app = App::new(broker.clone(), config.http.clone(), config.dev);
        let connections = Connections::new(config.http.max_connections);
        let acceptor =
            Acceptor::start(listener, app.clone().routes(), config.http, connections.clone(), broker.clone());
        Self { addr, broker, app, acceptor, connections, grace }
    }

    /// Where it listens; never port 0.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The broker behind it.
    pub fn broker(&self) -> &Broker {
        &self.broker
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
        self.connections.finish(for_requests).await;
        self.acceptor.stop().await;
        self.connections.abort(for_requests).await;
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

async fn listen(http: &Http, dev: bool) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { addr: http.addr.clone(), source };
    let port = http.addr.port();
    let listener = match http.addr.host() {
        Some(host) => TcpListener::bind((host, port)).await,
        // On a machine without IPv6 every interface is the IPv4 ones.
        None => match TcpListener::bind(("::", port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
        },
    };
    let listener = listener.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    if dev && !addr.ip().is_loopback() {
        return Err(ServeError::NotLoopback(addr));
    }
    Ok((listener, addr))
}
