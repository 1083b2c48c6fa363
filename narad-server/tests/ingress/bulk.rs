//! The short way of a large request: whole to its partition, without the produce log.

use std::{sync::Arc, time::Duration};

use crate::support::{
    BOUND, Fake, ID, SEGMENT, message, open, open_with, quick, runtime, spawn, until, wal_writes,
};
use narad_core::testkit::{CallKind, Failure, Fault, Gate, SimDisk, Survival, seed};
use narad_server::ingress::{Ingress, Staged};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PARTITIONS: u32 = 3;
/// What each message of a large request has, so that three are large enough.
const FILLING: usize = 30 << 10;

/// An idle ingress whose partitions are open.
async fn idle(disk: &SimDisk) -> (Ingress, Arc<Fake>) {
    let (ingress, fake) = open(disk, quick()).await;
    open_partitions(&fake);
    (ingress, fake)
}

fn open_partitions(fake: &Fake) {
    fake.answers_at_once();
    for partition in 0..PARTITIONS {
        _ = fake.log("orders", ID, partition);
    }
}

/// A large request for one partition: three messages, each a name and what fills it up.
fn large(partition: u32, name: &str) -> Vec<Staged> {
    (0..3).map(|n| message(partition, format!("{name}.{n}{}", " ".repeat(FILLING)))).collect()
}

/// The names of what the partition holds, without what fills them up.
fn names(fake: &Fake, partition: u32) -> Vec<String> {
    fake.payloads("orders", ID, partition).iter().map(|text| text.trim_end().to_owned()).collect()
}

