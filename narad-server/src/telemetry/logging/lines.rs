//! A line of the log: what `tracing-subscriber` writes, with the trace that it belongs to and the number of times that it
//! stands for.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
    time::Instant,
};

use opentelemetry::trace::TraceContextExt;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::steady::{Steady, Verdict};
use crate::config::LogFormat;

/// Writes lines as `inner` does, and adds to them.
pub(super) struct Lines<F> {
    pub(super) inner: F,
    pub(super) format: LogFormat,
    pub(super) steady: Arc<Steady>,
}

impl<S, N, F> FormatEvent<S, N> for Lines<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Nothing is written to a line that is left out, and the writer is handed nothing.
        let Verdict::Write(repeated) = self.steady.judge(event, Instant::now()) else { return Ok(()) };
        let added = self.added(repeated);
        if added.is_empty() {
            return self.inner.format_event(context, writer, event);
        }
        let mut line = String::new();
        // Without colours: a writer of our own has none.
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        match self.format {
            LogFormat::Json => writeln!(writer, "{}{added}}}", line.strip_suffix('}').unwrap_or(line)),
            LogFormat::Text => writeln!(writer, "{line}{added}"),
        }
    }
}

impl<F> Lines<F> {
    /// What comes behind the line's own fields.
    fn added(&self, repeated: u64) -> String {
        let mut added = String::new();
        let mut add = |name: &str, value: &dyn fmt::Display, is_text: bool| {
            // Writing to a string does not fail.
            let _ = match (self.format, is_text) {
                (LogFormat::Json, true) => write!(added, ",\"{name}\":\"{value}\""),
                (LogFormat::Json, false) => write!(added, ",\"{name}\":{value}"),
                (LogFormat::Text, _) => write!(added, " {name}={value}"),
            };
        };
        let context = opentelemetry::Context::current();
        let span = context.span();
        let span = span.span_context();
        if span.is_valid() {
            add("trace_id", &span.trace_id(), true);
            add("span_id", &span.span_id(), true);
        }
        if repeated > 0 {
            add("repeated", &repeated, false);
        }
        added
    }
}
