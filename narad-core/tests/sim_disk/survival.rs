//! What a power loss leaves of names, lengths and bytes.

use std::{collections::BTreeSet, io};

use narad_core::{
    disk::{Disk, FileExt, OpenMode},
    testkit::{SimDisk, Survival},
};

use super::{SECTOR, create, durable, outcomes, path};

#[test]
fn an_unsynced_name_may_or_may_not_survive() {
    let disk = SimDisk::new(2);
    let file = create(&disk, "new");
    file.write_all_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "new"), [None, Some(b"x".to_vec())].into());
}

#[test]
fn a_rename_without_sync_dir_may_or_may_not_survive_and_never_half() {
    let disk = SimDisk::new(3);
    durable(&disk, "a", b"new");
    durable(&disk, "b", b"old");
    disk.rename(path("a"), path("b")).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let fork = disk.fork();
        fork.power_loss();
        seen.insert((fork.contents("a"), fork.contents("b")));
    }
    let (new, old) = (Some(b"new".to_vec()), Some(b"old".to_vec()));
    assert_eq!(seen, [(new.clone(), old), (None, new)].into());
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk, "b"), [Some(b"new".to_vec())].into());
}

#[test]
fn an_unlink_without_sync_dir_may_come_back_whole() {
    let disk = SimDisk::new(4);
    durable(&disk, "f", b"kept");
    disk.remove_file(path("f")).unwrap();
    assert_eq!(disk.contents("f"), None);
    assert_eq!(outcomes(&disk, "f"), [None, Some(b"kept".to_vec())].into());
}

#[test]
fn what_lies_in_a_directory_whose_own_name_is_lost_goes_with_it() {
    let disk = SimDisk::new(5);
    disk.create_dir(path("d")).unwrap();
    create(&disk, "d/f");
    disk.sync_dir(path("d")).unwrap();
    disk.power_loss_keeping(Survival::Nothing);
    assert!(disk.paths().is_empty());
    assert_eq!(disk.metadata(path("d")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn one_write_call_is_torn_by_the_sector() {
    let disk = SimDisk::new(6);
    let file = durable(&disk, "f", &[0; 4 * SECTOR]);
    file.write_all_at(&[1; 4 * SECTOR], 0).unwrap();
    let left: BTreeSet<Vec<u8>> = outcomes(&disk, "f").into_iter().flatten().collect();
    assert_eq!(left.len(), 16, "each of 4 sectors by itself");
    for bytes in left {
        assert!(bytes.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }
}

#[test]
fn a_length_may_survive_without_its_bytes_and_then_reads_as_zeros() {
    let disk = SimDisk::new(7);
    let file = durable(&disk, "f", b"");
    file.write_all_at(&[1; SECTOR], 0).unwrap();
    let left = outcomes(&disk, "f");
    assert_eq!(left, [Some(vec![0; SECTOR]), Some(vec![1; SECTOR]), Some(vec![])].into());
}

#[test]
fn a_sector_may_hold_what_it_held_between_two_writes() {
    let disk = SimDisk::new(8);
    let file = durable(&disk, "f", b"a");
    file.write_all_at(b"b", 0).unwrap();
    file.write_all_at(b"c", 0).unwrap();
    let expected = [b"a", b"b", b"c"].map(|byte| Some(byte.to_vec()));
    assert_eq!(outcomes(&disk, "f"), expected.into());
}

#[test]
fn a_truncate_is_durable_only_once_synced() {
    let disk = SimDisk::new(9);
    let file = durable(&disk, "f", &[7; 2 * SECTOR]);
    file.set_len(0).unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![]), Some(vec![7; 2 * SECTOR])].into());
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, "f"), [Some(vec![])].into());
}

#[test]
fn a_file_that_was_made_and_unlinked_again_may_come_back() {
    let disk = SimDisk::new(23);
    create(&disk, "f").write_all_at(b"x", 0).unwrap();
    disk.open(path("f"), OpenMode::ReadWrite).unwrap().sync_data().unwrap();
    disk.remove_file(path("f")).unwrap();
    assert_eq!(outcomes(&disk, "f"), [None, Some(b"x".to_vec())].into());
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk, "f"), [None].into());
}

#[test]
fn a_directory_synced_over_a_rename_across_two_makes_both_names_durable() {
    let disk = SimDisk::new(24);
    disk.plant_dir("from");
    disk.plant_dir("to");
    create(&disk, "from/f");
    disk.rename(path("from/f"), path("to/f")).unwrap();
    disk.sync_dir(path("to")).unwrap();
    disk.power_loss_keeping(Survival::Nothing);
    assert_eq!(disk.paths(), [path("/to/f")]);
}

#[test]
fn a_growth_may_be_torn_at_the_end_of_a_sector() {
    let disk = SimDisk::new(25);
    let file = durable(&disk, "f", &[7; 100]);
    file.write_all_at(&[1; 3 * SECTOR], 100).unwrap();
    let lengths: BTreeSet<_> = outcomes(&disk, "f").into_iter().flatten().map(|bytes| bytes.len()).collect();
    assert_eq!(lengths, [100, SECTOR, 2 * SECTOR, 3 * SECTOR, 100 + 3 * SECTOR].into());
}

#[test]
fn a_file_written_anew_never_shows_through_an_old_length() {
    let disk = SimDisk::new(26);
    let file = durable(&disk, "f", &[1; 3 * SECTOR]);
    file.set_len(0).unwrap();
    file.write_all_at(&[2; SECTOR], 0).unwrap();
    for bytes in outcomes(&disk, "f").into_iter().flatten() {
        assert!(bytes.len() < 3 * SECTOR || bytes == [1; 3 * SECTOR], "old length, new bytes");
    }
}
