//! The program's own log: `tracing` events on standard error.

mod lines;
pub(super) mod steady;

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Instant,
};

use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::format::{Format, JsonFields},
    registry::LookupSpan,
};

use self::{
    lines::Lines,
    steady::{PERIOD, Steady},
};
use crate::config::{Log, LogFormat};

/// The layer that writes lines, and what it remembers of them.
pub(super) fn layer<S>(settings: &Log) -> (Box<dyn Layer<S> + Send + Sync>, Arc<dyn Repeated>)
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    // The configuration was validated, so the filter parses.
    let filter: Targets = settings.level.parse().unwrap_or_default();
    let (steady, format) = (Arc::<Steady>::default(), settings.format);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written, for the disk is full or the reader has gone, is lost. To say so there as well
        // would panic, in the middle of whatever was logging.
        .log_internal_errors(false);
    let remembered = Arc::clone(&steady);
    let layer = match format {
        LogFormat::Json => {
            let inner = Format::default().json().flatten_event(true);
            lines.fmt_fields(JsonFields::new()).event_format(Lines { inner, format, steady }).boxed()
        }
        LogFormat::Text => lines.event_format(Lines { inner: Format::default(), format, steady }).boxed(),
    };
    (layer.with_filter(filter).boxed(), remembered)
}

/// Says from time to time what was left out of the log and not said again.
pub(super) trait Repeated: Send + Sync {
    /// Writes a line for each message that was left out for a period.
    fn say(&self);
}

impl Repeated for Steady {
    fn say(&self) {
        for left in self.overdue(Instant::now()) {
            let (times, place, what) = (left.times, left.target, left.message);
            // An event of its own; below WARN it would not be seen by whoever sees the messages that it stands for.
            if left.is_error {
                tracing::error!(path = %format!("{place}: {what}"), times, "said again, and left out of the log");
            } else {
                tracing::warn!(path = %format!("{place}: {what}"), times, "said again, and left out of the log");
            }
        }
    }
}

/// Says what was left out for as long as the process runs.
pub(super) fn keep_saying(repeated: Arc<dyn Repeated>) {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PERIOD / 6);
        loop {
            ticks.tick().await;
            repeated.say();
        }
    });
}
