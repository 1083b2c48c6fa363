//! When whoever leads commits lets others run before the next cycle: those who were told the outcome of the last one are
//! about to come again, and each cycle has the price of an fsync.
//!
//! Knows nothing of logs: what waits, how time passes and how to step back is handed in.

use std::time::Duration;

/// So many members of a cycle make it worth to wait for others to come.
const ENOUGH: usize = 4;
/// How often a leader steps back for them, at most.
const STEPS: u32 = 100;
/// Longer than this, and processors are busy with work that brings no commits. How long a step takes is the scheduler's to say.
const TOO_LONG: Duration = Duration::from_micros(500);
/// Cycles without a step back after one that took too long.
const REST: u32 = 64;

/// What a leader knows of the cycles before.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// The last one's members.
    members: usize,
    /// Cycles for which it does not step back.
    rest: u32,
}

impl Company {
    /// A cycle has so many members.
    pub(super) fn came(&mut self, members: usize) {
        self.members = members;
    }

    /// Steps back while less than half as many as before are `waiting`, within a bound.
    pub(super) fn gather(
        &mut self,
        waiting: impl Fn() -> usize,
        now: impl Fn() -> Duration,
        mut step_back: impl FnMut(),
    ) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        if self.members < ENOUGH {
            return;
        }
        let since = now();
        for _ in 0..STEPS {
            if waiting() >= self.members / 2 {
                return;
            }
            step_back();
            if now().saturating_sub(since) > TOO_LONG {
                self.rest = REST;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often `company` steps back, where each step takes `takes` and brings one more who waits.
    fn steps(company: &mut Company, takes: Duration, brings: usize) -> u32 {
        let (waiting, now, steps) = (Cell::new(0), Cell::new(Duration::ZERO), Cell::new(0));
        company.gather(
            || waiting.get(),
            || now.get(),
            || {
                waiting.set(waiting.get() + brings);
                now.set(now.get() + takes);
                steps.set(steps.get() + 1);
            },
        );
        steps.get()
    }

    const SHORT: Duration = Duration::from_nanos(300);

    #[test]
    fn it_steps_back_for_half_of_those_who_came_before_and_for_few_not_at_all() {
        let mut company = Company::default();
        assert_eq!(steps(&mut company, SHORT, 1), 0, "nobody came before");
        company.came(ENOUGH - 1);
        assert_eq!(steps(&mut company, SHORT, 1), 0);
        company.came(20);
        assert_eq!(steps(&mut company, SHORT, 1), 10);
        assert_eq!(steps(&mut company, SHORT, 10), 1);
        assert_eq!(steps(&mut company, SHORT, 0), STEPS, "nobody comes");
    }

    #[test]
    fn where_a_step_takes_too_long_it_takes_none_for_a_while() {
        let mut company = Company::default();
        company.came(20);
        assert_eq!(steps(&mut company, TOO_LONG * 2, 1), 1);
        for cycle in 0..REST {
            assert_eq!(steps(&mut company, SHORT, 1), 0, "cycle {cycle}");
        }
        assert_eq!(steps(&mut company, SHORT, 1), 10);
    }
}
