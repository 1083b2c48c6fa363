//! The program's own log, and everything that is measured: names, series, and how they leave. Decides nothing; must
//! never hold up a request.

pub mod exposition;
pub mod families;
mod logging;
pub mod names;

use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::Log;

/// Installs the log for the process. A second call changes nothing: the first log stays. Must be called within a tokio
/// runtime.
pub fn init(settings: &Log) {
    let (lines, repeated) = logging::layer(settings);
    if tracing_subscriber::registry().with(lines).try_init().is_ok() {
        logging::keep_saying(repeated);
    }
}
