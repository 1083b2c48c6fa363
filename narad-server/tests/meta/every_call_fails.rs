//! Whichever call to the disk fails, and wherever the power goes: each change that was acknowledged is there, each
//! that was refused is whole or absent, and the file opens.

use crate::support::{FILE, Model, disk, names, nearly_full_file, open, script};
use narad_core::testkit::{CallKind, Failure, Fault, SimDisk, Survival, seed};
use narad_server::meta::{MetaStore, RedbMetaStore};

/// Runs the script through whatever fails, with a close in the middle; a refused step is not repeated. Answers the
/// store and how many steps were acknowledged.
async fn run(disk: &SimDisk, model: &mut Model) -> (Option<RedbMetaStore>, usize) {
    let (script, mut acknowledged, mut last) = (script(), 0, None);
    let (before, after) = script.split_at(script.len() / 2);
    for (steps, closes) in [(before, true), (after, false)] {
        // A fault that is there once hits one of the two opens at most.
        let Ok(store) = open(disk).or_else(|_| open(disk)) else { return (None, acknowledged) };
        let store = last.insert(store);
        for step in steps {
            acknowledged += usize::from(model.step(store, step).await);
        }
        if closes {
            store.close().await;
        }
    }
    (last, acknowledged)
}

/// Where a history begins, and how many calls to the disk it makes when nothing fails.
struct Start {
    name: &'static str,
    disk: SimDisk,
    model: Model,
    calls: u64,
}

impl Start {
    fn begin(&self) -> (SimDisk, Model) {
        (self.disk.fork(), self.model.clone())
    }
}

/// With no file at all, and with one that the script makes grow.
async fn starts() -> [Start; 2] {
    let seed = seed();
    let mut starts = [("new", (disk(seed), Model::default())), ("growing", nearly_full_file(seed).await)]
        .map(|(name, (disk, model))| Start { name, disk, model, calls: 0 });
    for start in &mut starts {
        let (disk, mut model) = start.begin();
        let (store, acknowledged) = run(&disk, &mut model).await;
        assert_eq!(acknowledged, script().len(), "{}", start.name);
        start.calls = disk.calls().len() as u64;
        let grown = disk.calls().iter().any(|call| call.kind == CallKind::SetLen && call.bytes > 80_000);
        assert!(grown || start.name == "new");
        drop(store);
    }
    starts
}

#[tokio::test]
async fn each_call_that_fails_once_costs_its_own_step_alone() {
    for start in starts().await {
        for (failure, nth) in (1..=start.calls).flat_map(|nth| [(Failure::Io, nth), (Failure::NoSpace, nth)])
        {
            let context = format!("{}, {failure:?} at call {nth} of {}", start.name, start.calls);
            let (disk, mut model) = start.begin();
            let fault = disk.inject(Fault::fail_all(failure).at(nth));
            let (store, acknowledged) = run(&disk, &mut model).await;
            assert_eq!(disk.fired(fault), 1, "{context}");
            // What a refused create leaves out, its patches and its delete miss.
            assert!(acknowledged >= script().len() - 4, "{context}: {acknowledged} acknowledged");
            for survival in [Survival::Nothing, Survival::Random] {
                let fork = disk.fork();
                fork.power_loss_keeping(survival);
                check(&fork, &model, &format!("{context}, then {survival:?} survives")).await;
            }
            model.check(&store.unwrap(), &context).await;
        }
    }
}

#[tokio::test]
async fn power_lost_at_each_call_leaves_each_record_whole_old_or_new() {
    let survivals = [Survival::Nothing, Survival::Everything].into_iter().chain([Survival::Random; 4]);
    for start in starts().await {
        for nth in 1..=start.calls {
            let (disk, mut model) = start.begin();
            disk.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
            let (store, _) = run(&disk, &mut model).await;
            for (round, survival) in survivals.clone().enumerate() {
                let context = format!("{}, power lost at call {nth}, {survival:?} ({round})", start.name);
                let fork = disk.fork();
                fork.power_loss_keeping(survival);
                // Once more while the file is opened again.
                fork.inject(Fault::fail_all(Failure::Io).at(1 + nth % 40).onwards());
                let recovering = open(&fork);
                fork.power_loss_keeping(survival);
                fork.clear_faults();
                drop(recovering);
                check(&fork, &model, &context).await;
            }
            drop(store);
        }
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    for start in starts().await {
        for nth in 1..=start.calls {
            let (disk, mut model) = start.begin();
            disk.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
            let (store, _) = run(&disk, &mut model).await;
            disk.crash_process();
            disk.clear_faults();
            drop(store);
            check(&disk, &model, &format!("{}, killed at call {nth}", start.name)).await;
        }
    }
}

#[tokio::test]
async fn a_sync_that_fails_loses_nothing_that_came_before_or_after() {
    for start in starts().await {
        let syncs = {
            let (disk, mut model) = start.begin();
            let (_store, _) = run(&disk, &mut model).await;
            disk.count(CallKind::SyncData) as u64
        };
        for nth in 1..=syncs {
            let (disk, mut model) = start.begin();
            disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).at(nth));
            let (store, _) = run(&disk, &mut model).await;
            for round in 0..8 {
                let fork = disk.fork();
                fork.power_loss();
                check(&fork, &model, &format!("{}, sync {nth} failed, round {round}", start.name)).await;
            }
            drop(store);
        }
    }
}

#[tokio::test]
async fn a_drive_that_lies_about_syncs_never_makes_a_topic_up() {
    for start in starts().await {
        for round in 0..32 {
            let (disk, _) = start.begin();
            let store = open(&disk).unwrap();
            let mut known = names(&store).await;
            disk.lie_about_syncs(true);
            for step in script() {
                known.push(step.name().to_owned());
                assert!(Model::default().step(&store, &step).await);
            }
            disk.power_loss();
            disk.lie_about_syncs(false);
            drop(store);
            match open(&disk) {
                Ok(store) => {
                    let found = names(&store).await;
                    assert!(found.iter().all(|name| known.contains(name)), "round {round}: {found:?}");
                }
                Err(error) => assert!(error.to_string().contains(FILE), "{error}"),
            }
        }
    }
}

async fn check(disk: &SimDisk, model: &Model, context: &str) {
    let store = open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    model.check(&store, context).await;
}
