//! Sockets from their address to a listener at work.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::{
    net::{TcpListener, TcpSocket},
    time::Instant,
};

use super::{
    ServeError,
    accept::{Acceptor, Connections},
};
use crate::config::{Address, Config};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A listener at work.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) addr: SocketAddr,
    pub(super) acceptor: Acceptor,
    pub(super) connections: Connections,
}

impl Listening {
    /// Lets the requests under way finish until `deadline`, then cuts what is left.
    pub(super) async fn end(self, deadline: Instant) {
        self.connections.finish(deadline).await;
        self.acceptor.stop().await;
        self.connections.abort(deadline).await;
    }
}

/// Sockets that have their addresses. Who connects is refused until they listen, and is not left waiting for an answer.
pub(super) struct Bound {
    api: Socket,
    metrics: Option<Socket>,
}

/// The same, listening.
pub(super) struct Listeners {
    pub(super) api: (TcpListener, SocketAddr),
    /// Where the metrics are when they are not with the API.
    pub(super) metrics: Option<(TcpListener, SocketAddr)>,
}

impl Bound {
    /// Takes every address of the configuration.
    pub(super) async fn all(config: &Config) -> Result<Self, ServeError> {
        let api = Socket::bind(&config.http.addr, config.dev).await?;
        let metrics = match &config.http.metrics_addr {
            Some(address) => Some(Socket::bind(address, config.dev).await?),
            None => None,
        };
        Ok(Self { api, metrics })
    }

    pub(super) fn listen(self) -> Result<Listeners, ServeError> {
        let metrics = self.metrics.map(Socket::listen).transpose()?;
        Ok(Listeners { api: self.api.listen()?, metrics })
    }
}

struct Socket {
    socket: TcpSocket,
    address: Address,
}

impl Socket {
    async fn bind(address: &Address, dev: bool) -> Result<Self, ServeError> {
        let port = address.port();
        let bound = match address.host() {
            Some(host) => match tokio::net::lookup_host((host, port)).await {
                Ok(addrs) => first_free(addrs),
                Err(error) => Err(error),
            },
            // On a machine without IPv6 every interface is the IPv4 ones.
            None => first_free([(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]),
        };
        let socket = bound.map_err(|source| cannot_listen(address, source))?;
        let addr = socket.local_addr().map_err(|source| cannot_listen(address, source))?;
        if dev && !addr.ip().is_loopback() {
            return Err(ServeError::NotLoopback(addr));
        }
        Ok(Self { socket, address: address.clone() })
    }

    fn listen(self) -> Result<(TcpListener, SocketAddr), ServeError> {
        let listening = self.socket.listen(BACKLOG).and_then(|listener| {
            let addr = listener.local_addr()?;
            Ok((listener, addr))
        });
        listening.map_err(|source| cannot_listen(&self.address, source))
    }
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
