//! Descriptors that are given up while others commit and read: nobody notices but by opening the file again.

use std::sync::Arc;

use shuttle::thread;

use super::{Rig, explore, offset, options, record};
use crate::log::Log;

/// Small segments, so that a release finds sealed ones too.
fn rig() -> Arc<Rig> {
    let mut options = options();
    options.segment_bytes = 100;
    let rig = Arc::new(Rig::with(0, options));
    rig.log.commit(record("0")).unwrap();
    rig
}

#[test]
fn st_06_a_release_disturbs_neither_commits_nor_reads() {
    explore(6_000, || {
        let rig = rig();
        let committer = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for at in 1..4 {
                    assert_eq!(rig.log.commit(record(&at.to_string())).unwrap().start, offset(at));
                }
            })
        };
        let reader = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for _ in 0..3 {
                    let batch = rig.log.read_batch(offset(0), 10, 1 << 20).unwrap();
                    assert!(!batch.records.is_empty() && batch.unreadable.is_empty());
                    assert!(batch.records.iter().all(|record| record.payload == record.offset.to_string()));
                }
            })
        };
        for _ in 0..3 {
            rig.log.release_files();
        }
        committer.join().unwrap();
        reader.join().unwrap();
        assert!(rig.log.release_files(), "nobody is left");
        assert_eq!(rig.disk.open_files(), 0);
        assert_eq!(rig.visible(), ["0", "1", "2", "3"]);
    });
}

#[test]
fn st_06_a_release_and_a_close_leave_no_file_open() {
    explore(4_000, || {
        let rig = rig();
        rig.log.append(&record("1")).unwrap();
        let releaser = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || _ = rig.log.release_files())
        };
        rig.log.close().unwrap();
        releaser.join().unwrap();
        assert_eq!(rig.disk.open_files(), 0, "a closed log holds no file");
        let again = Log::open(&rig.runtime, rig.log.dir(), options()).unwrap();
        assert_eq!((again.next_offset(), again.high_watermark()), (offset(2), offset(1)));
    });
}
