//! Keeps a steady fault from filling the log: what is said at one place, about one log or topic, is written at most once a
//! minute, with the number of times that it stands for.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata,
    callsite::Identifier,
    field::{Field, Visit},
};

/// How often one place is written.
pub(super) const PERIOD: Duration = Duration::from_secs(60);
/// Who says what was left out, no more often than that.
const SAYS_IT: &str = "narad_server::telemetry::logging";
/// Places that are told apart by what they are about; beyond that a callsite is one place.
const MAX_PLACES: usize = 4096;
/// Letters of a message that are kept for the line which says how often it was left out.
const KEPT: usize = 200;
/// The fields that say what an event is about, so that one failing partition does not hide another.
const ABOUT: [&str; 8] = ["log", "topic", "partition", "parent", "child", "path", "dir", "plugin"];

/// What was written lately, by its place.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct Steady(Mutex<HashMap<(Identifier, u64), Repeats>>);

#[derive(Debug)]
struct Repeats {
    /// When it was written last.
    written: Instant,
    /// When it came last.
    seen: Instant,
    /// How often it was left out since.
    left_out: u64,
    metadata: &'static Metadata<'static>,
    message: String,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::telemetry) enum Verdict {
    /// It is written, and stands for so many before it.
    Write(u64),
    /// It is counted.
    LeaveOut,
}

/// What was left out and has not been said again within a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) times: u64,
    pub(super) target: &'static str,
    pub(super) message: String,
    pub(super) is_error: bool,
}

impl Steady {
    /// Decides about an event. Those below WARN are always written.
    pub(in crate::telemetry) fn judge(&self, event: &Event<'_>, now: Instant) -> Verdict {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.target() == SAYS_IT {
            return Verdict::Write(0);
        }
        let mut about = About::default();
        event.record(&mut about);
        let mut places = self.0.lock();
        let mut place = (metadata.callsite(), about.hasher.finish());
        if places.len() >= MAX_PLACES && !places.contains_key(&place) {
            places.retain(|_, repeats| {
                repeats.left_out > 0 || now.saturating_duration_since(repeats.written) < PERIOD
            });
            if places.len() >= MAX_PLACES {
                place.1 = 0;
            }
        }
        match places.get_mut(&place) {
            Some(repeats) if now.saturating_duration_since(repeats.written) < PERIOD => {
                repeats.seen = now;
                repeats.left_out = repeats.left_out.saturating_add(1);
                Verdict::LeaveOut
            }
            Some(repeats) => {
                (repeats.written, repeats.seen) = (now, now);
                Verdict::Write(std::mem::take(&mut repeats.left_out))
            }
            None => {
                let message = about.message;
                places.insert(place, Repeats { written: now, seen: now, left_out: 0, metadata, message });
                Verdict::Write(0)
            }
        }
    }

    /// What was left out and has not come for a period, so that nothing says it any more: for one line each, which counts as
    /// written now.
    pub(super) fn overdue(&self, now: Instant) -> Vec<LeftOut> {
        let mut places = self.0.lock();
        places.retain(|_, repeats| {
            repeats.left_out > 0 || now.saturating_duration_since(repeats.written) < PERIOD
        });
        let due = places
            .values_mut()
            .filter(|repeats| repeats.left_out > 0 && now.saturating_duration_since(repeats.seen) >= PERIOD);
        due.map(|repeats| {
            repeats.written = now;
            LeftOut {
                times: std::mem::take(&mut repeats.left_out),
                target: repeats.metadata.target(),
                message: repeats.message.clone(),
                is_error: *repeats.metadata.level() == Level::ERROR,
            }
        })
        .collect()
    }
}

