//! What a log tells of its work: its counters, and spans for whoever traces. Decides nothing.
//!
//! The spans are at level DEBUG and their events at TRACE: while nobody asks for them, they cost a look at a static.

use std::time::Duration;

use tracing::{Span, field::Empty, span::Id};

use super::{
    Inner, Swept,
    combine::Member,
    recover::Survey,
    writer::{Failure, WriteContext, Writer},
};
use crate::{error::Result, metrics::LogMetrics, plugin::LogIdentity};

/// Callers that a combined commit names, at most.
const LINKS: usize = 64;

/// The span of an open.
pub(super) fn open_span(log: &LogIdentity) -> Span {
    tracing::debug_span!(
        "log.open",
        %log,
        bytes_scanned = Empty,
        bytes_truncated = Empty,
        gaps = Empty,
    )
}

/// Says how many records the commit that runs carries.
pub(super) fn tell_records(records: usize) {
    Span::current().record("records", records);
}

/// What an open found, to be told when it has succeeded.
pub(super) struct Recovering {
    scanned: u64,
    cut: u64,
    gaps: u64,
}

impl Recovering {
    pub(super) fn of(survey: &Survey) -> Self {
        let (scanned, cut) =
            survey.active.as_ref().map_or((0, 0), |active| (active.segment.len, active.torn_bytes()));
        Self { scanned, cut, gaps: survey.damages }
    }

    pub(super) fn tell(self, metrics: &LogMetrics, span: &Span) {
        span.record("bytes_scanned", self.scanned).record("bytes_truncated", self.cut);
        span.record("gaps", self.gaps);
        metrics.opened(self.scanned, self.cut, self.gaps);
    }
}

impl Inner {
    /// The span of a commit. One that serves a single caller belongs into what that caller is at; one that serves
    /// several belongs to none of them and names each.
    pub(super) fn commit_span(&self, members: &[Member]) -> Span {
        let parent: Option<Id> = match members {
            [only] => only.span.id(),
            _ => None,
        };
        let span = tracing::debug_span!(
            parent: parent,
            "log.commit",
            log = %self.options.identity,
            codec = self.codecs().writing.name(),
            batches = members.len(),
            records = Empty,
            bytes = Empty,
        );
        if members.len() > 1 && !span.is_disabled() {
            for member in members.iter().take(LINKS) {
                span.follows_from(&member.span);
            }
        }
        span
    }

    /// The span of what a sweep does to the files; none for one that does nothing.
    pub(super) fn sweep_span(&self, swept: Option<&Swept>) -> Span {
        match swept.filter(|swept| swept.segments > 0) {
            Some(Swept { segments, bytes, records }) => {
                tracing::debug_span!("log.sweep", log = %self.options.identity, segments, bytes, records)
            }
            None => Span::none(),
        }
    }

    /// Writes what is encoded and not written, and counts it.
    pub(super) fn write(&self, writer: &mut Writer, context: WriteContext<'_>) -> Result<(), Failure> {
        let bytes = writer.waiting_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let since = self.now();
        writer.anchor(context.disk)?;
        let written = writer.write(context);
        self.metrics.flushed(self.now().saturating_sub(since), bytes - writer.waiting_bytes().min(bytes));
        Span::current().record("bytes", bytes);
        tracing::trace!("write");
        written.map_err(Failure::Clean)
    }

    /// Counts an fsync, be it one that has failed.
    pub(super) fn tell_synced(&self, took: Duration) {
        self.metrics.synced(took);
        tracing::trace!("fsync");
    }

    fn now(&self) -> Duration {
        self.runtime.clock().monotonic()
    }
}
