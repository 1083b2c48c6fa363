//! Field faults of small state files: zero-filled, of an odd size, with bytes behind, unreadable, or no file at all.
//! The log opens, no record is hidden, no position skips forward, and it is logged and counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod store_support;

use narad_core::{
    Error,
    format::{AHEAD_SLOT_LEN, Batch},
    runtime::Runtime,
    store::Store,
    testkit::{CallKind, Failure, Fault, SimDisk},
};
use store_support::{Bench, p, position, topic};

const PARTITION: &str = "/data/topics/orders/p00000";
const RECORDS: u64 = 10;
/// What was settled before the damage.
const FRONTIER: u64 = 3;
const ACKED: u64 = 5;

/// What becomes of a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Missing,
    Empty,
    Zeros,
    Short,
    Long,
    Ones,
    Directory,
    NoFile,
}

const HARMS: [Harm; 8] = [
    Harm::Missing,
    Harm::Empty,
    Harm::Zeros,
    Harm::Short,
    Harm::Long,
    Harm::Ones,
    Harm::Directory,
    Harm::NoFile,
];

impl Harm {
    fn apply(self, disk: &SimDisk, path: &str) {
        let content = disk.contents(path).expect("a file to harm");
        let unlink = || narad_core::disk::Disk::remove_file(disk, path.as_ref()).unwrap();
        match self {
            Self::Missing => unlink(),
            Self::Empty => disk.alter(path, Vec::clear),
            Self::Zeros => disk.alter(path, |bytes| bytes.fill(0)),
            Self::Short => disk.alter(path, |bytes| bytes.truncate(content.len() / 2 + 1)),
            Self::Long => disk.alter(path, |bytes| bytes.extend_from_slice(b"and more")),
            Self::Ones => disk.alter(path, |bytes| bytes.fill(0xFF)),
            Self::Directory => {
                unlink();
                disk.plant_dir(path);
            }
            Self::NoFile => {
                unlink();
                disk.plant_other(path);
            }
        }
    }
}

/// A data directory with one partition of ten records, some of them settled, closed in good order.
fn used() -> Bench {
    let bench = Bench::new(1);
    let store = bench.open();
    let log = store.log(&topic("orders", 1), p(0)).unwrap();
    for n in 0..RECORDS {
        log.commit(Batch::of(b"key", n.to_string().as_bytes())).unwrap();
    }
    store.record_position(&topic("orders", 1), p(0), position(FRONTIER, &[ACKED]));
    store.close().unwrap();
    bench
}

fn counted(runtime: &Runtime) -> u64 {
    runtime.metrics().error_count("storage", "state_file")
}

fn open_counting(bench: &Bench) -> (Store, Runtime) {
    let runtime = bench.runtime();
    let store = Store::open(&runtime, store_support::DATA.as_ref(), Default::default()).unwrap();
    (store, runtime)
}

fn assert_all_readable(store: &Store, why: &str) {
    let log = store.log(&topic("orders", 1), p(0)).unwrap_or_else(|error| panic!("{why}: {error}"));
    assert_eq!(log.high_watermark().get(), RECORDS, "{why}: a visible record is hidden");
    let batch = log.read_batch(log.oldest_offset(), 100, 1 << 20).unwrap();
    let found: Vec<_> =
        batch.records.iter().map(|r| String::from_utf8(r.payload.to_vec()).unwrap()).collect();
    assert_eq!(found, (0..RECORDS).map(|n| n.to_string()).collect::<Vec<_>>(), "{why}");
}

#[test]
fn a_damaged_hwm_hides_no_record_takes_commits_and_is_counted() {
    for harm in HARMS {
        let bench = used();
        harm.apply(&bench.disk, &format!("{PARTITION}/hwm"));
        let (store, runtime) = open_counting(&bench);
        assert_all_readable(&store, &format!("{harm:?}"));
        let quiet = matches!(harm, Harm::Missing | Harm::Empty);
        assert_eq!(counted(&runtime), u64::from(!quiet), "{harm:?}");
        let log = store.log(&topic("orders", 1), p(0)).unwrap();
        assert_eq!(log.commit(Batch::of(b"key", b"new")).unwrap().start.get(), RECORDS, "{harm:?}");
        drop((log, store));
        bench.disk.power_loss();
        let store = bench.open();
        assert_eq!(
            store.log(&topic("orders", 1), p(0)).unwrap().high_watermark().get(),
            RECORDS + 1,
            "{harm:?}"
        );
    }
}