/// Learns what an event is about, and what it says.
#[derive(Default)]
struct About {
    hasher: DefaultHasher,
    message: String,
}

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}").chars().take(KEPT).collect();
        } else if ABOUT.contains(&field.name()) {
            (field.name(), format!("{value:?}")).hash(&mut self.hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::{Layer, layer::SubscriberExt};

    use super::*;

    /// Judges every event at a time that the test sets.
    struct Judge(Arc<Steady>, Arc<Mutex<(Instant, Vec<Verdict>)>>);

    impl<S: tracing::Subscriber> Layer<S> for Judge {
        fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            let mut seen = self.1.lock();
            let verdict = self.0.judge(event, seen.0);
            seen.1.push(verdict);
        }
    }

    #[test]
    fn a_steady_fault_is_one_line_a_minute_for_each_partition_and_every_time_is_counted() {
        let (steady, seen) = (Arc::<Steady>::default(), Arc::new(Mutex::new((Instant::now(), Vec::new()))));
        let subscriber = tracing_subscriber::registry().with(Judge(Arc::clone(&steady), Arc::clone(&seen)));
        let _default = tracing::subscriber::set_default(subscriber);
        let fail = |partition: u32| tracing::warn!(partition, "it failed");
        let verdicts = || std::mem::take(&mut seen.lock().1);

        fail(0);
        fail(0);
        fail(1);
        fail(0);
        tracing::info!(partition = 0, "all is well");
        tracing::info!(partition = 0, "all is well");
        let write = Verdict::Write(0);
        assert_eq!(verdicts(), [write, Verdict::LeaveOut, write, Verdict::LeaveOut, write, write]);

        seen.lock().0 += PERIOD;
        fail(0);
        assert_eq!(verdicts(), [Verdict::Write(2)]);
        fail(0);
        assert_eq!(verdicts(), [Verdict::LeaveOut]);

        // The fault has ended: what was left out last is still told of, once.
        let later = seen.lock().0 + PERIOD;
        let left = steady.overdue(later);
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].times, left[0].message.as_str(), left[0].is_error), (1, "it failed", false));
        assert_eq!(steady.overdue(later), []);
        assert_eq!(steady.overdue(later + PERIOD), []);
        assert!(steady.0.lock().is_empty(), "what is over is forgotten");
    }

    #[test]
    fn while_a_fault_goes_on_its_own_lines_say_how_often_and_what_says_it_afterwards_is_never_left_out() {
        let (steady, seen) = (Arc::<Steady>::default(), Arc::new(Mutex::new((Instant::now(), Vec::new()))));
        let subscriber = tracing_subscriber::registry().with(Judge(Arc::clone(&steady), Arc::clone(&seen)));
        let _default = tracing::subscriber::set_default(subscriber);
        let fail = || tracing::warn!("it fails every now and then");
        let after = |wait: Duration| {
            seen.lock().0 += wait;
            seen.lock().0
        };
        fail();
        after(PERIOD - Duration::from_secs(1));
        fail();
        assert_eq!(steady.overdue(after(Duration::from_secs(1))), [], "it goes on");
        after(Duration::from_secs(1));
        fail();
        for _ in 0..2 {
            tracing::warn!(target: SAYS_IT, path = "x", "said again, and left out of the log");
        }
        let write = Verdict::Write(0);
        assert_eq!(seen.lock().1, [write, Verdict::LeaveOut, Verdict::Write(1), write, write]);
    }

    #[test]
    fn the_places_are_bounded() {
        let (steady, seen) = (Arc::<Steady>::default(), Arc::new(Mutex::new((Instant::now(), Vec::new()))));
        let subscriber = tracing_subscriber::registry().with(Judge(Arc::clone(&steady), Arc::clone(&seen)));
        let _default = tracing::subscriber::set_default(subscriber);
        for topic in 0..2 * MAX_PLACES {
            tracing::error!(topic, "it failed");
        }
        assert!(steady.0.lock().len() <= MAX_PLACES + 1);
        let written = seen.lock().1.iter().filter(|verdict| **verdict != Verdict::LeaveOut).count();
        assert_eq!(written, MAX_PLACES + 1);
    }
}
