//! From a sample of records to a dictionary that is worth having, or none. Touches no file.

use narad_core::{format::Batch, plugin::Sample};
use zstd::zstd_safe::CDict;

use crate::{
    dictionary::Dictionary,
    error::ZstdDictError,
    frame::{With, compress},
};

/// Fewer records say nothing about those to come.
const MIN_RECORDS: usize = 20;
/// What is looked at of a sample, at most.
const MAX_BYTES: usize = 4 << 20;

/// Trains a dictionary of at most `max_bytes` on one half of the sample, and measures it on the other, a record a frame,
/// beside what is in use now. `None` unless it saves a tenth or more.
pub(crate) fn train(
    sample: &Sample<'_>,
    max_bytes: usize,
    level: i32,
    now: With<'_>,
) -> Result<Option<(Dictionary, CDict<'static>)>, ZstdDictError> {
    let Some(Halves { learnt, measured }) = halves(sample) else { return Ok(None) };
    let lens: Vec<usize> = learnt.iter().map(Vec::len).collect();
    // That a sample cannot be trained on (it is random, or one record over and over) is no failure.
    let Ok(bytes) = zstd::dict::from_continuous(&learnt.concat(), &lens, max_bytes) else { return Ok(None) };
    let Some(dictionary) = Dictionary::trained(bytes) else { return Ok(None) };
    let Some(encoder) = CDict::try_create(dictionary.bytes(), level) else { return Ok(None) };
    let (new, old) = (total(With::Dictionary(&encoder), &measured)?, total(now, &measured)?);
    Ok(is_worth_it(new, old).then_some((dictionary, encoder)))
}

/// The records of a sample as they are inside a frame, every other one in either half.
#[derive(Default)]
struct Halves {
    learnt: Vec<Vec<u8>>,
    measured: Vec<Vec<u8>>,
}

/// `None` for too few records.
fn halves(sample: &Sample<'_>) -> Option<Halves> {
    let (mut halves, mut bytes) = (Halves::default(), 0_usize);
    for (index, record) in sample.records.iter().enumerate() {
        let mut batch = Batch::of(&record.key, &record.payload);
        batch.stamp(record.committed_at_ms);
        let raw = batch.as_bytes().to_vec();
        bytes = bytes.saturating_add(raw.len());
        if bytes > MAX_BYTES {
            break;
        }
        if index % 2 == 0 { halves.learnt.push(raw) } else { halves.measured.push(raw) }
    }
    (halves.measured.len() >= MIN_RECORDS / 2).then_some(halves)
}

fn total(with: With<'_>, frames: &[Vec<u8>]) -> Result<usize, ZstdDictError> {
    let (mut out, mut total) = (Vec::new(), 0_usize);
    for frame in frames {
        out.clear();
        compress(with, frame, &mut out)?;
        total = total.saturating_add(out.len());
    }
    Ok(total)
}

fn is_worth_it(new: usize, old: usize) -> bool {
    new <= old.saturating_sub(old.div_ceil(10))
}
