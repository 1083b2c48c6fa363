//! What must hold of the files: the index agrees with them, and a second open changes none.

use std::{collections::BTreeMap, ops::ControlFlow, path::Path, sync::Arc};

use narad_codecs::None as NoCodec;
use narad_core::{
    log::{
        Log,
        inspect::{Inspected, Summary, inspect},
    },
    plugin::{CodecSet, LogIdentity},
};

use super::world::World;
use crate::{
    model::{
        Model,
        look::{look, text},
    },
    write_path::DIR,
};

/// The files hold what the log shows, by a walk that knows no index, and besides that only what somebody wrote.
pub fn index_agrees(world: &World, log: &Log, model: &Model) {
    agrees(&world.fork(), log, model);
}

/// As [`index_agrees`], of a log that was just opened: it also ends where the files end, and the next open finds the
/// same and changes no byte.
pub fn settled(world: &World, log: &Log, model: &Model) {
    let fork = world.fork();
    let found = agrees(&fork, log, model);
    let bounds = (log.oldest_offset(), log.next_offset(), log.high_watermark());
    assert_eq!(
        (found.oldest_offset, found.next_offset, found.high_watermark),
        bounds,
        "the files and the log"
    );
    assert_eq!(found.torn_tail_bytes, 0, "a torn tail is cut");

    let files = fork.files();
    let again = fork.open().expect("a second open");
    assert!(files == fork.files(), "a second open changes no byte");
    assert_eq!((again.oldest_offset(), again.next_offset(), again.high_watermark()), bounds, "a second open");
    assert!(look(&again) == look(log), "a second open shows the same");
}

fn agrees(fork: &World, log: &Log, model: &Model) -> Summary {
    let mut codecs = CodecSet::new();
    codecs.insert(Arc::new(NoCodec)).unwrap();
    let mut records = BTreeMap::new();
    let name = LogIdentity::named("test");
    let summary = inspect(&*fork.drive(), Path::new(DIR), &name, &codecs, &mut |found| {
        if let Inspected::Record { record, .. } = found {
            let (offset, payload) = (record.offset.get(), text(&record));
            assert!(model.was_written(offset, &payload), "{payload} is in the files at {offset}");
            assert!(records.insert(offset, payload).is_none(), "{offset} is in the files twice");
        }
        ControlFlow::Continue(())
    });
    let (oldest, end) = (log.oldest_offset().get(), log.high_watermark().get());
    records.retain(|offset, _| (oldest..end).contains(offset));
    let mut shown = look(log);
    shown.retain(|_, payload| payload.is_some());
    assert!(
        shown
            .iter()
            .map(|(at, payload)| (at, payload.as_ref()))
            .eq(records.iter().map(|(at, payload)| (at, Some(payload)))),
        "the log shows {shown:?}, the files hold {records:?}"
    );
    summary.expect("an inspection of a disk without faults")
}
