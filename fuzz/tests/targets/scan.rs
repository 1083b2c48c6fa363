//! The walk through one segment, as the inspection sees it: it tells of everything once, in order, and takes nothing for
//! a record that no frame of the file holds.

use std::{ops::ControlFlow, path::Path};

use bolero::{check, produce};
use narad_core::{
    log::inspect::{Inspected, inspect},
    plugin::LogIdentity,
};
use narad_fuzz::{
    directory::{Directory, Entry, Source, contents, segment_name},
    golden::GOLDEN,
    harm::{Harm, end_of},
    rig::{Cost, DIR, Rig},
    slow::{Records, Scan, chain},
};

use crate::DIRECTORY_TIME;

#[test]
fn fuzz_scan() {
    for (_, bytes) in GOLDEN.iter().flat_map(|golden| golden.segments()) {
        check_segment(bytes.to_vec());
    }
    let harms = produce::<Vec<Harm>>().with().len(0usize..6);
    check!().with_generator((produce::<Source>(), harms)).with_test_time(DIRECTORY_TIME).for_each(
        |(source, harms)| {
            let mut bytes = source.bytes().to_vec();
            harms.iter().for_each(|harm| harm.apply(&mut bytes));
            check_segment(bytes);
        },
    );
}

fn check_segment(bytes: Vec<u8>) {
    let base = chain(&bytes).first().map_or(0, |frame| frame.header.base.get());
    let (end, len) = (end_of(&bytes), bytes.len() as u64);
    let directory = Directory([(segment_name(base), Entry::File(bytes))].into());
    let (scan, rig) = (Scan::of(&directory), Rig::with(&directory));
    let before = contents(&rig.disk);

    let (mut records, mut reached) = (Records::new(), base);
    let (identity, codecs) = (LogIdentity::named("fuzz"), rig.watch.codecs());
    let mut visit = |what: Inspected<'_>| {
        let range = match what {
            Inspected::Record { record, .. } => {
                let at = record.offset.get();
                assert!(records.insert(at, record).is_none(), "{at} was told of twice");
                at..at + 1
            }
            Inspected::Unreadable { offsets, .. } | Inspected::Gap { offsets } => {
                offsets.start.get()..offsets.end.get()
            }
            _ => return ControlFlow::Continue(()),
        };
        assert_eq!(range.start, reached, "in order, and nothing left out");
        reached = range.end;
        ControlFlow::Continue(())
    };
    let cost = Cost::for_files(1, 2 * len, scan.largest_claim);
    let found = rig.within(cost, || inspect(&rig.disk, Path::new(DIR), &identity, &codecs, &mut visit));
    let summary = match found {
        Ok(summary) => summary,
        Err(error) => {
            assert!(directory.has_segment_at_the_end_of_offsets(), "{error}");
            return;
        }
    };
    assert_eq!(
        reached,
        summary.next_offset.get(),
        "everything up to the next offset is told of; frames end at {end}"
    );
    assert!(summary.torn_tail_bytes <= len);
    if let Err(why) = scan.explain(&records, u64::MAX) {
        panic!("{why}");
    }
    assert!(before == contents(&rig.disk), "inspection changes nothing");
}
