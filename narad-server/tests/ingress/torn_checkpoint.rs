//! Field faults of the produce log's checkpoint: ahead of the log, before it, damaged, unreadable, or no file at all.
//! The broker starts, no message is skipped, at worst some come twice, and it is logged and counted.

use std::path::Path;

use crate::support::{BOUND, CHECKPOINT, Fake, ID, WAL, message, open_with, quick, runtime, until};
use narad_core::{
    disk::Disk,
    testkit::{CallKind, Failure, Fault, SimDisk, Survival, seed},
};

const SENT: u64 = 10;

/// A disk on which ten messages were dispatched; the segments of the first ones are gone.
async fn used() -> SimDisk {
    let disk = SimDisk::new(seed());
    let runtime = runtime(&disk);
    let fake = Fake::new(&runtime);
    let mut options = quick();
    // Every message fills a segment.
    options.segment_bytes = 1;
    let ingress = open_with(&runtime, &fake, options).await;
    for n in 0..SENT {
        ingress.produce(vec![message(0, n.to_string())]).await.unwrap();
    }
    ingress.close(BOUND).await;
    drop((ingress, fake, runtime));
    disk.crash_process();
    disk
}

/// What the partition holds after a start that sends one more message, and how often the checkpoint was doubted.
async fn after_a_start(disk: &SimDisk) -> (Vec<String>, u64) {
    let runtime = runtime(disk);
    let fake = Fake::new(&runtime);
    let ingress = open_with(&runtime, &fake, quick()).await;
    ingress.produce(vec![message(0, "new")]).await.unwrap();
    ingress.close(BOUND).await;
    (fake.payloads("orders", ID, 0), runtime.metrics().error_count("ingress", "checkpoint"))
}

/// All ten once, then at worst some again in order, then the new one.
fn assert_nothing_skipped(received: &[String], why: &str) {
    let first: Vec<String> = (0..SENT).map(|n| n.to_string()).collect();
    assert!(received.starts_with(&first), "{why}: {received:?}");
    assert_eq!(received.iter().filter(|message| *message == "new").count(), 1, "{why}: {received:?}");
    assert_eq!(received.last().map(String::as_str), Some("new"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_outside_the_log_is_clamped_counted_and_skips_no_new_message() {
    for (stated, counted) in [(SENT, 0), (SENT + 1, 1), (1_000_000, 1), (i64::MAX as u64, 1)] {
        let disk = used().await;
        disk.alter(CHECKPOINT, |bytes| *bytes = stated.to_be_bytes().to_vec());
        let (received, doubted) = after_a_start(&disk).await;
        assert_nothing_skipped(&received, &stated.to_string());
        assert_eq!(received.len() as u64, SENT + 1, "{stated}: it lies at the end or beyond: nothing again");
        assert_eq!(doubted, counted, "{stated}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_before_the_logs_start_resumes_at_its_start_and_is_counted() {
    let disk = used().await;
    let segments: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(WAL)).collect();
    let first = format!("{WAL}/{:020}.log", 0);
    assert!(
        !segments.iter().any(|path| path == Path::new(&first)),
        "the first segments are gone: {segments:?}"
    );
    disk.alter(CHECKPOINT, |bytes| *bytes = 1u64.to_be_bytes().to_vec());
    let (received, doubted) = after_a_start(&disk).await;
    assert_nothing_skipped(&received, "before the start");
    assert_eq!(doubted, 1);
    assert_eq!(disk.contents(CHECKPOINT).unwrap(), (SENT + 1).to_be_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_damaged_or_no_file_is_counted_and_skips_nothing() {
    type Harm = fn(&SimDisk);
    let harms: [(&str, Harm); 7] = [
        ("empty", |disk| disk.alter(CHECKPOINT, Vec::clear)),
        ("short", |disk| disk.alter(CHECKPOINT, |bytes| bytes.truncate(5))),
        ("trailing bytes", |disk| disk.alter(CHECKPOINT, |bytes| bytes.push(7))),
        ("negative", |disk| disk.alter(CHECKPOINT, |bytes| bytes.fill(0xFF))),
        ("missing", |disk| disk.remove_file(CHECKPOINT.as_ref()).unwrap()),
        ("a directory", |disk| {
            disk.remove_file(CHECKPOINT.as_ref()).unwrap();
            disk.plant_dir(CHECKPOINT);
        }),
        ("a fifo or link", |disk| {
            disk.remove_file(CHECKPOINT.as_ref()).unwrap();
            disk.plant_other(CHECKPOINT);
        }),
    ];
    for (what, harm) in harms {
        let disk = used().await;
        harm(&disk);
        let (received, doubted) = after_a_start(&disk).await;
        assert_nothing_skipped(&received, what);
        // A log that keeps nothing has no history that a missing file could have forgotten.
        assert_eq!(doubted, u64::from(what != "missing"), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_read_keeps_nothing_from_working_and_is_counted() {
    for failure in [Failure::AccessDenied, Failure::Io, Failure::TooManyFiles] {
        let disk = used().await;
        disk.inject(Fault::fail(CallKind::Open, failure).named("checkpoint").onwards());
        let (received, doubted) = after_a_start(&disk).await;
        assert_nothing_skipped(&received, &format!("{failure:?}"));
        assert_eq!(doubted, 1, "{failure:?}");
        disk.clear_faults();
        disk.crash_process();
        let (again, _) = after_a_start(&disk).await;
        assert!(again.starts_with(&received), "{failure:?}: at worst some come again: {again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_whose_sync_failed_is_written_again_and_no_segment_goes_before() {
    let disk = SimDisk::new(seed());
    let runtime = runtime(&disk);
    let fake = Fake::new(&runtime);
    let mut options = quick();
    options.segment_bytes = 1;
    let ingress = open_with(&runtime, &fake, options).await;
    let failing = disk.inject(Fault::fail(CallKind::SyncData, Failure::Io).named("checkpoint").onwards());
    for n in 0..SENT {
        ingress.produce(vec![message(0, n.to_string())]).await.unwrap();
    }
    until("a failed sync", || disk.fired(failing) > 2).await;
    let first = format!("{WAL}/{:020}.log", 0);
    assert!(disk.contents(&first).is_some(), "a segment went behind a checkpoint that is not durable");
    disk.remove_fault(failing);
    ingress.close(BOUND).await;
    drop((ingress, fake, runtime));
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(
        disk.contents(CHECKPOINT).unwrap(),
        SENT.to_be_bytes(),
        "the later sync had something to write"
    );
    let (received, _) = after_a_start(&disk).await;
    assert_nothing_skipped(&received, "after a power loss");
}
