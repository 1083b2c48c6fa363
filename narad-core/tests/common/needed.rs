//! Proves that a call to the disk is there for a reason: acknowledged and not done, something is lost that is there
//! after a power loss otherwise.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use narad_core::testkit::{CallKind, Fault, SimDisk};

/// Seeds that are tried until a power loss shows the missing call.
const SEEDS: u64 = 200;

/// What a story is played on.
pub trait Machine {
    fn new(seed: u64) -> Self;
    fn disk(&self) -> &SimDisk;
}

/// The call in question: the `nth` of its kind on that name, or `*` for all of them and the root, from the `when` of a
/// story on.
#[derive(Clone, Copy)]
pub struct TheCall {
    kind: CallKind,
    name: &'static str,
    nth: u64,
}

pub fn file_sync(name: &'static str) -> TheCall {
    TheCall { kind: CallKind::SyncData, name, nth: 1 }
}

pub fn dir_sync(name: &'static str) -> TheCall {
    TheCall { kind: CallKind::SyncDir, name, nth: 1 }
}

pub fn truncate(name: &'static str) -> TheCall {
    TheCall { kind: CallKind::SetLen, name, nth: 1 }
}

impl TheCall {
    pub fn nth(self, nth: u64) -> Self {
        Self { nth, ..self }
    }

    /// `then` must hold after `given` and `when`, whatever the seed, and must not hold for one of the seeds when the
    /// call is left out of `when`.
    pub fn is_needed<M: Machine, S>(
        self,
        given: impl Fn(&M) -> S,
        when: impl Fn(&M, &S),
        then: impl Fn(&M, &S) -> bool,
    ) {
        for seed in 0..SEEDS {
            let machine = M::new(seed);
            let state = given(&machine);
            when(&machine, &state);
            assert!(then(&machine, &state), "seed {seed}: with the call in place");
        }
        let is_missed = |seed| {
            let machine = M::new(seed);
            let state = given(&machine);
            let skip = Fault::skip(self.kind).at(self.nth);
            let skip = if self.name == "*" { skip } else { skip.named(self.name) };
            let skipped = machine.disk().inject(skip);
            when(&machine, &state);
            assert_eq!(machine.disk().fired(skipped), 1, "seed {seed}: the call is there");
            machine.disk().remove_fault(skipped);
            !then(&machine, &state)
        };
        assert!((0..SEEDS).any(is_missed), "nobody misses the call");
    }
}
