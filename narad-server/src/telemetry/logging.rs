//! The program's own log: `tracing` events on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Log, LogFormat};

/// Installs the log for the process. A second call changes nothing: the first log stays.
pub fn init(settings: &Log) {
    // The configuration was validated, so the filter parses.
    let filter: Targets = settings.level.parse().unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written, for the disk is full or the reader has gone, is lost. To say so there as well
        // would panic, in the middle of whatever was logging.
        .log_internal_errors(false);
    let lines = match settings.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}
