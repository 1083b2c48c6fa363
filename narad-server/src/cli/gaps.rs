//! Offsets that a reader passes over, told of as runs: a damaged segment is one line and not a million.

use super::output::Output;

/// Offsets passed over so far.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    run: Option<Run>,
    count: u64,
}

#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    /// Why the first of them was.
    why: String,
}

impl Gaps {
    /// Notes that `offset` was passed over, and tells of the run before if it does not belong to that.
    pub(super) fn pass_over(&mut self, offset: u64, why: String, out: &Output) {
        self.count += 1;
        match &mut self.run {
            Some(run) if run.last.checked_add(1) == Some(offset) => run.last = offset,
            _ => {
                self.tell(out);
                self.run = Some(Run { first: offset, last: offset, why });
            }
        }
    }

    /// Notes that everything from `first` to `last` was, and tells of it.
    pub(super) fn pass_over_all(&mut self, first: u64, last: u64, why: String, out: &Output) {
        self.tell(out);
        self.count += (last - first).saturating_add(1);
        self.run = Some(Run { first, last, why });
        self.tell(out);
    }

    /// Tells of the run, which has ended.
    pub(super) fn tell(&mut self, out: &Output) {
        if let Some(Run { first, last, why }) = self.run.take() {
            if first == last {
                out.complain(format_args!("offset {first}: passed over: {why}"));
            } else {
                out.complain(format_args!("offsets {first} to {last}: passed over: {why}"));
            }
        }
    }

    /// Whether there was none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
