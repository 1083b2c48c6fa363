//! A server from its start to its end.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use narad_core::{
    plugin::Registry,
    runtime::{Runtime, RuntimeOptions},
};
use tokio::{
    net::{TcpListener, TcpSocket},
    time::Instant,
};

use super::{
    ServeError,
    accept::{Acceptor, Connections},
};
use crate::{
    broker::{Broker, BrokerError, default_plugins},
    config::{Address, Config, Http},
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
        // Before anything is opened: a port that is taken leaves the data directory as it is.
        let socket = bind(&config.http, config.dev).await?;
        let mut options = RuntimeOptions::default();
        options.workers = IO_WORKERS;
        let broker = Broker::open(Runtime::new(options), registry, &config).await.map_err(why)?;
        Self::listen_on(Ok(socket), broker, config).await
    }

    /// Serves a broker that is open already, as `config` says of the listener. It is the server's from here on: an error
    /// and [`shutdown`](Self::shutdown) close it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(broker: Broker, config: Config) -> Result<Self, ServeError> {
        let bound =
            if config.dev { bind(&config.http, config.dev).await } else { Err(ServeError::NoSecurity) };
        Self::listen_on(bound, broker, config).await
    }

    async fn listen_on(
        bound: Result<Bound, ServeError>,
        broker: Broker,
        config: Config,
    ) -> Result<Self, ServeError> {
        match bound.and_then(|bound| bound.listen(&config.http)) {
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

/// A socket that has its address. Who connects is refused until it listens, and is not left waiting for an answer.
struct Bound(TcpSocket);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

impl Bound {
    fn listen(self, http: &Http) -> Result<(TcpListener, SocketAddr), ServeError> {
        let listening = self.0.listen(BACKLOG).and_then(|listener| {
            let addr = listener.local_addr()?;
            Ok((listener, addr))
        });
        listening.map_err(|source| cannot_listen(&http.addr, source))
    }
}

async fn bind(http: &Http, dev: bool) -> Result<Bound, ServeError> {
    let port = http.addr.port();
    let bound = match http.addr.host() {
        Some(host) => match tokio::net::lookup_host((host, port)).await {
            Ok(addrs) => first_free(addrs),
            Err(error) => Err(error),
        },
        // On a machine without IPv6 every interface is the IPv4 ones.
        None => first_free([(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]),
    };
    let socket = bound.map_err(|source| cannot_listen(&http.addr, source))?;
    let addr = socket.local_addr().map_err(|source| cannot_listen(&http.addr, source))?;
    if dev && !addr.ip().is_loopback() {
        return Err(ServeError::NotLoopback(addr));
    }
    Ok(Bound(socket))
}

/// A socket with the first of `addrs` that can be had.
fn first_free(addrs: impl IntoIterator<Item = SocketAddr>) -> io::Result<TcpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in addrs {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let bound = socket.and_then(|socket| {
            // A port on which a server has just ended is not taken.
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn cannot_listen(addr: &Address, source: io::Error) -> ServeError {
    ServeError::Listen { addr: addr.clone(), source }
}
