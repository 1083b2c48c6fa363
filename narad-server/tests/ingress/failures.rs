//! The WAL fails, or the disk is full: producers are told, nothing unsynced is acknowledged, and it heals.

use std::time::Duration;

use crate::support::{BOUND, ID, WAL, message, open, quick, texts, until};
use narad_core::testkit::{CallKind, Failure, Fault, Gate, SimDisk, seed};
use narad_server::ingress::IngressError;

#[tokio::test(flavor = "multi_thread")]
async fn po_03_a_failed_fsync_refuses_what_is_queued_and_the_wal_heals() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.produce(vec![message(0, "before")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("*.log"));
    // Until it is repaired it cannot be reopened either.
    let broken = disk.inject(Fault::fail(CallKind::SetLen, Failure::Io).named("*.log").onwards());
    assert!(matches!(ingress.produce(vec![message(0, "lost")]).await, Err(IngressError::Failed(_))));
    assert!(ingress.failure().is_some());
    assert!(matches!(ingress.produce(vec![message(0, "too")]).await, Err(IngressError::Failed(_))));
    disk.remove_fault(broken);
    until("the reopen", || ingress.failure().is_none()).await;
    ingress.produce(vec![message(0, "after")]).await.unwrap();
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 2).await), ["before", "after"]);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_disk_is_full_producers_are_told_so_and_once_it_is_not_they_succeed() {
    let disk = SimDisk::new(seed());
    let (ingress, fake) = open(&disk, quick()).await;
    ingress.produce(vec![message(0, "before")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    let full = disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).onwards());
    for _ in 0..3 {
        assert!(matches!(ingress.produce(vec![message(0, "no")]).await, Err(IngressError::DiskFull(_))));
    }
    assert!(ingress.failure().is_some_and(|error| error.is_disk_full()));
    disk.remove_fault(full);
    ingress.produce(vec![message(0, "yes")]).await.unwrap();
    assert!(ingress.failure().is_none());
    assert_eq!(texts(&fake.wait_for("orders", ID, 0, 2).await), ["before", "yes"]);
    ingress.close(BOUND).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_fills_the_queue_and_the_rest_is_refused() {
    let disk = SimDisk::new(seed());
    let mut options = quick();
    (options.pending_bytes, options.produce_wait) = (1000, Duration::from_millis(50));
    let (ingress, fake) = open(&disk, options).await;
    ingress.produce(vec![message(0, "before")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    fake.set_unavailable(0, true);
    let gate = Gate::new();
    let held = disk.inject(Fault::hold(CallKind::SyncData, &gate).named("*.log"));
    let large = message(0, "x".repeat(5000));
    let waiting = {
        let ingress = ingress.clone();
        // More than the bound alone: it takes all of it.
        tokio::spawn(async move { ingress.produce(vec![large]).await })
    };
    until("the held fsync", || gate.arrived() == 1).await;
    assert!(matches!(ingress.produce(vec![message(0, "y")]).await, Err(IngressError::Full)));
    disk.remove_fault(held);
    gate.open();
    waiting.await.unwrap().unwrap();
    ingress.produce(vec![message(0, "y")]).await.unwrap();
    ingress.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ingress_opens_on_a_full_disk_and_a_later_checkpoint_is_written() {
    let disk = SimDisk::new(seed());
    let (ingress, _) = open(&disk, quick()).await;
    ingress.close(BOUND).await;
    disk.crash_process();
    let full = disk.inject(Fault::fail(CallKind::Write, Failure::NoSpace).onwards());
    let (ingress, fake) = open(&disk, quick()).await;
    disk.remove_fault(full);
    ingress.produce(vec![message(0, "a")]).await.unwrap();
    fake.wait_for("orders", ID, 0, 1).await;
    ingress.close(BOUND).await;
    assert_eq!(disk.contents(format!("{WAL}/checkpoint")).unwrap(), 1u64.to_be_bytes());
}