fn of(name: &str) -> [String; 3] {
    [0, 1, 2].map(|n| format!("{name}.{n}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_durable_and_visible_when_it_is_acknowledged_after_one_fsync() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    for n in 0..5u64 {
        disk.take_calls();
        ingress.produce(large(0, "r")).await.unwrap();
        assert_eq!(fake.log("orders", ID, 0).high_watermark().get(), (n + 1) * 3, "visible");
        assert_eq!((wal_writes(&disk), disk.count_on(CallKind::SyncData, "*.log")), (0, 1));
    }
    assert_eq!(ingress.backlog(), 0);
    let after = disk.fork();
    after.power_loss_keeping(Survival::Nothing);
    let (_, fake) = open(&after, quick()).await;
    assert_eq!(names(&fake, 0).len(), 15, "durable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_several_partitions_or_of_few_bytes_goes_through_the_produce_log() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    let mut spread = large(0, "spread");
    spread.push(message(1, "elsewhere"));
    ingress.produce(spread).await.unwrap();
    assert_eq!(wal_writes(&disk), 1);
    until("everything done", || ingress.backlog() == 0).await;
    ingress.produce(vec![message(0, "small"), message(0, "as well")]).await.unwrap();
    assert_eq!(wal_writes(&disk), 2);
    fake.wait_for("orders", ID, 0, 5).await;
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_turned_off() {
    let disk = SimDisk::new(seed());
    let mut options = quick();
    options.direct = false;
    let (ingress, fake) = open(&disk, options).await;
    open_partitions(&fake);
    ingress.produce(large(0, "r")).await.unwrap();
    assert_eq!(wal_writes(&disk), 1);
    fake.wait_for("orders", ID, 0, 3).await;
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_what_was_acknowledged_before_it() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
    ingress.produce(vec![message(0, "first"), message(0, "second")]).await.unwrap();
    until("the dispatcher's commit", || gate.arrived() == 1).await;
    disk.take_calls();
    ingress.produce(large(0, "behind")).await.unwrap();
    assert_eq!(wal_writes(&disk), 1, "the produce log holds something for the partition");
    ingress.produce(large(1, "beside")).await.unwrap();
    assert_eq!(wal_writes(&disk), 1, "and nothing for this one");
    assert_eq!(names(&fake, 1), of("beside"));
    disk.remove_fault(held);
    gate.open();
    fake.wait_for("orders", ID, 0, 5).await;
    until("everything done", || ingress.backlog() == 0).await;
    ingress.produce(large(0, "last")).await.unwrap();
    fake.wait_for("orders", ID, 0, 8).await;
    let expected =
        ["first".to_owned(), "second".to_owned()].into_iter().chain(of("behind")).chain(of("last"));
    assert_eq!(names(&fake, 0), expected.collect::<Vec<_>>());
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_what_the_produce_log_held_when_it_was_opened() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "before the crash")]).await.unwrap();
    drop(ingress);
    disk.power_loss_keeping(Survival::Nothing);
    let runtime = runtime(&disk);
    let fake = Fake::new(&runtime);
    open_partitions(&fake);
    fake.set_panicking(0, true);
    let ingress = open_with(&runtime, &fake, quick()).await;
    disk.take_calls();
    ingress.produce(large(0, "after it")).await.unwrap();
    assert_eq!(wal_writes(&disk), 1, "the dispatcher has not delivered what is older");
    fake.set_panicking(0, false);
    fake.wait_for("orders", ID, 0, 4).await;
    let expected = std::iter::once("before the crash".to_owned()).chain(of("after it"));
    assert_eq!(names(&fake, 0), expected.collect::<Vec<_>>());
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_hangs_holds_up_who_is_under_way_and_nobody_else() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
    let under_way = spawn(&ingress, large(0, "slow"));
    until("the held fsync", || gate.arrived() == 1).await;
    let slow = fake.log("orders", ID, 0);
    until("it is slow", || slow.committing_for().is_some_and(|time| time > Duration::from_millis(100))).await;
    disk.take_calls();
    ingress.produce(large(0, "behind")).await.unwrap();
    assert_eq!(wal_writes(&disk), 1, "the produce log takes what comes later");
    let elsewhere = async {
        // At the latest when the one under way is known to be slow.
        while wal_writes(&disk) < 2 {
            ingress.produce(large(1, "elsewhere")).await.unwrap();
        }
    };
    tokio::time::timeout(BOUND / 3, elsewhere).await.expect("the produce log takes it, wherever it goes");
    assert!(!under_way.is_finished());
    disk.remove_fault(held);
    gate.open();
    under_way.await.unwrap().unwrap();
    fake.wait_for("orders", ID, 0, 6).await;
    assert_eq!(names(&fake, 0), [of("slow"), of("behind")].concat());
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_partitions_hang_few_requests_are_held_up_and_no_worker_is_missed() {
    let disk = SimDisk::new(seed());
    // 16 workers, 8 of them for a topic.
    let (ingress, fake) = open(&disk, quick()).await;
    fake.answers_at_once();
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named("p0000*/*.log").onwards());
    let hanging: Vec<_> = (0..8).map(|partition| fake.log("orders", ID, partition)).collect();
    let producers: Vec<_> = (0..8).map(|n| spawn(&ingress, large(n, "hangs"))).collect();
    until("the others are in the produce log", || {
        producers.iter().filter(|producer| producer.is_finished()).count() == 4
    })
    .await;
    assert_eq!(hanging.iter().filter(|log| log.high_watermark().get() > 0).count(), 0);
    // Whoever leaves takes no worker with it.
    for producer in &producers {
        producer.abort();
    }
    for n in 0..8 {
        disk.take_calls();
        ingress.produce(large(8 + n, "works")).await.unwrap();
        assert_eq!(wal_writes(&disk), 1, "the way is closed");
    }
    disk.remove_fault(held);
    gate.open();
    until("everything done", || ingress.backlog() == 0).await;
    for log in &hanging {
        until("the commit that hung", || log.high_watermark().get() == 3).await;
    }
    until("the way is open", || hanging.iter().all(|log| log.committing_for().is_none())).await;
    tokio::time::timeout(BOUND, async {
        loop {
            disk.take_calls();
            ingress.produce(large(0, "after")).await.unwrap();
            if wal_writes(&disk) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_two_megabytes_are_cut_by_the_dispatcher() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    let one = || message(0, " ".repeat(1 << 20));
    ingress.produce(vec![one(), one()]).await.unwrap();
    assert_eq!(wal_writes(&disk), 0);
    ingress.produce(vec![one(), one(), message(0, "x")]).await.unwrap();
    assert!(wal_writes(&disk) > 0);
    fake.wait_for("orders", ID, 0, 5).await;
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_rerouted_to_a_partition_that_hangs_at_a_large_request() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = idle(&disk).await;
    fake.set_count(PARTITIONS);
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named("p00001/*.log").at(1));
    let under_way = spawn(&ingress, large(1, "hangs"));
    until("the held fsync", || gate.arrived() == 1).await;
    let hangs = fake.log("orders", ID, 1);
    until("it hangs", || hangs.committing_for().is_some_and(|time| time > quick().reroute_after)).await;
    fake.set_unavailable(0, true);
    ingress.produce(vec![message(0, "elsewhere"), message(0, "as well")]).await.unwrap();
    // Sooner than the gate gives up.
    tokio::time::timeout(BOUND / 3, fake.wait_for("orders", ID, 2, 2)).await.unwrap();
    disk.remove_fault(held);
    gate.open();
    under_way.await.unwrap().unwrap();
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_partition_fails_large_requests_leave_it_alone_between_two_tries() {
    let disk = SimDisk::new(seed());
    let mut options = quick();
    options.retry = Duration::from_secs(60);
    let (ingress, fake) = open(&disk, options).await;
    fake.set_count(PARTITIONS);
    open_partitions(&fake);
    let fault = disk.inject(Fault::fail(CallKind::Write, Failure::Io).named(SEGMENT).onwards());
    ingress.produce(large(0, "refused")).await.unwrap();
    until("the dispatcher has met it", || !ingress.failing().is_empty()).await;
    let tries = disk.fired(fault);
    for _ in 0..3 {
        until("another partition has them", || ingress.backlog() == 0).await;
        ingress.produce(large(0, "next")).await.unwrap();
    }
    assert_eq!(disk.fired(fault), tries);
    disk.remove_fault(fault);
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
        ingress.produce(large(0, "before")).await.unwrap();
        disk.inject(fault.named(SEGMENT).at(1));
        ingress.produce(large(0, "refused at first")).await.unwrap();
        if fake.log("orders", ID, 0).is_poisoned() {
            fake.log("orders", ID, 0).reopen().unwrap();
        }
        fake.wait_for("orders", ID, 0, 6).await;
        ingress.close(BOUND).await;
        assert_eq!(names(&fake, 0), [of("before"), of("refused at first")].concat());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_loss_leaves_all_of_a_request_or_nothing() {
    let seed = seed();
    for round in 0..20 {
        let disk = SimDisk::new(seed ^ round);
        let (ingress, fake) = idle(&disk).await;
        ingress.produce(large(0, "kept")).await.unwrap();
        let gate = Gate::new();
        let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(SEGMENT).at(1));
        let under_way = spawn(&ingress, large(0, "open"));
        until("the held fsync", || gate.arrived() == 1).await;
        let after = disk.fork();
        after.power_loss_keeping(Survival::Random);
        disk.remove_fault(held);
        gate.open();
        under_way.await.unwrap().unwrap();
        drop((ingress, fake));
        let (_, fake) = open(&after, quick()).await;
        let there = names(&fake, 0);
        assert!(
            there == of("kept") || there == [of("kept"), of("open")].concat(),
            "round {round}: {there:?}"
        );
    }
}

/// Producers that each wait for their acknowledgement, with small and large requests on one partition or several, on a disk
/// that is slow and fails at times: every partition has each acknowledged message once, and those of one producer in order.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_way_requests_go_each_arrives_once_and_those_of_one_producer_in_order() {
    const REQUESTS: usize = 30;
    let seed = seed();
    for round in 0..12u64 {
        let (disk, mut rng) = (SimDisk::new(seed ^ round), StdRng::seed_from_u64(seed ^ round));
        let (ingress, fake) = idle(&disk).await;
        let mut producers = Vec::new();
        for producer in 0..4u32 {
            let (ingress, mut rng) = (ingress.clone(), StdRng::seed_from_u64(rng.random()));
            producers.push(tokio::spawn(async move {
                for n in 0..REQUESTS {
                    let name = format!("{producer}/{n:03}");
                    let request = || match n % 3 {
                        0 => vec![message(producer % PARTITIONS, format!("{name}.0"))],
                        _ => large(producer % PARTITIONS, &name),
                    };
                    while ingress.produce(request()).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    tokio::time::sleep(Duration::from_millis(rng.random_range(0..4))).await;
                }
            }));
        }
        for _ in 0..6 {
            let (gate, file) = (Gate::new(), format!("p0000{}/*.log", rng.random_range(0..PARTITIONS)));
            let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named(file.clone()).at(1));
            let fails = rng.random_bool(0.5);
            let failing =
                fails.then(|| disk.inject(Fault::fail(CallKind::Write, Failure::Io).named(file).at(1)));
            tokio::time::sleep(Duration::from_millis(rng.random_range(1..90))).await;
            disk.remove_fault(held);
            if let Some(failing) = failing {
                disk.remove_fault(failing);
            }
            gate.open();
        }
        for producer in producers {
            producer.await.unwrap();
        }
        until("everything done", || ingress.backlog() == 0).await;
        ingress.close(BOUND).await;
        for partition in 0..PARTITIONS {
            let there = names(&fake, partition);
            for producer in (0..4).filter(|producer| producer % PARTITIONS == partition) {
                let prefix = format!("{producer}/");
                let of_one: Vec<_> = there.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
                let expected = (0..REQUESTS).flat_map(|n| {
                    let many = if n % 3 == 0 { 1 } else { 3 };
                    (0..many).map(move |m| format!("{producer}/{n:03}.{m}"))
                });
                assert_eq!(of_one, expected.collect::<Vec<_>>(), "round {round}, producer {producer}");
            }
        }
    }
}
