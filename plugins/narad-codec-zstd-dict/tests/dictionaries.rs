//! When dictionaries are trained, used, kept and found again; and what a missing or damaged one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

mod support;

use narad_codec_zstd_dict::{ZstdDict, ZstdDictConfig, ZstdDictError};
use narad_core::{
    plugin::Codec,
    testkit::{CallKind, Failure, Fault, SimDisk},
    units::size::WithUnits,
};
use support::{OWN, Said, codec, decode, encode, maintain, raw, record, records, total, try_codec};

fn trained(disk: &SimDisk) -> ZstdDict {
    let codec = codec(disk);
    maintain(&codec, &records("order", 0..1000));
    assert!(codec.dictionary().is_some());
    codec
}

#[test]
fn small_frames_get_less_than_half_as_large_and_old_ones_are_read() {
    let disk = SimDisk::new(1);
    let codec = codec(&disk);
    let later = records("order", 5000..5200);
    let before: Vec<_> = later.iter().map(|record| encode(&codec, &raw(record))).collect();
    let plain = total(&codec, &later);
    assert_eq!(disk.paths().len(), 0, "nothing is written before there is something to keep");
    maintain(&codec, &records("order", 0..1000));
    let small = total(&codec, &later);
    assert!(small * 2 < plain, "{small} and {plain} bytes");
    for (record, old) in later.iter().zip(before) {
        let (raw, new) = (raw(record), encode(&codec, &raw(record)));
        assert_eq!(decode(&codec, &old, raw.len()).unwrap(), raw);
        assert_eq!(decode(&codec, &new, raw.len()).unwrap(), raw);
    }
    let large: Vec<u8> = later.iter().flat_map(raw).cycle().take(3 << 20).collect();
    assert_eq!(decode(&codec, &encode(&codec, &large), large.len()).unwrap(), large);
}

#[test]
fn it_asks_for_a_sample_when_enough_was_written_and_ever_more_rarely() {
    let disk = SimDisk::new(1);
    let codec = codec(&disk);
    let kib = |kib: usize| {
        for _ in 0..kib {
            encode(&codec, &[b'x'; 1024]);
        }
    };
    assert!(!codec.wants_sample());
    kib(15);
    assert!(!codec.wants_sample());
    kib(1);
    assert!(codec.wants_sample());
    maintain(&codec, &records("order", 0..1000));
    assert!(!codec.wants_sample());
    kib(31);
    assert!(!codec.wants_sample());
    kib(1);
    assert!(codec.wants_sample());
    maintain(&codec, &records("order", 0..1000));
    assert_eq!(
        disk.paths().iter().filter(|path| path.extension().is_some()).count(),
        1,
        "no gain, no dictionary"
    );
    kib(63);
    assert!(!codec.wants_sample());
}

#[test]
fn a_new_dictionary_takes_over_when_records_change_and_both_are_read_after_a_restart() {
    let disk = SimDisk::new(1);
    let before = trained(&disk);
    let first = before.dictionary();
    let old = raw(&records("order", 7..8)[0]);
    let old_frame = encode(&before, &old);
    maintain(&before, &records("a-wholly-different-kind-of-message-with-its-own-words", 0..1000));
    let second = before.dictionary();
    assert_ne!(first, second);
    let new_frame = encode(&before, &old);

    let after = codec(&disk);
    assert_eq!(after.dictionary(), second, "the newest is in use at once");
    for frame in [old_frame, new_frame] {
        assert_eq!(decode(&after, &frame, old.len()).unwrap(), old);
    }
    let mut names: Vec<_> =
        disk.paths().iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.retain(|name| name.ends_with(".dict") || name == "current");
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn at_the_bound_the_last_dictionary_stays() {
    let disk = SimDisk::new(1);
    let config = ZstdDictConfig { max_dictionaries: 1, ..ZstdDictConfig::default() };
    let codec = try_codec(&disk, config).unwrap();
    maintain(&codec, &records("order", 0..1000));
    let first = codec.dictionary();
    assert!(first.is_some());
    for _ in 0..100 {
        encode(&codec, &[b'x'; 1024]);
    }
    assert!(!codec.wants_sample());
    maintain(&codec, &records("a-wholly-different-kind-of-message-with-its-own-words", 0..1000));
    assert_eq!(codec.dictionary(), first);
    assert_eq!(try_codec(&disk, config).unwrap().dictionary(), first);
}

#[test]
fn a_dictionary_has_at_most_the_size_that_is_set() {
    let disk = SimDisk::new(1);
    let config = ZstdDictConfig { dictionary_bytes: WithUnits(2048), ..ZstdDictConfig::default() };
    let codec = try_codec(&disk, config).unwrap();
    maintain(&codec, &records("order", 0..1000));
    let name = format!("{OWN}/{:08x}.dict", codec.dictionary().unwrap());
    assert!(disk.contents(name).unwrap().len() <= 2048);
}

#[test]
fn what_nothing_can_be_learnt_from_makes_no_dictionary_and_no_error() {
    let disk = SimDisk::new(1);
    let codec = codec(&disk);
    let mut state = 1_u64;
    let noise: Vec<_> = (0..1000)
        .map(|n| {
            let bytes = (0..200).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8
            });
            record(n, bytes.collect())
        })
        .collect();
    let empty: Vec<_> = (0..1000).map(|n| record(n, Vec::new())).collect();
    let few = records("order", 0..5);
    for sample in [&noise[..], &empty, &few, &[]] {
        maintain(&codec, sample);
    }
    maintain(&codec, &vec![records("order", 1..2)[0].clone(); 1000]);
    let record = raw(&few[0]);
    assert_eq!(decode(&codec, &encode(&codec, &record), record.len()).unwrap(), record);
}

