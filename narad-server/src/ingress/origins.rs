//! Which trace a message in the produce log came with, so that its commit can name it. Only while somebody traces; bounded,
//! and forgotten with the process.

use std::{collections::VecDeque, ops::Range};

use narad_core::format::Offset;
use opentelemetry::trace::SpanContext;
use parking_lot::Mutex;

/// Produces that are remembered; a commit names no trace of those before.
const REMEMBERED: usize = 4096;
/// Traces that one commit names, at most.
const NAMED: usize = 64;

/// The traces of the last produces.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<VecDeque<(Range<Offset>, SpanContext)>>);

impl Origins {
    /// The records at `offsets` came with that trace.
    pub(super) fn note(&self, offsets: Range<Offset>, trace: SpanContext) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((offsets, trace));
    }

    /// The traces that these records, ascending, came with; each once.
    pub(super) fn of(&self, offsets: &[Offset]) -> Vec<SpanContext> {
        if offsets.is_empty() {
            return Vec::new();
        }
        let known = self.0.lock();
        let holds = |range: &Range<Offset>| {
            let first = offsets.partition_point(|offset| *offset < range.start);
            offsets.get(first).is_some_and(|offset| *offset < range.end)
        };
        known.iter().filter(|(range, _)| holds(range)).map(|(_, trace)| trace.clone()).take(NAMED).collect()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    #[test]
    fn a_commit_names_the_traces_of_its_records_and_the_oldest_are_forgotten() {
        let origins = Origins::default();
        let trace = |number: u64| {
            let (trace, span) = (TraceId::from(u128::from(number) + 1), SpanId::from(number + 1));
            SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
        };
        let range = |start: u64, end: u64| Offset::new(start).unwrap()..Offset::new(end).unwrap();
        origins.note(range(0, 2), trace(0));
        origins.note(range(2, 3), trace(1));
        origins.note(range(5, 9), trace(2));
        let at = |offsets: &[u64]| {
            let offsets: Vec<_> = offsets.iter().map(|offset| Offset::new(*offset).unwrap()).collect();
            origins.of(&offsets)
        };
        assert_eq!(at(&[1]), [trace(0)]);
        assert_eq!(at(&[0, 1, 2, 3]), [trace(0), trace(1)]);
        assert_eq!(at(&[4, 9]), []);
        assert_eq!(at(&[8]), [trace(2)]);
        for number in 0..REMEMBERED as u64 {
            origins.note(range(100 + number, 101 + number), trace(number));
        }
        assert_eq!(at(&[1]), []);
        assert_eq!(origins.0.lock().len(), REMEMBERED);
    }
}
