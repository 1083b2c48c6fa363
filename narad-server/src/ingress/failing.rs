//! Which partitions do not take messages, since when, and when each is tried again.
//!
//! Knows partitions and times; what is done about them is the dispatcher's business.

use std::{collections::HashMap, sync::Arc, time::Duration};

use narad_core::{Error, plugin::PartitionId};
use tokio::time::Instant;

use super::{IngressOptions, route::Route};

/// A partition that nobody has tried for so long is no longer known to fail, so that those of deleted topics go.
const FORGET: Duration = Duration::from_secs(60);
/// How long after it should have been tried again it is still told of one. Nobody tries one without messages for it.
const TELL: Duration = Duration::from_secs(5);

/// A partition that does not take messages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailingPartition {
    /// Its topic.
    pub topic: Arc<str>,
    /// Which of it.
    pub partition: PartitionId,
    /// Why its last commit failed.
    pub error: Error,
}

#[derive(Debug)]
struct Failure {
    error: Error,
    /// The first failure since its last success.
    since: Instant,
    /// Not to be tried before; the last failure is one `retry` earlier.
    probe_at: Instant,
    /// It was said that its messages go elsewhere.
    said: bool,
}

/// The partitions whose last commit failed.
#[derive(Debug, Default)]
pub(super) struct Failing(HashMap<Arc<Route>, Failure>);

impl Failing {
    /// A commit to it failed. Returns whether that is news.
    pub(super) fn failed(
        &mut self,
        route: &Arc<Route>,
        error: Error,
        options: &IngressOptions,
        now: Instant,
    ) -> bool {
        let probe_at = later(now, options.retry);
        if let Some(failure) = self.0.get_mut(route) {
            (failure.probe_at, failure.error) = (probe_at, error);
            return false;
        }
        self.0.retain(|_, failure| later(failure.probe_at, FORGET) > now);
        self.0.insert(Arc::clone(route), Failure { error, since: now, probe_at, said: false });
        true
    }

    /// A commit to it worked, or it is no more. Returns whether that is news.
    pub(super) fn remove(&mut self, route: &Route) -> bool {
        self.0.remove(route).is_some()
    }

    pub(super) fn contains(&self, route: &Route) -> bool {
        self.0.contains_key(route)
    }

    /// All of them, each with the time until which it is told of it.
    pub(super) fn list(&self) -> Vec<(Instant, FailingPartition)> {
        let entry = |(route, failure): (&Arc<Route>, &Failure)| {
            let (topic, partition) = (Arc::clone(&route.topic), route.partition);
            let failing = FailingPartition { topic, partition, error: failure.error.clone() };
            (later(failure.probe_at, TELL), failing)
        };
        self.0.iter().map(entry).collect()
    }

    /// When it is to be tried again; `None` when it does not fail.
    pub(super) fn probe_at(&self, route: &Route) -> Option<Instant> {
        self.0.get(route).map(|failure| failure.probe_at)
    }

    /// From when on its messages may go elsewhere; `None` when it does not fail.
    pub(super) fn reroute_at(&self, route: &Route, options: &IngressOptions) -> Option<Instant> {
        self.0.get(route).map(|failure| later(failure.since, options.reroute_after))
    }

    /// Its messages go elsewhere now. Returns whether that is news.
    pub(super) fn rerouted(&mut self, route: &Route) -> bool {
        self.0.get_mut(route).is_some_and(|failure| !std::mem::replace(&mut failure.said, true))
    }
}

/// The other partitions of a topic that has `count`, in the order in which they stand in for `home`.
pub(super) fn siblings(home: &Route, count: u32) -> impl Iterator<Item = Route> {
    (1..count).filter_map(move |n| {
        let partition = home.partition.0.checked_add(n)?.checked_rem(count)?;
        Some(Route { partition: PartitionId(partition), ..home.clone() })
    })
}

/// `wait` after `now`.
pub(super) fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use narad_core::plugin::Incarnation;

    use super::*;

    fn route(partition: u32) -> Arc<Route> {
        let partition = PartitionId(partition);
        Arc::new(Route { topic: "t".into(), id: Incarnation::new(1), partition })
    }

    #[test]
    fn those_behind_it_stand_in_first_and_it_never_does() {
        let of =
            |home, count| siblings(&route(home), count).map(|route| route.partition.0).collect::<Vec<_>>();
        assert_eq!(of(1, 4), [2, 3, 0]);
        assert!(of(0, 1).is_empty() && of(0, 0).is_empty());
    }

    #[test]
    fn the_time_runs_from_the_first_failure_and_ends_with_a_success() {
        let (options, now, mut failing) = (IngressOptions::default(), Instant::now(), Failing::default());
        assert!(failing.failed(&route(0), Error::Closed, &options, now));
        let next = now + options.retry;
        assert_eq!(failing.probe_at(&route(0)), Some(next));
        assert!(!failing.failed(&route(0), Error::Closed, &options, next));
        assert_eq!(failing.probe_at(&route(0)), Some(next + options.retry));
        assert_eq!(failing.reroute_at(&route(0), &options), Some(now + options.reroute_after));
        assert!(failing.rerouted(&route(0)) && !failing.rerouted(&route(0)), "said once");
        assert!(failing.remove(&route(0)) && !failing.remove(&route(0)));
        assert_eq!(failing.reroute_at(&route(0), &options), None);
    }

    #[test]
    fn what_nobody_tries_is_forgotten() {
        let (options, now, mut failing) = (IngressOptions::default(), Instant::now(), Failing::default());
        failing.failed(&route(0), Error::Closed, &options, now);
        failing.failed(&route(1), Error::Closed, &options, now + FORGET);
        assert!(failing.contains(&route(0)));
        failing.failed(&route(2), Error::Closed, &options, now + FORGET + options.retry);
        assert!(!failing.contains(&route(0)) && failing.contains(&route(1)));
        let mut known: Vec<_> = failing.list().iter().map(|(_, one)| one.partition.0).collect();
        known.sort_unstable();
        assert_eq!(known, [1, 2]);
    }
}
