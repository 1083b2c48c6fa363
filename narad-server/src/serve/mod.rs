//! A running server: open, listen, and end within the grace. What a request does is decided elsewhere.

mod accept;
mod builder;
mod connection;
mod limits;
mod listeners;
mod server;
mod signals;
mod timed_io;

use std::{io::Write, net::SocketAddr, time::Duration};

pub use builder::Builder;
pub use server::Server;
use tokio::time::Instant;

use crate::{
    broker::{BrokerError, check_plugins},
    config::{self, Address, ConfigErrors, Overrides},
    http::Access,
    secret::Secret,
    telemetry,
};

/// How long an end waits for a collector.
const FLUSH: Duration = Duration::from_secs(5);

/// Why the server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A plugin of the configuration is unknown or cannot be built, or two claim one name. Nothing was opened.
    #[error(transparent)]
    Plugins(#[from] narad_core::plugin::RegistryError),
    /// The data directory is in use or cannot be used.
    #[error("cannot open the data directory: {}", why_not_open(.0))]
    Open(#[source] BrokerError),
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}{}", way_out(source))]
    Listen {
        /// The address of the configuration.
        addr: Address,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Under `--dev` the address leads elsewhere than to loopback.
    #[error("{0} is not loopback, and --dev has no security")]
    NotLoopback(SocketAddr),
    /// The first user could not be made.
    #[error("cannot make the first user: {0}")]
    FirstUser(#[source] BrokerError),
    /// The process's signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(#[source] std::io::Error),
    /// Something could not be closed. What was acknowledged is on disk all the same.
    #[error("could not close everything: {0}")]
    Close(#[source] BrokerError),
}

/// A directory in use is no failure of storage, and must not read like one.
fn why_not_open(error: &BrokerError) -> String {
    match error {
        BrokerError::Storage(locked @ narad_core::Error::Locked { .. }) => locked.to_string(),
        other => other.to_string(),
    }
}

fn way_out(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another narad may be running there: stop it, or give another address with --addr HOST:PORT"
        }
        _ => "",
    }
}

/// Runs the server until SIGTERM or SIGINT. After the bind it writes one line to standard error:
/// `listening on http://HOST:PORT`.
///
/// What could not be made exact on disk at the end is logged and no error: everything acknowledged is there.
///
/// # Errors
/// It could not start.
pub async fn run(overrides: Overrides) -> Result<(), ServeError> {
    Builder::new()?.run(overrides).await
}

async fn run_built(overrides: Overrides, builder: Builder) -> Result<(), ServeError> {
    let settings = config::read(&overrides, config::environment()?, |storage| {
        check_plugins(builder.registry(), storage)
    })?;
    let config = settings.config;
    let mut telemetry = telemetry::start(&config);
    let grace = config.http.shutdown_grace.0;
    for name in settings.strangers {
        tracing::warn!(%name, "this environment variable is no setting of this version, and is ignored");
    }
    limits::raise_descriptors();
    let mut signals = signals::Signals::new().map_err(ServeError::Signals)?;
    if Access::of(&config) == Access::Anybody {
        tracing::warn!(addr = %config.http.addr, "security is off: whoever reaches the API may do everything");
    }
    let server = builder.start(config).await?;
    telemetry.send_series(server.series());
    if let Some(password) = server.generated_password().and_then(Secret::expose_text) {
        // Not through the log, whose level may leave it out.
        let _ = writeln!(std::io::stderr(), "admin password: {password}");
    }
    // Not `eprintln`: it panics when standard error takes nothing, such as a file on a full disk.
    let _ = writeln!(std::io::stderr(), "listening on http://{}", server.addr());
    let signal = signals.first().await;
    tracing::info!(signal, "shutting down");
    let end = Instant::now() + grace;
    match server.shutdown().await {
        Ok(()) => tracing::info!("ended"),
        // Not a failed end: a full disk, say, takes no exact positions, and the next start recovers them.
        Err(error) => {
            tracing::error!(%error, "ended without making everything exact on disk; the next start recovers it");
        }
    }
    // What is left of the grace, and no more than a collector that works needs.
    telemetry.shutdown(end.min(Instant::now() + FLUSH)).await;
    Ok(())
}