#[test]
fn an_unreadable_hwm_hides_no_record_and_fails_commits_until_it_can_be_emptied() {
    for failure in [Failure::Io, Failure::AccessDenied, Failure::TooManyFiles] {
        let bench = used();
        let fault = bench.disk.inject(Fault::fail(CallKind::Open, failure).named("hwm").onwards());
        let (store, runtime) = open_counting(&bench);
        assert_all_readable(&store, &format!("{failure:?}"));
        assert_eq!(counted(&runtime), 1, "{failure:?}");
        let log = store.log(&topic("orders", 1), p(0)).unwrap();
        // Its statement would hide what is acknowledged now.
        assert!(matches!(log.commit(Batch::of(b"key", b"new")), Err(Error::Io { .. })), "{failure:?}");
        bench.disk.remove_fault(fault);
        assert_eq!(log.commit(Batch::of(b"key", b"new")).unwrap().start.get(), RECORDS, "{failure:?}");
        bench.disk.power_loss();
        drop((log, store));
        let log = bench.open().log(&topic("orders", 1), p(0)).unwrap();
        assert_eq!(log.high_watermark().get(), RECORDS + 1, "{failure:?}");
    }
}

/// What a damaged file can mean at worst: something settled comes again. Never: something unsettled is passed over.
fn assert_no_skip(store: &Store, why: &str) -> (Option<u64>, Vec<u64>) {
    let spec = topic("orders", 1);
    assert_all_readable(store, why);
    let found = store.consumer_position(&spec, p(0)).unwrap_or_else(|error| panic!("{why}: {error}"));
    let frontier = found.frontier.map(|offset| offset.get());
    assert!(frontier <= Some(FRONTIER), "{why}: the frontier skipped to {frontier:?}");
    let acked: Vec<u64> = found.acked.iter().map(|offset| offset.get()).collect();
    assert!(acked.iter().all(|&at| at == ACKED || at <= FRONTIER), "{why}: {acked:?}");
    (frontier, acked)
}

#[test]
fn a_damaged_consumer_offset_skips_nothing_and_consumer_ahead_stands_in() {
    for harm in HARMS {
        let bench = used();
        harm.apply(&bench.disk, &format!("{PARTITION}/consumer.offset"));
        let (store, runtime) = open_counting(&bench);
        let found = assert_no_skip(&store, &format!("{harm:?}"));
        assert_eq!(found, (Some(FRONTIER), vec![ACKED]), "{harm:?}: the other file says it");
        // All ones are minus one: nothing settled, which a file may say.
        let quiet = matches!(harm, Harm::Missing | Harm::Empty | Harm::Ones);
        assert_eq!(counted(&runtime), u64::from(!quiet), "{harm:?}");
    }
}

#[test]
fn a_damaged_consumer_ahead_skips_nothing_and_consumer_offset_stands_in() {
    for harm in HARMS {
        let bench = used();
        harm.apply(&bench.disk, &format!("{PARTITION}/consumer.ahead"));
        let (store, runtime) = open_counting(&bench);
        let (frontier, _) = assert_no_skip(&store, &format!("{harm:?}"));
        assert_eq!(frontier, Some(FRONTIER), "{harm:?}: the other file says it");
        // Half of the file is a slot whose record holds; what lies behind the two slots is none of them.
        let whole = matches!(harm, Harm::Long | Harm::Short);
        let quiet = whole || matches!(harm, Harm::Missing | Harm::Empty);
        assert_eq!(counted(&runtime), u64::from(!quiet), "{harm:?}");
        // It is written again, unless something else has its place.
        store.record_position(&topic("orders", 1), p(0), position(FRONTIER + 1, &[]));
        bench.ticks(&store, 20);
        drop(store);
        bench.disk.power_loss();
        if !matches!(harm, Harm::Directory | Harm::NoFile) {
            let found = bench.open().consumer_position(&topic("orders", 1), p(0)).unwrap();
            assert_eq!(found, position(FRONTIER + 1, &[]), "{harm:?}");
        }
    }
}

#[test]
fn both_consumer_files_damaged_begin_at_the_first_record_and_not_at_the_last() {
    for harm in HARMS {
        let bench = used();
        for name in ["consumer.offset", "consumer.ahead"] {
            harm.apply(&bench.disk, &format!("{PARTITION}/{name}"));
        }
        let store = bench.open();
        let (frontier, _) = assert_no_skip(&store, &format!("{harm:?}"));
        let whole = matches!(harm, Harm::Long | Harm::Short);
        assert_eq!(frontier, whole.then_some(FRONTIER), "{harm:?}");
    }
}

