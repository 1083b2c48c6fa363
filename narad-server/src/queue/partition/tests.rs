use super::*;

const NOW: Duration = Duration::from_secs(100);
const CAPS: Caps = Caps { max_in_flight: 1024, max_acked_ahead: 1024 };

fn at(offset: u32) -> Offset {
    offset.into()
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A queue over the offsets 0 to 9, nothing settled.
fn fresh() -> PartitionQueue {
    PartitionQueue::recover(&ConsumerPosition::default(), at(0), at(10)).0
}

fn position(frontier: Option<u32>, acked: &[u32]) -> ConsumerPosition {
    ConsumerPosition { frontier: frontier.map(at), acked: acked.iter().copied().map(at).collect() }
}

/// Takes a record and hands it over, with its offset as nonce and a lease of 30 s.
fn lease(queue: &mut PartitionQueue, now: Duration) -> Option<Offset> {
    let nonce = queue.returned.first().copied().unwrap_or(queue.settled.first_absent(queue.next)).get();
    let offset = queue.take(now, at(10), CAPS, nonce)?;
    queue.begin(offset, nonce, now + secs(30)).unwrap();
    Some(offset)
}

/// Leases the first `count` records.
fn lease_first(queue: &mut PartitionQueue, count: usize) {
    assert_eq!(std::iter::from_fn(|| lease(queue, NOW)).take(count).count(), count);
}

#[test]
fn new_records_come_in_order_and_none_beyond_the_end() {
    let mut queue = fresh();
    let taken: Vec<_> = std::iter::from_fn(|| lease(&mut queue, NOW)).collect();
    assert_eq!(taken, (0..10).map(at).collect::<Vec<_>>());
    assert_eq!((queue.in_flight(NOW), queue.frontier()), (10, None));
}

#[test]
fn the_frontier_moves_over_acks_in_any_order() {
    let mut queue = fresh();
    lease_first(&mut queue, 4);
    queue.ack(at(2), 2, NOW).unwrap();
    queue.ack(at(1), 1, NOW).unwrap();
    assert_eq!(queue.position(), position(None, &[1, 2]));
    queue.ack(at(0), 0, NOW).unwrap();
    assert_eq!(queue.position(), position(Some(2), &[]));
}

#[test]
fn an_expired_lease_comes_again_before_anything_new_and_in_offset_order() {
    let mut queue = fresh();
    lease_first(&mut queue, 3);
    queue.ack(at(1), 1, NOW).unwrap();
    assert_eq!(queue.next_expiry(), Some(NOW + secs(30)));
    let later = NOW + secs(30);
    assert_eq!(lease(&mut queue, later), Some(at(0)));
    assert_eq!(lease(&mut queue, later), Some(at(2)));
    assert_eq!(lease(&mut queue, later), Some(at(3)));
}

#[test]
fn every_verb_refuses_a_lease_that_is_over_or_another_nonce() {
    type Verb = fn(&mut PartitionQueue, Offset, u64, Duration) -> Result<(), LeaseGone>;
    let verbs: [Verb; 3] = [
        PartitionQueue::ack,
        |queue, offset, nonce, now| queue.extend(offset, nonce, now, now + secs(30)),
        PartitionQueue::release,
    ];
    for verb in verbs {
        let mut queue = fresh();
        lease(&mut queue, NOW);
        assert_eq!(verb(&mut queue, at(0), 9, NOW), Err(LeaseGone), "another nonce");
        assert_eq!(verb(&mut queue, at(1), 0, NOW), Err(LeaseGone), "never leased");
        let end = NOW + secs(30);
        assert_eq!(verb(&mut queue, at(0), 0, end), Err(LeaseGone), "the end of the lease is not part of it");
        let offset = queue.take(end, at(10), CAPS, 77).unwrap();
        queue.begin(offset, 77, end + secs(30)).unwrap();
        assert_eq!(verb(&mut queue, at(0), 0, end), Err(LeaseGone), "somebody else's by now");
        assert_eq!(queue.in_flight(NOW), 1, "the new lease is undisturbed");
        assert_eq!(verb(&mut queue, at(0), 77, end + secs(29)), Ok(()));
    }
}

#[test]
fn an_extended_lease_ends_later_and_a_released_one_at_once() {
    let mut queue = fresh();
    lease(&mut queue, NOW);
    lease(&mut queue, NOW);
    queue.extend(at(0), 0, NOW + secs(20), NOW + secs(50)).unwrap();
    queue.release(at(1), 1, NOW + secs(20)).unwrap();
    assert_eq!(lease(&mut queue, NOW + secs(49)), Some(at(1)));
    assert_eq!(queue.ack(at(1), 1, NOW + secs(49)), Ok(()));
    assert_eq!(lease(&mut queue, NOW + secs(50)), Some(at(0)));
}

#[test]
fn an_extension_beyond_the_end_of_time_is_no_panic() {
    let mut queue = fresh();
    lease(&mut queue, NOW);
    queue.extend(at(0), 0, NOW, Duration::MAX).unwrap();
    assert_eq!(queue.ack(at(0), 0, NOW + secs(1 << 40)), Ok(()));
}

#[test]
fn a_lease_has_no_end_while_its_record_is_read() {
    let mut queue = fresh();
    queue.take(NOW, at(10), CAPS, 5).unwrap();
    assert_eq!(queue.next_expiry(), None);
    assert_eq!(queue.take(NOW + secs(1 << 30), at(1), CAPS, 6), None);
    queue.release(at(0), 5, NOW).unwrap();
    assert_eq!(queue.take(NOW, at(1), CAPS, 6), Some(at(0)));
}

#[test]
fn at_max_in_flight_nothing_is_given_out_until_a_lease_ends() {
    let caps = Caps { max_in_flight: 2, ..CAPS };
    let mut queue = fresh();
    assert_eq!(queue.take(NOW, at(10), caps, 0), Some(at(0)));
    assert_eq!(queue.take(NOW, at(10), caps, 1), Some(at(1)));
    assert_eq!(queue.take(NOW, at(10), caps, 2), None);
    queue.ack(at(1), 1, NOW).unwrap();
    assert_eq!(queue.take(NOW, at(10), caps, 2), Some(at(2)));
    queue.release(at(0), 0, NOW).unwrap();
    assert_eq!(queue.take(NOW, at(10), caps, 3), Some(at(0)));
}

#[test]
fn at_max_acked_ahead_only_the_record_that_holds_the_frontier_back() {
    let caps = Caps { max_acked_ahead: 2, ..CAPS };
    let mut queue = fresh();
    for n in 0..5 {
        queue.take(NOW, at(10), caps, n).unwrap();
    }
    for n in 1..5 {
        queue.ack(at(n), u64::from(n), NOW).unwrap();
    }
    assert_eq!(queue.acked_ahead(), 4, "no ack is refused for the cap");
    assert_eq!(queue.take(NOW, at(10), caps, 9), None, "the record is out, and nothing else may go");
    queue.release(at(0), 0, NOW).unwrap();
    assert_eq!(queue.take(NOW, at(10), caps, 9), Some(at(0)));
    queue.ack(at(0), 9, NOW).unwrap();
    assert_eq!(queue.take(NOW, at(10), caps, 10), Some(at(5)), "the frontier is past them all");
}

#[test]
fn at_max_acked_ahead_a_new_record_that_holds_the_frontier_back_may_go() {
    let caps = Caps { max_acked_ahead: 1, ..CAPS };
    let (mut queue, _) = PartitionQueue::recover(&position(Some(2), &[4, 5]), at(0), at(10));
    assert_eq!(queue.take(NOW, at(10), caps, 1), Some(at(3)));
    assert_eq!(queue.take(NOW, at(10), caps, 2), None);
    queue.ack(at(3), 1, NOW).unwrap();
    assert_eq!(queue.frontier(), Some(at(5)));
    assert_eq!(queue.take(NOW, at(10), caps, 2), Some(at(6)));
}

#[test]
fn a_skipped_range_is_settled_but_for_what_is_leased() {
    let mut queue = fresh();
    lease_first(&mut queue, 3);
    queue.ack(at(1), 1, NOW).unwrap();
    queue.release(at(2), 2, NOW).unwrap();
    assert_eq!(queue.skip(at(0)..at(5), NOW), 3, "2, 3 and 4");
    assert_eq!(
        (queue.frontier(), queue.acked_ahead()),
        (None, 1),
        "0 is leased; 1 was acked, the rest was not"
    );
    assert_eq!(lease(&mut queue, NOW), Some(at(5)));
    queue.ack(at(0), 0, NOW).unwrap();
    assert_eq!((queue.frontier(), queue.acked_ahead()), (Some(at(4)), 0));
}

#[test]
fn skipped_records_do_not_count_against_the_cap_on_acks() {
    let caps = Caps { max_acked_ahead: 2, ..CAPS };
    let mut queue = fresh();
    queue.take(NOW, at(10), caps, 0).unwrap();
    queue.skip(at(1)..at(8), NOW);
    assert_eq!(queue.take(NOW, at(10), caps, 1), Some(at(8)));
}

#[test]
fn retention_moves_the_frontier_in_one_jump_and_counts_what_was_lost() {
    let mut queue = fresh();
    lease_first(&mut queue, 6);
    queue.ack(at(1), 1, NOW).unwrap();
    queue.ack(at(4), 4, NOW).unwrap();
    queue.release(at(2), 2, NOW).unwrap();
    assert_eq!(queue.jump_to(at(4)), 3, "0, 2 and 3; 1 was settled");
    assert_eq!(queue.frontier(), Some(at(4)), "and 4, acked before, is below the frontier now");
    assert_eq!(queue.ack(at(3), 3, NOW), Err(LeaseGone));
    assert_eq!((queue.in_flight(NOW), queue.next_expiry()), (1, Some(NOW + secs(30))));
    assert_eq!(lease(&mut queue, NOW), Some(at(6)));
    assert_eq!(queue.jump_to(at(4)), 0);
    assert_eq!(queue.jump_to(at(1_000_000)), 1_000_000 - 5);
    assert_eq!((queue.in_flight(NOW), queue.next_expiry()), (0, None));
}

#[test]
fn recovery_keeps_what_was_acked_ahead_and_corrects_what_cannot_be() {
    let recover = |frontier, acked: &[u32], oldest, end| {
        let (queue, recovery) = PartitionQueue::recover(&position(frontier, acked), at(oldest), at(end));
        (queue.position(), recovery)
    };
    let good = Recovery::default();
    assert_eq!(recover(Some(3), &[1, 3, 5, 6], 0, 10), (position(Some(3), &[5, 6]), good));
    assert_eq!(recover(None, &[0, 2], 0, 10), (position(Some(0), &[2]), good));
    assert_eq!(recover(Some(4), &[12], 0, 10), (position(Some(4), &[]), good), "acked and not yet written");
    let clamped = Recovery { clamped: true, lost: 0 };
    assert_eq!(recover(Some(50), &[52], 0, 10), (position(Some(9), &[]), clamped));
    assert_eq!(recover(Some(0), &[], 0, 0), (position(None, &[]), clamped));
    let lost = Recovery { clamped: false, lost: 4 };
    assert_eq!(recover(Some(3), &[5, 8], 9, 10), (position(Some(8), &[]), Recovery { lost: 3, ..lost }));
    assert_eq!(recover(None, &[], 4, 10), (position(Some(3), &[]), lost));
}

mod model {
    //! Random histories against a model that knows no more than the rules: one state for each offset.

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum State {
        New,
        Leased { nonce: u64, until: Option<u64> },
        Returned,
        Acked,
        Skipped,
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take,
        Begin(usize, u64),
        Ack(usize),
        Extend(usize, u64),
        Release(usize),
        Stale(usize, u32),
        Pass(u64),
        Grow(u32),
        Skip(u32, u32),
        Jump(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => Just(Step::Take),
            4 => (any::<usize>(), 1u64..5).prop_map(|(n, by)| Step::Begin(n, by)),
            4 => any::<usize>().prop_map(Step::Ack),
            1 => (any::<usize>(), 1u64..5).prop_map(|(n, by)| Step::Extend(n, by)),
            2 => any::<usize>().prop_map(Step::Release),
            1 => (any::<usize>(), 0u32..20).prop_map(|(n, offset)| Step::Stale(n, offset)),
            2 => (1u64..4).prop_map(Step::Pass),
            2 => (1u32..4).prop_map(Step::Grow),
            1 => (0u32..20, 1u32..5).prop_map(|(from, len)| Step::Skip(from, len)),
            1 => (1u32..3).prop_map(Step::Jump),
        ];
        proptest::collection::vec(step, 1..120)
    }

    #[derive(Default)]
    struct Model {
        states: BTreeMap<u32, State>,
        oldest: u32,
        now: u64,
        nonce: u64,
    }

    impl Model {
        fn end(&self) -> u32 {
            self.states.last_key_value().map_or(self.oldest, |(&last, _)| last + 1)
        }

        fn base(&self) -> u32 {
            let settled = |(_, state): &(&u32, &State)| matches!(state, State::Acked | State::Skipped);
            self.states.iter().find(|entry| !settled(entry)).map_or(self.end(), |(&offset, _)| offset)
        }

        fn expire(&mut self) {
            for state in self.states.values_mut() {
                if matches!(*state, State::Leased { until: Some(until), .. } if until <= self.now) {
                    *state = State::Returned;
                }
            }
        }

        fn count(&self, of: impl Fn(&State) -> bool) -> usize {
            self.states.range(self.base()..).filter(|(_, state)| of(state)).count()
        }

        fn in_flight(&self) -> usize {
            self.count(|state| matches!(state, State::Leased { .. }))
        }

        fn take(&mut self, caps: Caps) -> Option<u32> {
            self.expire();
            let returned = self.states.iter().find(|(_, state)| **state == State::Returned);
            let new = self.states.iter().find(|(_, state)| **state == State::New);
            let offset = *returned.or(new)?.0;
            let acked = self.count(|state| *state == State::Acked);
            let allowed = self.in_flight() < caps.max_in_flight as usize
                && (acked < caps.max_acked_ahead as usize || offset == self.base());
            allowed.then_some(offset)
        }

        /// The nth lease in force, or nonsense when there is none.
        fn pick(&self, n: usize) -> (u32, u64) {
            let leased = |(&offset, state): (&u32, &State)| match state {
                State::Leased { nonce, .. } => Some((offset, *nonce)),
                _ => None,
            };
            let leases: Vec<_> = self.states.iter().filter_map(leased).collect();
            if leases.is_empty() { (self.oldest, u64::MAX) } else { leases[n % leases.len()] }
        }

        fn holds(&self, offset: u32, nonce: u64) -> bool {
            matches!(self.states.get(&offset), Some(State::Leased { nonce: held, .. }) if *held == nonce)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_history_agrees_with_the_rules(
            steps in steps(), max_in_flight in 1u32..6, max_acked_ahead in 1u32..5,
        ) {
            let caps = Caps { max_in_flight, max_acked_ahead };
            let mut model = Model::default();
            let mut queue = PartitionQueue::recover(&ConsumerPosition::default(), at(0), at(0)).0;
            for step in steps {
                run(&step, &mut model, &mut queue, caps)?;
                check(&mut model, &queue)?;
            }
        }
    }

    fn run(
        step: &Step,
        model: &mut Model,
        queue: &mut PartitionQueue,
        caps: Caps,
    ) -> Result<(), TestCaseError> {
        let now = secs(model.now);
        match *step {
            Step::Take => {
                model.nonce += 1;
                let (expected, nonce) = (model.take(caps), model.nonce);
                prop_assert_eq!(queue.take(now, at(model.end()), caps, nonce), expected.map(at));
                if let Some(offset) = expected {
                    model.states.insert(offset, State::Leased { nonce, until: None });
                }
            }
            Step::Begin(n, by) | Step::Extend(n, by) => {
                model.expire();
                let (offset, nonce) = model.pick(n);
                let until = model.now + by;
                let done = queue.extend(at(offset), nonce, now, secs(until));
                prop_assert_eq!(done.is_ok(), model.holds(offset, nonce));
                if done.is_ok() {
                    model.states.insert(offset, State::Leased { nonce, until: Some(until) });
                }
            }
            Step::Ack(n) => settle(model, n, State::Acked, |offset, nonce| queue.ack(offset, nonce, now))?,
            Step::Release(n) => {
                settle(model, n, State::Returned, |offset, nonce| queue.release(offset, nonce, now))?;
            }
            Step::Stale(n, offset) => {
                let (of, nonce) = model.pick(n);
                if of != offset {
                    prop_assert_eq!(queue.ack(at(offset), nonce, now), Err(LeaseGone));
                }
            }
            Step::Pass(by) => model.now += by,
            Step::Grow(by) => {
                for _ in 0..by {
                    model.states.insert(model.end(), State::New);
                }
            }
            Step::Skip(from, len) => {
                let to = (from + len).min(model.end());
                queue.skip(at(from)..at(to), now);
                for (_, state) in model.states.range_mut(from.min(to)..to) {
                    if matches!(state, State::New | State::Returned) {
                        *state = State::Skipped;
                    }
                }
            }
            Step::Jump(by) => {
                let oldest = (model.oldest + by).min(model.end());
                let lost = model.states.range(..oldest);
                let lost = lost.filter(|(_, state)| !matches!(state, State::Acked | State::Skipped)).count();
                prop_assert_eq!(queue.jump_to(at(oldest)), lost as u64);
                model.states = model.states.split_off(&oldest);
                model.oldest = oldest;
            }
        }
        Ok(())
    }

    fn settle(
        model: &mut Model,
        n: usize,
        to: State,
        verb: impl FnOnce(Offset, u64) -> Result<(), LeaseGone>,
    ) -> Result<(), TestCaseError> {
        model.expire();
        let (offset, nonce) = model.pick(n);
        let done = verb(at(offset), nonce);
        prop_assert_eq!(done.is_ok(), model.holds(offset, nonce));
        if done.is_ok() {
            model.states.insert(offset, to);
        }
        Ok(())
    }

    fn check(model: &mut Model, queue: &PartitionQueue) -> Result<(), TestCaseError> {
        let base = model.base();
        prop_assert_eq!(queue.frontier(), base.checked_sub(1).map(at));
        let settled: Vec<Offset> = model
            .states
            .range(base..)
            .filter(|(_, state)| matches!(state, State::Acked | State::Skipped))
            .map(|(&offset, _)| at(offset))
            .collect();
        prop_assert_eq!(queue.position().acked, settled);
        prop_assert_eq!(queue.acked_ahead() as usize, model.count(|state| *state == State::Acked));
        model.expire();
        let leased = |state: &State| matches!(state, State::Leased { .. });
        prop_assert_eq!(queue.in_flight(secs(model.now)), model.count(leased));
        for offset in queue.leases.keys() {
            prop_assert!(*offset >= at(base), "no lease lies below the frontier");
        }
        let ends: BTreeSet<_> =
            queue.leases.iter().filter_map(|(&offset, lease)| Some((lease.expires?, offset))).collect();
        prop_assert_eq!(&queue.expiries, &ends);
        Ok(())
    }
}
