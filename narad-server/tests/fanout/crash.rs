//! Crashes and damage: no message is lost whatever happened to a cursor, and no old cursor is believed.

use std::{collections::BTreeMap, time::Duration};

use crate::support::{Bed, CHILDREN, PARENT, cursor_path, disk, link, pass, settle};
use narad_core::{
    format::Offset,
    testkit::{CallKind, Failure, Fault, ManualClock, SimDisk, Survival, seed},
};

const NOW: Duration = Duration::ZERO;
const CHILD: &str = CHILDREN[0];

/// A disk on which the parent holds messages in two partitions, durably, of which some were copied.
async fn begun() -> (SimDisk, ManualClock, Vec<Vec<String>>) {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, NOW)]).await;
    bed.produce(0, &["a0", "a1"]);
    settle().await;
    bed.fanout.remove(99).await;
    bed.fanout.close(NOW).await;
    bed.produce(0, &["a2", "a3", "a4"]);
    bed.produce(1, &["b0", "b1"]);
    let all = (0..2).map(|partition| bed.payloads(PARENT, partition)).collect();
    bed.store.close().unwrap();
    (disk, clock, all)
}

/// Everything is in the child, in the parent's order when repeats are taken out, each at most `copies` times.
fn check(bed: &Bed, all: &[Vec<String>], copies: usize, context: &str) {
    for (partition, expected) in (0u32..).zip(all) {
        let found = bed.payloads(CHILD, partition);
        let mut first = Vec::new();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for payload in &found {
            if !first.contains(payload) {
                first.push(payload.clone());
            }
            *counts.entry(payload).or_default() += 1;
        }
        assert_eq!(&first, expected, "{context}: {found:?}");
        assert!(counts.values().all(|&count| count <= copies), "{context}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_the_power_goes_nothing_is_lost_and_one_batch_is_repeated_at_most() {
    let (disk, clock, all) = begun().await;
    let calls = {
        let fork = disk.fork();
        let bed = Bed::open(&fork, &clock);
        bed.link(&[link(CHILD, 1, NOW)]).await;
        settle().await;
        check(&bed, &all, 1, "nothing fails");
        fork.calls().len() as u64
    };
    let mut repeated = 0;
    for nth in 1..=calls {
        for survival in [Survival::Nothing, Survival::Everything, Survival::Random] {
            let context = format!("power lost at call {nth} of {calls}, {survival:?} survives");
            let fork = disk.fork();
            fork.inject(Fault::fail_all(Failure::Io).at(nth).onwards());
            if let Ok(bed) = Bed::try_open(&fork, &clock) {
                bed.link(&[link(CHILD, 1, NOW)]).await;
                settle().await;
            }
            fork.power_loss_keeping(survival);
            fork.clear_faults();
            let bed = Bed::open(&fork, &clock);
            bed.link(&[link(CHILD, 1, NOW)]).await;
            settle().await;
            check(&bed, &all, 2, &context);
            repeated += usize::from(bed.payloads(CHILD, 0).len() > all[0].len());
        }
    }
    assert!(repeated > 0, "a crash between the child's commit and the cursor repeats a batch");
}

#[tokio::test(start_paused = true)]
async fn one_call_that_fails_costs_a_second_and_nothing_else() {
    let (disk, clock, all) = begun().await;
    let calls = {
        let fork = disk.fork();
        let bed = Bed::open(&fork, &clock);
        bed.link(&[link(CHILD, 1, NOW)]).await;
        settle().await;
        fork.calls().len() as u64
    };
    for nth in 1..=calls {
        let context = format!("call {nth} of {calls} fails");
        let fork = disk.fork();
        let fault = fork.inject(Fault::fail_all(Failure::Io).at(nth));
        let Ok(bed) = Bed::try_open(&fork, &clock) else { continue };
        bed.link(&[link(CHILD, 1, NOW)]).await;
        for _ in 0..5 {
            pass(Duration::from_secs(1)).await;
            // A poisoned log is reopened by the store.
            clock.advance_monotonic(Duration::from_secs(2));
            bed.store.tick();
        }
        assert_eq!(fork.fired(fault), 1, "{context}");
        // What a failed fsync has refused may come back when the log is opened again.
        check(&bed, &all, 2, &context);
        let cursor = bed.cursor(0, CHILD);
        assert!(cursor.is_some_and(|cursor| cursor.ends_with("\"next_offset\":5}")), "{context}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_no_cursor_costs_duplicates_and_no_message() {
    for (what, bytes) in [
        ("zeros", vec![0; 64]),
        ("nothing", Vec::new()),
        ("text", b"fanout".to_vec()),
        ("half a cursor", b"{\"epoch\":\"0000000000000001\",\"next_off".to_vec()),
        ("too long", vec![b' '; 100_000]),
    ] {
        let (disk, clock, all) = begun().await;
        disk.plant(cursor_path(0, CHILD), bytes);
        let bed = Bed::open(&disk, &clock);
        bed.link(&[link(CHILD, 1, NOW)]).await;
        settle().await;
        check(&bed, &all, 2, what);
        assert_eq!(bed.runtime.metrics().error_count("storage", "state_file"), 1, "{what}");
        assert!(bed.cursor(0, CHILD).unwrap().ends_with("\"next_offset\":5}"), "{what}");
        bed.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn something_else_in_a_cursors_place_costs_duplicates_and_no_message() {
    let (disk, clock, all) = begun().await;
    use narad_core::disk::Disk as _;
    disk.remove_file(cursor_path(0, CHILD).as_ref()).unwrap();
    disk.plant_dir(cursor_path(0, CHILD));
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, NOW)]).await;
    settle().await;
    check(&bed, &all, 2, "a directory");
    bed.produce(0, &["a5"]);
    pass(Duration::from_secs(3)).await;
    assert_eq!(bed.payloads(CHILD, 0).last().unwrap(), "a5", "copying goes on");
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_cursor_of_another_attachment_says_nothing() {
    let (disk, clock, _) = begun().await;
    let bed = Bed::open(&disk, &clock);
    assert!(bed.cursor(0, CHILD).unwrap().contains("\"epoch\":\"0000000000000001\""));
    let mut later = link(CHILD, 2, NOW);
    later.parent.offsets = [4u32, 1, 0].map(Offset::from).into();
    bed.link(&[later.clone()]).await;
    settle().await;
    assert_eq!(bed.payloads(CHILD, 0), ["a0", "a1", "a4"]);
    assert_eq!(bed.payloads(CHILD, 1), ["b1"]);
    bed.close().await;
    // Nor does one from before the attachment, whatever its epoch.
    disk.plant(cursor_path(0, CHILD), b"{\"epoch\":\"0000000000000002\",\"next_offset\":1}".to_vec());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[later]).await;
    settle().await;
    assert_eq!(bed.payloads(CHILD, 0), ["a0", "a1", "a4", "a4"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_cursor_beyond_the_logs_end_goes_on_there() {
    let (disk, clock, _) = begun().await;
    disk.plant(cursor_path(0, CHILD), b"{\"epoch\":\"0000000000000001\",\"next_offset\":900}".to_vec());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, NOW)]).await;
    settle().await;
    assert_eq!(bed.runtime.metrics().error_count("fanout", "cursor_clamped"), 1);
    bed.produce(0, &["a5"]);
    settle().await;
    assert_eq!(bed.payloads(CHILD, 0), ["a0", "a1", "a5"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_cannot_be_written_is_written_later() {
    let (disk, clock, all) = begun().await;
    let bed = Bed::open(&disk, &clock);
    let cursors = format!("fanout-{CHILD}.offset");
    disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named(&*cursors).onwards());
    bed.link(&[link(CHILD, 1, NOW)]).await;
    settle().await;
    check(&bed, &all, 1, "copying goes on");
    assert!(bed.runtime.metrics().error_count("fanout", "cursor") > 0);
    disk.clear_faults();
    pass(Duration::from_secs(2)).await;
    disk.power_loss_keeping(Survival::Nothing);
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(CHILD, 1, NOW)]).await;
    settle().await;
    check(&bed, &all, 1, "the cursor was there");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_private_and_goes_with_the_parent() {
    let (disk, clock, _) = begun().await;
    let bed = Bed::open(&disk, &clock);
    let spec = bed.spec(PARENT);
    bed.store.delete_topic(PARENT, spec.incarnation).unwrap();
    assert_eq!(bed.cursor(0, CHILD), None);
    let cursor = narad_core::format::FanoutCursor { epoch: 1, next: Offset::from(5) };
    let partition = narad_core::plugin::PartitionId(0);
    let written = bed.store.record_fanout_cursor(&spec, partition, CHILD, cursor);
    assert!(written.is_err(), "nothing is written into a directory that is gone");
    assert!(bed.store.record_fanout_cursor(&spec, partition, "../x", cursor).is_err());
    bed.store.close().unwrap();
}
