//! The short way of a lone message: to its partition at once, without the produce log.

use std::{sync::Arc, time::Duration};

use crate::support::{
    BOUND, Fake, ID, SEGMENT, message, open, open_with, quick, runtime, spawn, until, wal_writes,
};
use narad_core::testkit::{CallKind, Failure, Fault, Gate, SimDisk, seed};
use narad_server::ingress::Ingress;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// An idle ingress whose partition 0 is open.
async fn idle(disk: &SimDisk) -> (Ingress, Arc<Fake>) {
    let (ingress, fake) = open(disk, quick()).await;
    fake.answers_at_once();
    _ = fake.log("orders", ID, 0);
    (ingress, fake)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_message_is_durable_and_visible_when_it_is_acknowledged_after_one_fsync() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    for n in 0..10 {
        disk.take_calls();
        ingress.produce(vec![message(0, n.to_string())]).await.unwrap();
        assert_eq!(fake.log("orders", ID, 0).high_watermark().get(), n + 1, "visible");
        assert_eq!((wal_writes(&disk), disk.count_on(CallKind::SyncData, "*.log")), (0, 1));
    }
    assert_eq!(ingress.backlog(), 0);
    let after = disk.fork();
    after.power_loss_keeping(narad_core::testkit::Survival::Nothing);
    let (_, fake) = open(&after, quick()).await;
    assert_eq!(fake.payloads("orders", ID, 0).len(), 10, "durable");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_what_was_acknowledged_before_it() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    // A batch goes through the produce log, whose dispatcher cannot read it yet.
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named("p00000"));
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "0"), message(0, "1")]).await.unwrap();
    fake.set_unavailable(0, false);
    disk.remove_fault(held);
    gate.open();
    for n in 2..20 {
        ingress.produce(vec![message(0, n.to_string())]).await.unwrap();
    }
    fake.wait_for("orders", ID, 0, 20).await;
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(fake.payloads("orders", ID, 0), expected);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_hangs_holds_up_no_producer_and_gets_the_message_once() {
    for fails in [false, true] {
        let disk = SimDisk::new(seed());
        let (ingress, fake) = idle(&disk).await;
        let gate = Gate::new();
        let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
        ingress.produce(vec![message(0, "slow")]).await.unwrap();
        assert_eq!(gate.arrived(), 1, "its commit hangs");
        assert_eq!(wal_writes(&disk), 1, "the produce log has it");
        ingress.produce(vec![message(1, "other")]).await.unwrap();
        fake.wait_for("orders", ID, 1, 1).await;
        ingress.produce(vec![message(0, "behind")]).await.unwrap();
        until("both wait for the partition, and nothing else does", || ingress.backlog() == 2).await;
        if fails {
            disk.inject(Fault::fail(CallKind::Read, Failure::Io).named(SEGMENT).at(1));
        }
        disk.remove_fault(held);
        gate.open();
        fake.wait_for("orders", ID, 0, 2).await;
        ingress.close(BOUND).await;
        let there = fake.payloads("orders", ID, 0);
        assert_eq!(there, ["slow", "behind"], "each once and in order, read-back fails: {fails}");
        assert_eq!(ingress.backlog(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_commit_that_fails_in_the_end_loses_nothing_and_keeps_its_place() {
    for poisons in [false, true] {
        let disk = SimDisk::new(seed());
        let (ingress, fake) = idle(&disk).await;
        let gate = Gate::new();
        let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
        ingress.produce(vec![message(0, "1 slow")]).await.unwrap();
        ingress.produce(vec![message(0, "2 behind")]).await.unwrap();
        until("both wait for the partition", || ingress.backlog() == 2).await;
        // The read-back fails, and so does the cut after it, which poisons the log.
        disk.inject(Fault::fail(CallKind::Read, Failure::Io).named(SEGMENT).at(1));
        if poisons {
            disk.inject(Fault::fail(CallKind::SetLen, Failure::Io).named(SEGMENT).at(1));
        }
        disk.remove_fault(held);
        gate.open();
        if poisons {
            until("poisoned", || fake.log("orders", ID, 0).is_poisoned()).await;
            let tries = fake.lookups(0);
            fake.wait_for_lookups(0, tries + 3).await;
            fake.log("orders", ID, 0).reopen().unwrap();
        }
        until("everything done", || ingress.backlog() == 0).await;
        ingress.close(BOUND).await;
        assert_eq!(fake.payloads("orders", ID, 0), ["1 slow", "2 behind"], "poisoned: {poisons}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_partition_was_slow_messages_go_through_the_produce_log_for_a_while() {
    let disk = SimDisk::new(seed());
    let runtime = runtime(&disk);
    let fake = Fake::new(&runtime);
    fake.answers_at_once();
    _ = fake.log("orders", ID, 0);
    let mut options = quick();
    options.direct_rest = BOUND;
    let ingress = open_with(&runtime, &fake, options).await;
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
    ingress.produce(vec![message(0, "slow")]).await.unwrap();
    disk.remove_fault(held);
    gate.open();
    until("everything done", || ingress.backlog() == 0).await;
    disk.take_calls();
    ingress.produce(vec![message(0, "next")]).await.unwrap();
    assert_eq!(wal_writes(&disk), 1);
    fake.wait_for("orders", ID, 0, 2).await;
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_rerouted_to_a_partition_whose_commit_hangs() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    fake.set_count(3);
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
    ingress.produce(vec![message(0, "slow")]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    fake.set_unavailable(2, true);
    ingress.produce(vec![message(2, "elsewhere")]).await.unwrap();
    fake.wait_for("orders", ID, 1, 1).await;
    disk.remove_fault(held);
    gate.open();
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_partition_does_not_take_goes_through_the_produce_log_once() {
    for fault in [
        Fault::fail(CallKind::Write, Failure::Io),
        Fault::fail(CallKind::SyncData, Failure::Io),
        Fault::flip_bit(CallKind::Read),
    ] {
        let disk = SimDisk::new(seed());
        let (ingress, fake) = idle(&disk).await;
        ingress.produce(vec![message(0, "before")]).await.unwrap();
        disk.inject(fault.named(SEGMENT).at(1));
        ingress.produce(vec![message(0, "refused at first")]).await.unwrap();
        if fake.log("orders", ID, 0).is_poisoned() {
            fake.log("orders", ID, 0).reopen().unwrap();
        }
        fake.wait_for("orders", ID, 0, 2).await;
        ingress.close(BOUND).await;
        assert_eq!(fake.payloads("orders", ID, 0), ["before", "refused at first"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_produce_log_fails_as_well_the_partition_decides() {
    for fails in [false, true] {
        let disk = SimDisk::new(seed());
        let (ingress, fake) = idle(&disk).await;
        let gate = Gate::new();
        let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
        let producer = spawn(&ingress, vec![message(0, "in doubt")]);
        until("the held fsync", || gate.arrived() == 1).await;
        // The next write is that of the produce log.
        let failed = disk.inject(Fault::fail(CallKind::Write, Failure::Io));
        until("the failed write", || disk.fired(failed) > 0).await;
        disk.remove_fault(failed);
        if fails {
            disk.inject(Fault::flip_bit(CallKind::Read).named(SEGMENT).at(1));
        }
        disk.remove_fault(held);
        gate.open();
        assert_eq!(producer.await.unwrap().is_err(), fails);
        assert_eq!(fake.payloads("orders", ID, 0).len(), usize::from(!fails));
        ingress.produce(vec![message(0, "after")]).await.unwrap();
        fake.wait_for("orders", ID, 0, u64::from(!fails) + 1).await;
        ingress.close(BOUND).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_leaves_while_its_partition_hangs_leaves_nothing_in_doubt_for_others() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    for leave_after in [0, 5, 30, 60] {
        let gate = Gate::new();
        let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
        let producer = spawn(&ingress, vec![message(0, "gone")]);
        tokio::time::sleep(Duration::from_millis(leave_after)).await;
        producer.abort();
        disk.remove_fault(held);
        gate.open();
        tokio::time::timeout(BOUND, ingress.produce(vec![message(0, "here")])).await.unwrap().unwrap();
    }
    until("everything done", || ingress.backlog() == 0).await;
    ingress.close(BOUND).await;
    let there = fake.payloads("orders", ID, 0);
    assert_eq!(there.iter().filter(|text| *text == "here").count(), 4);
    assert!(there.iter().filter(|text| *text == "gone").count() <= 4, "none twice: {there:?}");
}

/// Producers that each wait for their acknowledgement, now alone and now together, on a disk that is slow and fails at
/// times: every partition has each acknowledged message once, and those of one producer in order.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_way_messages_go_each_arrives_once_and_those_of_one_producer_in_order() {
    let seed = seed();
    for round in 0..12u64 {
        let (disk, mut rng) = (SimDisk::new(seed ^ round), StdRng::seed_from_u64(seed ^ round));
        let runtime = runtime(&disk);
        let fake = Fake::new(&runtime);
        fake.answers_at_once();
        let ingress = open_with(&runtime, &fake, quick()).await;
        for partition in 0..2 {
            _ = fake.log("orders", ID, partition);
        }
        let mut producers = Vec::new();
        for producer in 0..3 {
            let (ingress, mut rng) = (ingress.clone(), StdRng::seed_from_u64(rng.random()));
            producers.push(tokio::spawn(async move {
                for n in 0..40 {
                    let text = format!("{producer}/{n:03}");
                    while ingress.produce(vec![message(producer % 2, text.clone())]).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let pause = rng.random_range(0..4);
                    if pause > 0 {
                        tokio::time::sleep(Duration::from_millis(pause)).await;
                    }
                }
            }));
        }
        // Fsyncs that take longer than a producer waits.
        for _ in 0..6 {
            let gate = Gate::new();
            let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
            tokio::time::sleep(Duration::from_millis(rng.random_range(1..45))).await;
            disk.remove_fault(held);
            gate.open();
        }
        for producer in producers {
            producer.await.unwrap();
        }
        until("everything done", || ingress.backlog() == 0).await;
        ingress.close(BOUND).await;
        for partition in 0..2 {
            let there = fake.payloads("orders", ID, partition);
            for producer in (0..3).filter(|producer| producer % 2 == partition) {
                let prefix = format!("{producer}/");
                let of_one: Vec<_> = there.iter().filter(|text| text.starts_with(&prefix)).cloned().collect();
                let expected: Vec<_> = (0..40).map(|n| format!("{producer}/{n:03}")).collect();
                assert_eq!(of_one, expected, "round {round}, producer {producer}");
            }
        }
    }
}
