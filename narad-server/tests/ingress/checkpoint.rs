//! The checkpoint: where a start resumes, whatever the file holds, and what is deleted behind it.

use crate::support::{BOUND, CHECKPOINT, ID, WAL, message, open, quick, texts, until};
use narad_core::testkit::{CallKind, SimDisk, Survival, seed};

/// A disk on which 10 messages were dispatched and the ingress was closed.
async fn used() -> SimDisk {
    let disk = SimDisk::new(seed());
    let (ingress, _fake) = open(&disk, quick()).await;
    ingress.produce((0..10).map(|n| message(0, n.to_string())).collect()).await.unwrap();
    ingress.close(BOUND).await;
    disk
}

/// What the partition has received when the backlog of a new start is done and one more message was sent.
async fn after_a_start(disk: &SimDisk) -> Vec<String> {
    let (ingress, fake) = open(disk, quick()).await;
    ingress.produce(vec![message(0, "new")]).await.unwrap();
    ingress.close(BOUND).await;
    fake.payloads("orders", ID, 0)
}

fn once_and_new() -> Vec<String> {
    (0..10).map(|n| n.to_string()).chain(["new".to_owned()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_close_nothing_is_dispatched_twice_even_if_the_power_goes() {
    let disk = used().await;
    assert_eq!(disk.contents(CHECKPOINT).unwrap(), 10u64.to_be_bytes());
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(after_a_start(&disk).await, once_and_new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_there_for_good_before_anything_is_accepted() {
    let disk = SimDisk::new(seed());
    let (_ingress, _fake) = open(&disk, quick()).await;
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(disk.contents(CHECKPOINT).unwrap(), [0; 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_says_nothing_means_the_start_of_the_log() {
    type Damage = fn(&mut Vec<u8>);
    let broken: [(&str, Damage); 5] = [
        ("empty", Vec::clear),
        ("short", |bytes| bytes.truncate(7)),
        ("long", |bytes| bytes.push(0)),
        ("zeros", |bytes| bytes.fill(0)),
        ("negative", |bytes| bytes.fill(0xFF)),
    ];
    for (what, damage) in broken {
        let disk = used().await;
        disk.crash_process();
        disk.alter(CHECKPOINT, damage);
        let received = after_a_start(&disk).await;
        let twice: Vec<String> = (0..10).map(|n| n.to_string()).chain(once_and_new()).collect();
        assert_eq!(received, twice, "{what}: at worst duplicates");
        assert_eq!(disk.contents(CHECKPOINT).unwrap(), 11u64.to_be_bytes(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_beyond_the_end_is_clamped_and_no_new_message_is_skipped() {
    let disk = used().await;
    disk.crash_process();
    disk.alter(CHECKPOINT, |bytes| *bytes = 1_000u64.to_be_bytes().to_vec());
    assert_eq!(after_a_start(&disk).await, once_and_new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_in_place_of_the_checkpoint_keeps_nothing_from_working() {
    let disk = SimDisk::new(seed());
    disk.plant_dir(CHECKPOINT);
    assert_eq!(after_a_start(&disk).await, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_behind_the_checkpoint_are_deleted_and_others_are_not() {
    let disk = SimDisk::new(seed());
    let mut options = quick();
    options.segment_bytes = 1000;
    let segments = || {
        let paths = disk.paths();
        paths
            .iter()
            .filter(|path| path.starts_with(WAL) && path.extension().is_some_and(|e| e == "log"))
            .count()
    };
    let (ingress, fake) = open(&disk, options.clone()).await;
    fake.set_unavailable(1, true);
    for n in 0..20 {
        ingress.produce(vec![message(0, format!("{n}-{}", "x".repeat(300)))]).await.unwrap();
    }
    fake.wait_for("orders", ID, 0, 20).await;
    until("the deletion", || segments() <= 2).await;
    ingress.produce(vec![message(1, "stuck")]).await.unwrap();
    for n in 0..20 {
        ingress.produce(vec![message(0, format!("{n}-{}", "x".repeat(300)))]).await.unwrap();
    }
    fake.wait_for("orders", ID, 0, 40).await;
    ingress.close(BOUND).await;
    assert!(segments() > 5, "the message that is not done holds them: {}", segments());
    disk.crash_process();
    let (ingress, fake) = open(&disk, options).await;
    assert_eq!(texts(&fake.wait_for("orders", ID, 1, 1).await), ["stuck"]);
    ingress.close(BOUND).await;
    assert!(segments() <= 2, "{}", segments());
    let calls = disk.calls();
    for removal in
        calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Remove).map(|(at, _)| at)
    {
        let before = calls[..removal].iter().rev().find(|call| call.is_on("checkpoint"));
        assert_eq!(before.map(|call| call.kind), Some(CallKind::SyncData), "durable before anything goes");
    }
}
