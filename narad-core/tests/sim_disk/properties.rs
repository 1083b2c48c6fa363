//! What holds for any calls and any seed.

use std::collections::BTreeSet;

use narad_core::{
    disk::{Disk, FileExt},
    testkit::{CallKind, Failure, Fault, SimDisk, Survival},
};
use proptest::prelude::*;

use super::{SECTOR, create, durable, path};

#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize, byte: u8 },
    SetLen(usize),
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..4_000usize, 1..2_000usize, 1..=255u8);
    let step = prop_oneof![
        4 => write.prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        1 => (0..5_000usize).prop_map(Step::SetLen),
        2 => Just(Step::Sync),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    /// Bytes that were synced and not written or cut since always survive, each other byte is one that the file
    /// held there since the last sync (or a zero), and so is the length, but for a torn write's sector ends.
    #[test]
    fn synced_bytes_survive_and_nothing_is_made_up(steps in steps(), seed: u64) {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "f", b"");
        let mut seen = vec![vec![]];
        for step in &steps {
            match *step {
                Step::Write { at, len, byte } => file.write_all_at(&vec![byte; len], at as u64).unwrap(),
                Step::SetLen(len) => file.set_len(len as u64).unwrap(),
                Step::Sync => {
                    file.sync_data().unwrap();
                    seen.clear();
                }
            }
            seen.push(disk.contents("f").unwrap());
        }
        for _ in 0..8 {
            let fork = disk.fork();
            fork.power_loss();
            let left = fork.contents("f").unwrap();
            let longest = seen.iter().map(Vec::len).max().unwrap();
            let torn = left.len().is_multiple_of(SECTOR) && left.len() < longest;
            prop_assert!(torn || seen.iter().any(|state| state.len() == left.len()), "length {}", left.len());
            for (i, byte) in left.iter().enumerate() {
                let held: BTreeSet<u8> = seen.iter().filter_map(|state| state.get(i).copied()).collect();
                let always_there = seen.iter().all(|state| state.len() > i);
                prop_assert!(held.contains(byte) || (!always_there && *byte == 0), "byte {i}: {byte}");
            }
        }
        let (everything, nothing) = (disk.fork(), disk.fork());
        everything.power_loss_keeping(Survival::Everything);
        nothing.power_loss_keeping(Survival::Nothing);
        prop_assert_eq!(everything.contents("f"), disk.contents("f"));
        prop_assert_eq!(nothing.contents("f").unwrap(), seen[0].clone());
    }

    /// A fault hits the n-th matching call, once or from there on, and no other.
    #[test]
    fn a_fault_fires_exactly_at_the_nth_matching_call(nth in 1..20u64, onwards: bool, others in 0..3usize) {
        let disk = SimDisk::new(0);
        let (hit, spared) = (create(&disk, "x.log"), create(&disk, "hwm"));
        let fault = Fault::fail(CallKind::Write, Failure::NoSpace).at(nth).named("*.log");
        let id = disk.inject(if onwards { fault.onwards() } else { fault });
        let mut expected = 0;
        for call in 1..=25 {
            for _ in 0..others {
                spared.write_at(b"x", 0).unwrap();
                hit.sync_data().unwrap();
            }
            let due = if onwards { call >= nth } else { call == nth };
            prop_assert_eq!(hit.write_at(b"x", 0).is_err(), due);
            expected += u64::from(due);
            prop_assert_eq!(disk.fired(id), expected);
        }
    }

    /// Whatever names are changed and whichever survive, each stands for a file that had it, or for nothing, and
    /// no file has two.
    #[test]
    fn names_survive_as_they_were_at_some_time(
        moves in prop::collection::vec((0..3usize, 0..3usize), 1..12),
        seed: u64,
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let disk = SimDisk::new(seed);
        for name in NAMES {
            durable(&disk, name, name.as_bytes());
        }
        let mut held: Vec<BTreeSet<_>> = NAMES.map(|name| [disk.contents(name)].into()).into();
        for (from, to) in moves {
            if from == to {
                let _ = disk.remove_file(path(NAMES[from]));
            } else {
                let _ = disk.rename(path(NAMES[from]), path(NAMES[to]));
            }
            for (held, name) in held.iter_mut().zip(NAMES) {
                held.insert(disk.contents(name));
            }
        }
        disk.power_loss();
        let mut files = BTreeSet::new();
        for (held, name) in held.iter().zip(NAMES) {
            let left = disk.contents(name);
            prop_assert!(held.contains(&left));
            prop_assert!(left.is_none() || files.insert(left), "one file, one name");
        }
    }
}
