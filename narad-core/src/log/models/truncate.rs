//! Reads while a failed commit is cut off again: what was refused is never seen, what is kept always.

use std::sync::Arc;

use shuttle::thread;

use super::{Rig, explore, offset, record, text};
use crate::{
    error::Error,
    log::Log,
    testkit::{CallKind, Failure, Fault},
};

/// Reads both records a few times, by either call.
fn read_on(log: &Log) {
    for _ in 0..3 {
        assert_eq!(log.read(offset(0)).unwrap().payload, "kept");
        match log.read(offset(1)) {
            Ok(record) => assert_eq!(record.payload, "accepted"),
            Err(Error::NotYet { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let batch = log.read_batch(offset(0), 10, 1 << 20).unwrap();
        let seen: Vec<String> = batch.records.iter().map(|record| text(&record.payload)).collect();
        assert_eq!((seen[0].as_str(), batch.unreadable.len()), ("kept", 0));
        assert!(seen[1..].iter().all(|payload| payload == "accepted"), "{seen:?}");
    }
}

/// Commits one record that is refused, and the same again, while others read.
fn refuse(fault: Fault, reopens: bool) {
    let rig = Arc::new(Rig::new(0));
    rig.log.commit(record("kept")).unwrap();
    // A reader at the tail: what is written next enters the cache before it is committed.
    rig.log.read(offset(0)).unwrap();
    let readers = [(); 2].map(|()| {
        let rig = Arc::clone(&rig);
        thread::spawn(move || read_on(&rig.log))
    });
    rig.disk.inject(fault);
    assert!(rig.log.commit(record("refused")).is_err());
    if reopens {
        assert!(rig.log.is_poisoned());
        rig.log.reopen().unwrap();
    }
    assert_eq!(rig.log.commit(record("accepted")).unwrap().start, offset(1));
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(rig.visible(), ["kept", "accepted"]);
}

#[test]
fn cm_03_a_reader_never_sees_what_a_failed_commit_wrote() {
    // Written whole, synced, found different when it is read back, and cut.
    explore(6_000, || refuse(Fault::flip_bit(CallKind::Write), false));
}

#[test]
fn po_03_reads_go_on_while_a_poisoned_log_is_scanned_and_cut() {
    explore(6_000, || refuse(Fault::fail(CallKind::SyncData, Failure::Io), true));
}
