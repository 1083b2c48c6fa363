//! What a log shows to whoever reads it, and what must hold of that whatever was written before.

use std::collections::BTreeMap;

use narad_core::{
    Error, Result,
    format::{Offset, Record},
    log::Log,
};

/// Times that a read is repeated which meets a fault.
const TRIES: usize = 50;

/// Everything from the oldest offset to the high watermark: `None` for what cannot be read.
pub type Shown = BTreeMap<u64, Option<String>>;

/// Reads everything, and asserts that nothing shows outside the bounds.
pub fn look(log: &Log) -> Shown {
    let (oldest, end) = (log.oldest_offset(), log.high_watermark());
    let mut shown = Shown::new();
    let mut next = oldest;
    while next < end {
        let batch = retried(|| log.read_batch(next, 100, 1 << 20));
        assert!(batch.next > next, "a batch read gets on");
        next = batch.next;
        for record in &batch.records {
            assert!(
                shown.insert(record.offset.get(), Some(text(record))).is_none(),
                "{} twice",
                record.offset
            );
        }
        for offset in batch.unreadable.into_iter().flat_map(|lost| lost.start.get()..lost.end.get()) {
            assert!(shown.insert(offset, None).is_none(), "{offset} is there and unreadable");
        }
    }
    assert!(shown.keys().copied().eq(oldest.get()..end.get().max(oldest.get())), "an answer for each offset");
    assert!(matches!(log.read(end), Err(Error::NotYet { .. })), "nothing shows at the watermark");
    assert!(matches!(log.read(log.next_offset().max(end)), Err(Error::NotYet { .. })));
    let above = log.read_batch(end, 100, 1 << 20).unwrap();
    assert!(above.records.is_empty() && above.unreadable.is_empty(), "nothing shows from the watermark on");
    if let Some(gone) = oldest.get().checked_sub(1).filter(|gone| *gone < end.get()) {
        for gone in [0, gone].map(|gone| Offset::new(gone).unwrap()) {
            assert!(matches!(log.read(gone), Err(Error::Expired { .. })), "{gone} was swept");
            assert!(matches!(log.read_batch(gone, 9, 999), Err(Error::Expired { .. })), "{gone} was swept");
        }
    }
    shown
}

/// Commit times never decrease along what can be read.
pub fn assert_times_ascend(log: &Log) {
    let (mut next, mut newest_ms) = (log.oldest_offset(), i64::MIN);
    while next < log.high_watermark() {
        let batch = retried(|| log.read_batch(next, 100, 1 << 20));
        next = batch.next;
        for record in &batch.records {
            assert!(record.committed_at_ms >= newest_ms, "commit times decrease at {}", record.offset);
            newest_ms = record.committed_at_ms;
        }
    }
}

pub fn text(record: &Record) -> String {
    String::from_utf8(record.payload.to_vec()).expect("the bytes of a payload")
}

/// A read that meets a fault says so, and can be tried again.
fn retried<T>(mut read: impl FnMut() -> Result<T>) -> T {
    for _ in 0..TRIES {
        match read() {
            Ok(found) => return found,
            Err(error) => assert!(matches!(error, Error::Io { .. } | Error::DiskFull { .. }), "{error}"),
        }
    }
    read().unwrap()
}
