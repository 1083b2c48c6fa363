//! A running server.

use crate::config::Overrides;

/// Why the server did not start or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Security is not there yet, and the server never runs open.
    #[error("security is not there yet, and narad never runs open: start with --dev (loopback only)")]
    NoSecurity,
}

/// Runs the server until SIGTERM or SIGINT.
pub async fn run(overrides: Overrides) -> Result<(), ServeError> {
    todo!("{overrides:?}")
}
