//! Reads while retention deletes: the record, or that it has expired, and nothing else.

use std::{sync::Arc, time::Duration};

use shuttle::thread;

use super::{Rig, explore, offset, options, record};
use crate::{
    error::Error,
    format::Offset,
    plugin::{RetentionDecision, RetentionPolicy, RetentionView},
};

/// Lets everything go.
#[derive(Debug)]
struct KeepNothing;

impl RetentionPolicy for KeepNothing {
    fn name(&self) -> &str {
        "keep-nothing"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::expire(view.segments.len(), "model")
    }
}

/// Three records in segments of their own.
fn rig() -> Arc<Rig> {
    let mut options = options();
    options.segment_bytes = 1;
    options.retention = Arc::new(KeepNothing);
    let rig = Arc::new(Rig::with(0, options));
    for payload in ["0", "1", "2"] {
        rig.log.commit(record(payload)).unwrap();
    }
    rig
}

fn read_on(rig: &Rig, from: u32) {
    for at in from..4 {
        match rig.log.read(offset(at)) {
            Ok(record) => assert_eq!(record.payload, at.to_string()),
            Err(Error::Expired { oldest, .. }) => assert!(oldest > offset(at)),
            Err(Error::NotYet { .. }) => assert_eq!(at, 3, "what was committed has been read or has expired"),
            Err(error) => panic!("{error}"),
        }
        match rig.log.read_batch(offset(at), 10, 1 << 20) {
            // What a sweep takes from under a batch counts as unreadable, or ends it.
            Ok(batch) => {
                assert!(batch.records.iter().all(|record| record.payload == record.offset.to_string()));
            }
            Err(Error::Expired { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn rt_04_a_read_against_a_sweep_finds_the_record_or_that_it_has_expired() {
    explore(6_000, || {
        let rig = rig();
        let readers = [0, 1].map(|from| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || read_on(&rig, from))
        });
        let writer = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || _ = rig.log.commit(record("3")).unwrap())
        };
        rig.log.sweep(None).unwrap();
        for thread in readers.into_iter().chain([writer]) {
            thread.join().unwrap();
        }
        let oldest = rig.log.oldest_offset();
        assert!(oldest >= offset(3), "the sweep kept {oldest}");
        assert_eq!(rig.log.next_offset(), offset(4));
        let (cache, id) = (rig.runtime.cache(), rig.log.0.cache_id);
        let held: Vec<u32> =
            (0..4).filter(|at| offset(*at) < oldest && cache.get(id, offset(*at)).is_some()).collect();
        assert!(held.is_empty(), "deleted records stay in memory: {held:?}");
    });
}

#[test]
fn rt_04_two_sweeps_and_a_close_delete_each_segment_once() {
    explore(4_000, || {
        let rig = rig();
        let sweepers = [(); 2].map(|()| {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.log.sweep(None).unwrap().segments)
        });
        rig.log.close().unwrap();
        let swept: usize = sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum();
        assert!(swept <= 4, "{swept} segments were deleted, and three or four were there");
        assert_eq!(rig.disk.open_files(), 0, "a closed log holds no file");
        let again = crate::log::Log::open(&rig.runtime, rig.log.dir(), options()).unwrap();
        assert_eq!((again.next_offset(), again.high_watermark()), (offset(3), offset(3)));
        assert!(again.oldest_offset() == Offset::ZERO || swept > 0);
    });
}
