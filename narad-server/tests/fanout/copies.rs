//! What is copied, where to, and what is not: keys, growth, several children, what cannot be read, what retention took.

use std::{sync::atomic::Ordering, time::Duration};

use crate::support::{Bed, CHILDREN, PARENT, cursor_path, disk, link, pass, settle};
use narad_core::{
    format::{Batch, Offset},
    testkit::{CallKind, seed},
};

const NOW: Duration = Duration::ZERO;
const COPIES: &str = CHILDREN[0];
const OTHERS: &str = CHILDREN[1];

#[tokio::test(start_paused = true)]
async fn each_child_gets_every_message_once_with_its_key_where_the_key_belongs() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW), link(OTHERS, 2, NOW)]).await;
    for n in 0..90u32 {
        let key = format!("key-{}", n % 7);
        let batch: Batch = [(key.as_bytes(), n.to_string().as_bytes())].into_iter().collect();
        bed.log(PARENT, n % 3).commit(batch).unwrap();
    }
    bed.produce(2, &["without a key"]);
    settle().await;
    for child in CHILDREN {
        let mut seen = Vec::new();
        for partition in 0..3 {
            for record in bed.records(child, partition) {
                if record.key.is_empty() {
                    assert_eq!((&record.payload[..], partition), (&b"without a key"[..], 2));
                    continue;
                }
                let hash = record
                    .key
                    .iter()
                    .fold(0x811C_9DC5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
                assert_eq!(hash % 3, partition);
                seen.push(std::str::from_utf8(&record.payload).unwrap().parse::<u32>().unwrap());
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..90).collect::<Vec<_>>());
    }
    let lags = bed.fanout.lags(&[1, 2]).await;
    assert!(lags.iter().all(|lag| lag.messages == 0 && lag.complete), "{lags:?}");
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_together_are_copied_together() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    settle().await;
    let before = bed.codecs[0].asked.load(Ordering::SeqCst);
    bed.produce(0, &["a", "b", "c", "d"]);
    settle().await;
    assert_eq!(bed.payloads(COPIES, 0), ["a", "b", "c", "d"]);
    assert_eq!(bed.codecs[0].asked.load(Ordering::SeqCst), before + 1, "one commit for all of them");
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_link_touches_nothing_and_wakes_nobody() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.produce(0, &["a"]);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    settle().await;
    assert_eq!(bed.payloads(COPIES, 0), ["a"]);
    disk.take_calls();
    // Whoever set a timer would be woken by it here.
    pass(Duration::from_secs(24 * 3600)).await;
    assert_eq!(disk.calls(), []);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_log_is_opened_for_its_backlog_and_for_nothing_else() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    bed.produce(0, &["a"]);
    bed.produce(1, &["b"]);
    settle().await;
    bed.close().await;

    let bed = Bed::open(&disk, &clock);
    bed.produce(1, &["c"]);
    bed.log(PARENT, 1).close().unwrap();
    bed.link(&[link(COPIES, 1, NOW)]).await;
    settle().await;
    let is_open = |partition| {
        let partition = narad_core::plugin::PartitionId(partition);
        bed.store.stats(&bed.spec(PARENT), partition).unwrap().open
    };
    assert_eq!([0, 1, 2].map(is_open), [false, true, false]);
    assert_eq!(bed.payloads(COPIES, 1), ["b", "c"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_partition_of_the_parent_is_copied_from_its_start_and_a_childs_is_used() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    bed.grow(PARENT, 5);
    bed.produce(4, &["before the fan-out knew"]);
    let mut grown = link(COPIES, 1, NOW);
    grown.parent_partitions = 5;
    bed.link(&[grown]).await;
    settle().await;
    assert_eq!(bed.payloads(COPIES, 4 % 3), ["before the fan-out knew"]);
    bed.grow(COPIES, 5);
    bed.produce(4, &["after the child grew"]);
    settle().await;
    assert_eq!(bed.payloads(COPIES, 4), ["after the child grew"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_waits_alone_is_tried_once_a_second_and_repeats_no_part_that_was_taken() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW), link(OTHERS, 2, NOW)]).await;
    bed.codecs[0].refuses.store(true, Ordering::SeqCst);
    bed.produce(0, &["a", "b"]);
    pass(Duration::from_millis(500)).await;
    assert_eq!(bed.payloads(OTHERS, 0), ["a", "b"], "the other child goes on");
    let before = bed.codecs[0].asked.load(Ordering::SeqCst);
    for n in 0..10 {
        bed.produce(0, &["c"]);
        pass(Duration::from_secs(1)).await;
        assert_eq!(bed.payloads(OTHERS, 0).len(), 3 + n, "the other child goes on");
    }
    let tries = bed.codecs[0].asked.load(Ordering::SeqCst) - before;
    assert!((9..=11).contains(&tries), "{tries} tries in ten seconds");
    let lag = bed.fanout.lags(&[1]).await[0];
    assert_eq!((lag.messages, lag.complete), (12, true));
    bed.codecs[0].refuses.store(false, Ordering::SeqCst);
    pass(Duration::from_secs(2)).await;
    assert_eq!(bed.payloads(COPIES, 0), bed.payloads(OTHERS, 0));
    let [first, _] = bed.fanout.stats().await.try_into().unwrap();
    assert_eq!((&*first.child, first.committed, first.dropped), (COPIES, 12, 0));
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_repeats_no_part_that_a_partition_of_the_child_has_taken() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    // One partition of the child cannot be opened.
    disk.plant("/data/topics/copies-1/p00001", b"a file in its place".to_vec());
    bed.link(&[link(COPIES, 1, NOW)]).await;
    let keys: Vec<String> = (0..30).map(|n| format!("key-{n}")).collect();
    let batch: Batch = keys.iter().map(|key| (key.as_bytes(), key.as_bytes())).collect();
    bed.log(PARENT, 0).commit(batch).unwrap();
    pass(Duration::from_secs(10)).await;
    let taken = |partition| bed.payloads(COPIES, partition);
    let before = (taken(0), taken(2));
    assert!(!before.0.is_empty() && !before.1.is_empty());
    use narad_core::disk::Disk as _;
    disk.remove_file("/data/topics/copies-1/p00001".as_ref()).unwrap();
    pass(Duration::from_secs(2)).await;
    assert_eq!((taken(0), taken(2)), before, "no duplicates");
    let mut all = [taken(0), taken(1), taken(2)].concat();
    all.sort();
    let mut expected = keys;
    expected.sort();
    assert_eq!(all, expected);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_retention_took_first_is_one_jump_and_counted() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    bed.codecs[0].refuses.store(true, Ordering::SeqCst);
    let long = "x".repeat(100);
    for n in 0..20 {
        bed.produce(0, &[&format!("{n}-{long}")]);
    }
    settle().await;
    let parent = bed.log(PARENT, 0);
    parent.sweep(None).unwrap();
    let oldest = parent.oldest_offset().get();
    assert!(oldest > 0);
    bed.codecs[0].refuses.store(false, Ordering::SeqCst);
    pass(Duration::from_secs(2)).await;
    let copied = bed.payloads(COPIES, 0);
    assert_eq!(copied, bed.payloads(PARENT, 0));
    assert_eq!(copied.len() as u64, 20 - oldest);
    assert_eq!(bed.fanout.stats().await[0].dropped, oldest);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_passed_over_and_counted() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.produce(0, &["first", "damaged", "third"]);
    bed.log(PARENT, 0).close().unwrap();
    let segment = format!("/data/topics/{PARENT}/p00000/{:020}.log", 0);
    disk.alter(&segment, |bytes| {
        let at = bytes.windows(7).position(|window| window == b"damaged").unwrap();
        bytes[at] ^= 1;
    });
    bed.link(&[link(COPIES, 1, NOW)]).await;
    settle().await;
    assert_eq!(bed.payloads(COPIES, 0), ["first", "third"]);
    assert_eq!(bed.fanout.stats().await[0].dropped, 1);
    assert!(bed.cursor(0, COPIES).unwrap().ends_with("\"next_offset\":3}"));
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_link_that_ended_copies_nothing_and_leaves_no_cursor() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW), link(OTHERS, 2, NOW)]).await;
    bed.produce(0, &["a"]);
    settle().await;
    assert!(disk.contents(cursor_path(0, COPIES)).is_some());
    bed.link(&[link(OTHERS, 2, NOW)]).await;
    bed.produce(0, &["b"]);
    settle().await;
    assert_eq!(bed.payloads(COPIES, 0), ["a"]);
    assert_eq!(bed.payloads(OTHERS, 0), ["a", "b"]);
    assert_eq!(disk.contents(cursor_path(0, COPIES)), None);
    // Attached again at the tail: what came in between is not copied.
    let mut again = link(COPIES, 3, NOW);
    again.parent.offsets = [2u32, 0, 0].map(Offset::from).into();
    bed.link(&[link(OTHERS, 2, NOW), again]).await;
    bed.produce(0, &["c"]);
    settle().await;
    assert_eq!(bed.payloads(COPIES, 0), ["a", "c"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW)]).await;
    bed.produce(0, &["there is room"]);
    settle().await;
    bed.produce(0, &["a", "b"]);
    disk.set_capacity(Some(disk.used_bytes()));
    pass(Duration::from_secs(5)).await;
    assert_eq!(bed.payloads(COPIES, 0), ["there is room"]);
    let syncs = disk.count(CallKind::SyncData);
    pass(Duration::from_secs(10)).await;
    assert!(disk.count(CallKind::SyncData) < syncs + 50, "tried now and then");
    disk.set_capacity(None);
    pass(Duration::from_secs(2)).await;
    assert_eq!(bed.payloads(COPIES, 0), ["there is room", "a", "b"]);
    bed.close().await;
}

#[tokio::test(start_paused = true)]
async fn links_that_hang_end_side_by_side() {
    let (disk, clock) = disk(seed());
    let bed = Bed::open(&disk, &clock);
    bed.link(&[link(COPIES, 1, NOW), link(OTHERS, 2, NOW)]).await;
    bed.topics.1.store(true, Ordering::SeqCst);
    bed.produce(0, &["a"]);
    settle().await;
    let begin = tokio::time::Instant::now();
    bed.link(&[]).await;
    let took = begin.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(9)).contains(&took), "{took:?}");
}