#[test]
fn a_missing_dictionary_is_named_and_is_no_corruption() {
    let disk = SimDisk::new(1);
    let before = trained(&disk);
    let id = before.dictionary().unwrap();
    let record = raw(&records("order", 7..8)[0]);
    let stored = encode(&before, &record);
    let path = format!("{OWN}/{id:08x}.dict");
    let content = disk.contents(&path).unwrap();

    use narad_core::disk::Disk;
    disk.remove_file(path.as_ref()).unwrap();
    let without = codec(&disk);
    assert_eq!(without.dictionary(), None);
    match decode(&without, &stored, record.len()).unwrap_err() {
        Said::Lacking(error @ ZstdDictError::NoDictionary { damaged: false, .. }) => {
            assert_eq!(error.to_string(), format!("the frame needs dictionary {id:08x}, which is not there"));
        }
        other => panic!("{other:?}"),
    }
    let plain = encode(&without, &record);
    assert_eq!(decode(&without, &plain, record.len()).unwrap(), record, "it goes on without");

    let mut damaged = content.clone();
    damaged[1000] ^= 1;
    for damaged in [damaged, content[..content.len() - 1].to_vec(), Vec::new(), vec![0; 5 << 20]] {
        disk.plant(&path, damaged);
        let with_damaged = codec(&disk);
        assert_eq!(with_damaged.dictionary(), None);
        let said = decode(&with_damaged, &stored, record.len()).unwrap_err();
        assert!(
            matches!(said, Said::Lacking(ZstdDictError::NoDictionary { id: named, damaged: true }) if named == id)
        );
        assert_eq!(decode(&with_damaged, &plain, record.len()).unwrap(), record);
    }
    let waiting = codec(&disk);
    decode(&waiting, &stored, record.len()).unwrap_err();
    assert!(waiting.wants_sample(), "it would look again");
    disk.plant(&path, content);
    maintain(&waiting, &[]);
    assert!(!waiting.wants_sample());
    for back in [waiting, codec(&disk)] {
        assert_eq!(decode(&back, &stored, record.len()).unwrap(), record, "once it is back");
        assert_eq!(back.dictionary(), Some(id));
    }
}

#[test]
fn a_codec_reads_what_the_one_that_it_replaces_has_trained_meanwhile() {
    let disk = SimDisk::new(1);
    let (replaced, new) = (codec(&disk), codec(&disk));
    maintain(&replaced, &records("order", 0..1000));
    let record = raw(&records("order", 7..8)[0]);
    let stored = encode(&replaced, &record);
    decode(&new, &stored, record.len()).unwrap_err();
    maintain(&new, &[]);
    assert_eq!(decode(&new, &stored, record.len()).unwrap(), record);
}

#[test]
fn another_dictionary_never_passes_for_the_one_that_a_frame_needs() {
    let (disk, other) = (SimDisk::new(1), SimDisk::new(2));
    let record = raw(&records("order", 7..8)[0]);
    let stored = encode(&trained(&disk), &record);
    let elsewhere = codec(&other);
    maintain(&elsewhere, &records("order", 3000..4000));
    let said = decode(&elsewhere, &stored, record.len()).unwrap_err();
    assert!(matches!(said, Said::Lacking(ZstdDictError::NoDictionary { damaged: false, .. })), "{said:?}");
}

#[test]
fn files_of_others_and_a_damaged_current_are_no_obstacle() {
    let disk = SimDisk::new(1);
    let id = trained(&disk).dictionary();
    for name in ["notes.txt", "1.dict", "zzzzzzzz.dict"] {
        disk.plant(format!("{OWN}/{name}"), b"not ours".to_vec());
    }
    assert_eq!(codec(&disk).dictionary(), id);
    for current in [&b""[..], b"\xFF\xFE", b"0000800a.dict", b"../../x"] {
        disk.plant(format!("{OWN}/current"), current);
        let codec = codec(&disk);
        assert_eq!(codec.dictionary(), None, "plain until the next training");
        maintain(&codec, &records("order", 0..1000));
        assert_eq!(codec.dictionary(), id, "the same sample makes the same dictionary");
    }
}

#[test]
fn no_failure_and_no_power_loss_leaves_a_frame_without_its_dictionary() {
    for failure in [Failure::Io, Failure::NoSpace] {
        for nth in 1.. {
            let disk = SimDisk::new(nth);
            let before = codec(&disk);
            let fault = disk.inject(Fault::fail_all(failure).at(nth).onwards());
            let said = before.maintain(&narad_core::plugin::Sample::new(&records("order", 0..1000)));
            let is_used = before.dictionary().is_some();
            assert_eq!(said.is_ok(), is_used, "call {nth}");
            disk.remove_fault(fault);
            let record = raw(&records("order", 7..8)[0]);
            let mut frames = vec![encode(&before, &record)];
            // A process that is started again without a power loss finds what the failed write left.
            frames.push(encode(&codec(&disk), &record));
            disk.power_loss();
            let after = codec(&disk);
            for frame in &frames {
                assert_eq!(decode(&after, frame, record.len()).unwrap(), record, "call {nth}");
            }
            maintain(&after, &records("order", 0..1000));
            assert!(after.dictionary().is_some(), "and a later sample makes one");
            if is_used {
                assert!(nth > 10, "{nth}: the fault was at every call before");
                break;
            }
        }
    }
}

#[test]
fn a_dictionary_is_synced_before_it_is_named_in_use() {
    let disk = SimDisk::new(1);
    trained(&disk);
    assert!(disk.count(CallKind::SyncData) >= 2 && disk.count(CallKind::SyncDir) >= 2);
}
