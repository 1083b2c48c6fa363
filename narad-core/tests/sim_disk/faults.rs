//! What goes wrong on demand: failing, short, lost, lying and held calls, a full disk.

use std::{io, thread};

use narad_core::{
    disk::{Disk, FileExt},
    testkit::{CallKind, Failure, Fault, Gate, SimDisk, Survival},
};

use super::{EIO, SECTOR, create, durable, outcomes, path};

#[test]
fn of_several_faults_the_first_that_is_due_decides_and_all_count() {
    let disk = SimDisk::new(27);
    let first = disk.inject(Fault::fail(CallKind::List, Failure::Io).at(2));
    let second = disk.inject(Fault::fail(CallKind::List, Failure::ReadOnly).at(2).onwards());
    disk.list(path("/")).unwrap();
    assert_eq!(disk.list(path("/")).unwrap_err().raw_os_error(), Some(EIO));
    assert_eq!(disk.list(path("/")).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!((disk.fired(first), disk.fired(second)), (1, 1));
    disk.remove_fault(second);
    disk.list(path("/")).unwrap();
}

#[test]
fn after_a_failed_sync_a_later_one_brings_nothing_back() {
    let disk = SimDisk::new(10);
    let file = durable(&disk, "f", &[0; 8 * SECTOR]);
    file.write_all_at(&[1; 8 * SECTOR], 0).unwrap();
    disk.inject(Fault::fail(CallKind::SyncData, Failure::Io));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(EIO));
    file.sync_data().unwrap();
    assert_eq!(disk.contents("f").unwrap(), [1; 8 * SECTOR], "the page cache still shows it");
    let left = outcomes(&disk, "f");
    assert_eq!(left.len(), 1, "what the second sync covered is settled");
    assert_ne!(left, [Some(vec![1; 8 * SECTOR])].into(), "some sector was forgotten (seed 10)");

    // A sector that is written again, however little of it, is written whole.
    for sector in 0..8 {
        file.write_all_at(&[1], (sector * SECTOR) as u64 + 9).unwrap();
    }
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![1; 8 * SECTOR])].into());
}

#[test]
fn lying_syncs_keep_nothing() {
    let disk = SimDisk::new(12);
    disk.lie_about_syncs(true);
    durable(&disk, "f", b"x");
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(disk.contents("f"), None);
}

#[test]
fn a_skipped_sync_is_acknowledged_and_not_done() {
    let disk = SimDisk::new(13);
    let file = durable(&disk, "f", b"a");
    disk.inject(Fault::skip(CallKind::SyncData).named("f"));
    file.write_all_at(b"b", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f").len(), 2);
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f").len(), 1);
}

#[test]
fn a_full_disk_takes_what_fits_then_refuses_growth_alone() {
    let disk = SimDisk::new(14);
    let file = create(&disk, "f");
    disk.set_capacity(Some(10));
    assert_eq!(file.write_at(&[1; 16], 0).unwrap(), 10);
    assert_eq!(file.write_at(&[1], 10).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.set_len(11).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[2; 10], 0).unwrap(), 10);
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 0);
    disk.remove_file(path("f")).unwrap();
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 0, "an open handle keeps the blocks");
    drop(file);
    assert_eq!(disk.available_bytes(path("/")).unwrap(), 10);
}

#[test]
fn reads_and_writes_are_shortened_flipped_and_lost_on_demand() {
    let disk = SimDisk::new(15);
    let file = durable(&disk, "f", b"abcdef");
    disk.inject(Fault::shorten(CallKind::Read, 2));
    let mut buf = [0; 6];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 2);
    disk.inject(Fault::shorten(CallKind::Read, 7));
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 6, "a read of less than that is whole");
    disk.inject(Fault::shorten(CallKind::Write, 1));
    assert_eq!(file.write_at(b"xy", 0).unwrap(), 1);
    disk.inject(Fault::flip_bit(CallKind::Write));
    file.write_all_at(b"abcdef", 0).unwrap();
    let differing = disk.contents("f").unwrap().iter().zip(b"abcdef").filter(|(a, b)| a != b).count();
    assert_eq!(differing, 1);
    disk.inject(Fault::skip(CallKind::Write));
    assert_eq!(file.write_at(b"gone", 0).unwrap(), 4);
    assert!(!disk.contents("f").unwrap().starts_with(b"gone"));
}

#[test]
fn every_failure_is_the_operating_systems_own() {
    let disk = SimDisk::new(16);
    for (failure, errno) in [
        (Failure::Io, 5),
        (Failure::NoSpace, 28),
        (Failure::TooManyFiles, 24),
        (Failure::AccessDenied, 13),
        (Failure::ReadOnly, 30),
        (Failure::QuotaExceeded, 122),
        (Failure::Interrupted, 4),
    ] {
        disk.inject(Fault::fail(CallKind::List, failure));
        assert_eq!(disk.list(path("/")).unwrap_err().raw_os_error(), Some(errno), "{failure:?}");
    }
    disk.inject(Fault::fail(CallKind::List, Failure::NoSpace));
    assert_eq!(disk.list(path("/")).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn power_can_be_cut_between_any_two_calls() {
    let disk = SimDisk::new(17);
    disk.inject(Fault::fail_all(Failure::Io).at(2).onwards());
    disk.create_dir(path("a")).unwrap();
    disk.create_dir(path("b")).unwrap_err();
    disk.sync_dir(path("/")).unwrap_err();
    disk.clear_faults();
    disk.power_loss_keeping(Survival::Everything);
    assert!(disk.metadata(path("a")).is_ok());
    assert!(disk.metadata(path("b")).is_err());
}

#[test]
fn a_held_call_waits_for_the_gate_and_others_go_on() {
    let disk = SimDisk::new(18);
    durable(&disk, "f", b"x");
    let gate = Gate::new();
    disk.inject(Fault::hold(CallKind::SyncDir, &gate));
    thread::scope(|scope| {
        let held = scope.spawn(|| disk.sync_dir(path("/")));
        gate.wait_for(1);
        assert!(!held.is_finished());
        assert!(disk.metadata(path("f")).is_ok());
        gate.open();
        held.join().unwrap().unwrap();
    });
}