#[test]
fn each_byte_of_a_consumer_file_overwritten_skips_nothing() {
    for name in ["consumer.offset", "consumer.ahead"] {
        let len = if name == "consumer.offset" { 8 } else { AHEAD_SLOT_LEN.min(64) };
        for at in (0..len).chain(AHEAD_SLOT_LEN..AHEAD_SLOT_LEN + 64) {
            for value in [0u8, 0x80, 0xFF] {
                let bench = used();
                let path = format!("{PARTITION}/{name}");
                if at >= bench.disk.contents(&path).unwrap().len() {
                    continue;
                }
                // A frontier has no checksum of its own in consumer.offset: whatever it says, it is held to the log.
                bench.disk.alter(&path, |bytes| bytes[at] = value);
                let store = bench.open();
                assert_all_readable(&store, name);
                let found = store.consumer_position(&topic("orders", 1), p(0)).unwrap();
                let end = found.frontier.map_or(0, |offset| offset.get() + 1);
                assert!(end <= RECORDS, "{name}[{at}] = {value}: {found:?}");
                if name == "consumer.ahead" {
                    assert_eq!(end, FRONTIER + 1, "{name}[{at}] = {value}");
                }
            }
        }
    }
}

#[test]
fn an_unreadable_consumer_file_is_an_error_of_that_partition_until_it_can_be_read() {
    for name in ["consumer.offset", "consumer.ahead"] {
        for failure in [Failure::Io, Failure::AccessDenied, Failure::TooManyFiles] {
            let bench = used();
            let fault = bench.disk.inject(Fault::fail(CallKind::Open, failure).named(name).onwards());
            let store = bench.open();
            assert_all_readable(&store, name);
            // Neither "nothing settled", which delivers everything again, nor a skip.
            let refused = store.consumer_position(&topic("orders", 1), p(0));
            assert!(matches!(refused, Err(Error::Io { .. })), "{name} {failure:?}: {refused:?}");
            assert_eq!(store.consumer_position(&topic("orders", 1), p(1)).unwrap(), position(None, &[]));
            bench.disk.remove_fault(fault);
            assert_eq!(assert_no_skip(&store, name), (Some(FRONTIER), vec![ACKED]), "{name} {failure:?}");
        }
    }
}

#[test]
fn a_damaged_marker_makes_no_record_an_orphan() {
    for harm in HARMS {
        let bench = used();
        harm.apply(&bench.disk, "/data/topics/orders/incarnation");
        let (store, runtime) = open_counting(&bench);
        if matches!(harm, Harm::Directory | Harm::NoFile) {
            // Whose it is cannot be told and cannot be written down: refused, and every byte kept.
            let refused = store.log(&topic("orders", 1), p(0));
            assert!(matches!(refused, Err(Error::Unusable { .. })), "{harm:?}: {refused:?}");
            assert!(store.log(&topic("others", 2), p(0)).is_ok(), "{harm:?}");
        } else {
            assert_all_readable(&store, &format!("{harm:?}"));
            let quiet = matches!(harm, Harm::Missing);
            assert_eq!(counted(&runtime), u64::from(!quiet), "{harm:?}");
        }
        let names = bench.names("/data/topics");
        assert!(names.iter().all(|name| !name.contains(".stale-")), "{harm:?}: {names:?}");
        assert!(
            bench
                .disk
                .contents(format!("{PARTITION}/00000000000000000000.log"))
                .is_some_and(|b| !b.is_empty())
        );
    }
}

#[test]
fn an_unreadable_marker_moves_and_deletes_nothing() {
    for failure in [Failure::Io, Failure::AccessDenied, Failure::TooManyFiles] {
        let bench = used();
        let before = bench.disk.paths();
        let fault = bench.disk.inject(Fault::fail(CallKind::Open, failure).named("incarnation").onwards());
        let store = bench.open();
        assert!(matches!(store.log(&topic("orders", 1), p(0)), Err(Error::Io { .. })), "{failure:?}");
        let id = narad_core::plugin::Incarnation::new(1);
        assert!(matches!(store.delete_topic("orders", id), Err(Error::Io { .. })), "{failure:?}");
        assert_eq!(bench.disk.paths(), before, "{failure:?}");
        bench.disk.remove_fault(fault);
        // A delete that failed may have retired the incarnation in this process: the next one serves it.
        drop(store);
        bench.disk.crash_process();
        assert_all_readable(&bench.open(), &format!("{failure:?}"));
    }
}
