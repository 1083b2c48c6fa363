//! `Log::open` on a directory of arbitrary bytes (RC-07, RC-08, RC-09, FM-06): it ends, takes bounded memory, agrees with
//! a scanner of its own, is idempotent, and the log works afterwards.

use bolero::{check, produce};
use narad_core::{
    Error,
    format::{Batch, Offset},
    log::Log,
};
use narad_fuzz::{
    dir_harm::DirHarm,
    directory::{Directory, Start, contents, segment_name},
    rig::{Cost, Read, Rig, read_all},
    slow::{Records, Scan},
};

use crate::DIRECTORY_TIME;

#[test]
fn fuzz_open() {
    Start::all().for_each(|start| check_open(start, &[]));
    let harms = produce::<Vec<DirHarm>>().with().len(1usize..7);
    check!()
        .with_generator((produce::<Start>(), harms))
        .with_test_time(DIRECTORY_TIME)
        .for_each(|(start, harms)| check_open(*start, harms));
}

fn check_open(start: Start, harms: &[DirHarm]) {
    let mut directory = start.directory();
    harms.iter().for_each(|harm| harm.apply(&mut directory));
    check_directory(&directory);
}

pub fn check_directory(directory: &Directory) {
    let rig = Rig::with(directory);
    let planted = contents(&rig.disk);
    let scan = Scan::of(directory);
    let cost = Cost::for_files(directory.0.len(), directory.bytes(), scan.largest_claim);

    let log = match rig.within(cost, || rig.open()) {
        Ok(log) => log,
        Err(Error::Unusable { .. }) if directory.has_segment_at_the_end_of_offsets() => {
            assert!(planted == contents(&rig.disk), "an open that fails changes nothing");
            return;
        }
        Err(error) => panic!("the open failed: {error}"),
    };
    let first = check_log(&log, &scan);
    let (high_watermark, next) = (log.high_watermark(), log.next_offset());
    drop(log);
    assert_only_a_tail_was_cut(directory, &rig);

    let opened = contents(&rig.disk);
    let log = rig.within(cost, || rig.open()).expect("it opens again");
    assert!(opened == contents(&rig.disk), "the second open changed bytes");
    assert_eq!((log.high_watermark(), log.next_offset()), (high_watermark, next), "the second open");
    assert!(check_log(&log, &scan) == first, "the second open reads differently");
    check_commit(&rig, log, directory, &Before { scan, read: first });
}

fn check_log(log: &Log, scan: &Scan) -> Read {
    let (oldest, high_watermark, next) = (log.oldest_offset(), log.high_watermark(), log.next_offset());
    assert!(oldest <= high_watermark && high_watermark <= next, "{oldest}, {high_watermark}, {next}");
    let read = read_all(log);
    explain(scan, &read.records, high_watermark.get());
    read
}

fn explain(scan: &Scan, records: &Records, high_watermark: u64) {
    if let Err(why) = scan.explain(records, high_watermark) {
        panic!("{why}");
    }
}

/// What was found before a commit.
struct Before {
    scan: Scan,
    read: Read,
}

/// A commit lands at the next offset, takes nothing away, and is there after a close and an open.
fn check_commit(rig: &Rig, log: Log, directory: &Directory, before: &Before) {
    let next = log.next_offset();
    let committed = log.commit(Batch::of(b"key", b"afterwards"));
    let Some(end) = next.checked_add(1) else {
        assert!(committed.is_err(), "no record has the largest offset");
        return;
    };
    let name = segment_name(next.get());
    if committed.is_err() && directory.0.contains_key(&name) && directory.file(&name).is_none() {
        // What is no file has the name of the segment to come, and is not ours to remove.
        return;
    }
    assert_eq!(committed.expect("a commit"), next..end);
    let after = check_after_commit(&log, before, next);
    log.close().expect("a close");
    drop(log);
    let log = rig.open().expect("it opens after a close");
    assert_eq!((log.high_watermark(), log.next_offset()), (end, end), "after a close");
    let reopened = check_after_commit(&log, before, next);
    assert!(reopened == after, "after a close");
}

fn check_after_commit(log: &Log, before: &Before, new: Offset) -> Read {
    assert_eq!(log.high_watermark(), log.next_offset());
    let mut read = read_all(log);
    let landed = read.records.remove(&new.get()).expect("what was committed is there");
    assert_eq!((&landed.key[..], &landed.payload[..]), (&b"key"[..], &b"afterwards"[..]));
    for (at, record) in &before.read.records {
        assert_eq!(read.records.get(at), Some(record), "{at} could be read before the commit");
    }
    explain(&before.scan, &read.records, new.get());
    read
}

/// An open may cut the newest segment short and touches nothing else.
fn assert_only_a_tail_was_cut(directory: &Directory, rig: &Rig) {
    let newest = directory.segments().map(|(base, _)| segment_name(base)).last();
    let found = contents(&rig.disk);
    for (path, bytes) in &found {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let planted = directory.file(name);
        let Some(bytes) = bytes else { continue };
        let planted = planted.unwrap_or_else(|| panic!("{name} was created"));
        let is_kept =
            if Some(name) == newest.as_deref() { planted.starts_with(bytes) } else { planted == bytes };
        assert!(is_kept, "{name} was changed");
    }
}
