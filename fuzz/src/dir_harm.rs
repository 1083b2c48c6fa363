//! What is done to a directory: to its files, their names, and the small files that state positions.

use bolero::TypeGenerator;
use narad_core::format::{AheadRecord, Offset};

use crate::{
    directory::{Directory, Entry, Source, segment_name},
    harm::{Harm, end_of},
    slow::chain,
};

/// A number that a file states, or that a segment is named for.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Number {
    /// Anything.
    Any(i64),
    /// One that the golden directories know.
    Small(u16),
    /// Where a frame of a segment begins, and a little more or less.
    Frame(u8, u8, i8),
    /// The end of the last segment, and a little more or less.
    End(i8),
}

/// What one of the eight-byte files holds.
#[derive(Debug, Clone, TypeGenerator)]
pub enum Small {
    /// There is none.
    Missing,
    /// Eight bytes.
    States(Number),
    /// So many bytes of that value.
    Filled(u8, u8),
}

/// What one slot of `consumer.ahead` states.
#[derive(Debug, Clone, TypeGenerator)]
pub struct Slot {
    sequence: u8,
    frontier: Number,
    steps: [u8; 6],
}

/// What is done to a directory.
#[derive(Debug, Clone, TypeGenerator)]
pub enum DirHarm {
    /// A segment is harmed.
    Segment(u8, Harm),
    /// Two harms to one segment.
    Twice(u8, Harm, Harm),
    /// The newest segment is harmed.
    Active(Harm),
    /// Any file is harmed.
    File(u8, Harm),
    /// A segment has another name; what had it is gone.
    Rename(u8, Number),
    /// Two segments have changed names.
    SwapNames(u8, u8),
    /// A file is gone.
    Remove(u8),
    /// A segment of another golden directory has come in under that name.
    Adopt(Source, Number),
    /// A segment of these bytes has come in under that name.
    Short(Number, [u8; 6], u8),
    /// `hwm`.
    Watermark(Small),
    /// `consumer.offset`.
    ConsumerOffset(Small),
    /// `consumer.ahead`, one slot or two, and so many bytes cut off.
    ConsumerAhead(Slot, Option<Slot>, u8),
    /// `consumer.ahead` with a bit flipped.
    AheadFlip(u16, u8),
    /// Something that is no file has the name of one.
    NoFile(u8, bool),
    /// A name that is nobody's.
    Stray(u8),
}

const STRAYS: [&str; 8] = [
    "0.log",
    "+0000000000000000001.log",
    "0000000000000000000.log",
    "00000000000000000001.LOG",
    "99999999999999999999.log",
    "00000000000000000002.log.tmp",
    "lost+found",
    ".DS_Store",
];

impl DirHarm {
    /// Does it.
    pub fn apply(&self, directory: &mut Directory) {
        match self {
            Self::Segment(index, harm) => harm_file(directory, segment(directory, *index), &[harm]),
            Self::Twice(index, first, second) => {
                harm_file(directory, segment(directory, *index), &[first, second]);
            }
            Self::Active(harm) => harm_file(directory, segment_names(directory).pop(), &[harm]),
            Self::File(index, harm) => harm_file(directory, entry(directory, *index), &[harm]),
            Self::Rename(index, base) => {
                let Some(to) = base.offset(directory) else { return };
                let moved = segment(directory, *index).and_then(|name| directory.0.remove(&name));
                directory.0.extend(moved.map(|moved| (segment_name(to), moved)));
            }
            Self::SwapNames(a, b) => {
                let (Some(a), Some(b)) = (segment(directory, *a), segment(directory, *b)) else { return };
                let (first, second) = (directory.0[&a].clone(), directory.0[&b].clone());
                directory.0.extend([(b, first), (a, second)]);
            }
            Self::Remove(index) => {
                entry(directory, *index).and_then(|name| directory.0.remove(&name));
            }
            Self::Adopt(source, base) => put_segment(directory, base, source.bytes()),
            Self::Short(base, bytes, len) => put_segment(directory, base, &bytes[..usize::from(len % 7)]),
            Self::Watermark(small) => small.put(directory, "hwm"),
            Self::ConsumerOffset(small) => small.put(directory, "consumer.offset"),
            Self::ConsumerAhead(first, second, cut) => {
                let slots = [Some(first), second.as_ref()].into_iter().flatten();
                let mut bytes: Vec<u8> = slots.flat_map(|slot| slot.record(directory).encode().0).collect();
                bytes.truncate(bytes.len() - usize::from(*cut));
                put(directory, "consumer.ahead", bytes);
            }
            Self::AheadFlip(at, bit) => {
                if let Some(Entry::File(bytes)) = directory.0.get_mut("consumer.ahead")
                    && let Some(at) = usize::from(*at).checked_rem(bytes.len())
                {
                    bytes[at] ^= 1 << (bit % 8);
                }
            }
            Self::NoFile(index, is_dir) => {
                let kind = if *is_dir { Entry::Directory } else { Entry::Other };
                directory.0.extend(entry(directory, *index).map(|name| (name, kind)));
            }
            Self::Stray(index) => {
                put(directory, STRAYS[usize::from(*index) % STRAYS.len()], b"not ours".to_vec());
            }
        }
    }
}

impl Number {
    fn in_directory(&self, directory: &Directory) -> i64 {
        let segments: Vec<_> = directory.segments().collect();
        let near = |at: u64, by: i8| at.cast_signed().wrapping_add(i64::from(by));
        match *self {
            Self::Any(value) => value,
            Self::Small(value) => i64::from(value % 1024),
            Self::Frame(segment, frame, by) => {
                let segment = usize::from(segment).checked_rem(segments.len()).map(|index| segments[index].1);
                let frames = segment.map(chain).unwrap_or_default();
                let frame =
                    usize::from(frame).checked_rem(frames.len()).map(|index| frames[index].header.base);
                near(frame.unwrap_or_default().get(), by)
            }
            Self::End(by) => near(segments.last().map_or(0, |(_, bytes)| end_of(bytes)), by),
        }
    }

    fn offset(&self, directory: &Directory) -> Option<u64> {
        u64::try_from(self.in_directory(directory)).ok()
    }
}

impl Small {
    fn put(&self, directory: &mut Directory, name: &str) {
        match self {
            Self::Missing => drop(directory.0.remove(name)),
            Self::States(number) => {
                let bytes = number.in_directory(directory).to_be_bytes().to_vec();
                put(directory, name, bytes);
            }
            Self::Filled(len, byte) => put(directory, name, vec![*byte; usize::from(len % 12)]),
        }
    }
}

impl Slot {
    fn record(&self, directory: &Directory) -> AheadRecord {
        let frontier = self.frontier.offset(directory).and_then(Offset::new);
        let mut at = frontier.map_or(0, |frontier| frontier.get() + 1);
        let acked = self.steps.iter().map_while(|step| {
            at = at.checked_add(u64::from(*step))?;
            let here = Offset::new(at)?;
            at += 1;
            Some(here)
        });
        AheadRecord { sequence: u64::from(self.sequence), frontier, acked: acked.collect() }
    }
}

fn segment_names(directory: &Directory) -> Vec<String> {
    directory.segments().map(|(base, _)| segment_name(base)).collect()
}

fn segment(directory: &Directory, index: u8) -> Option<String> {
    let mut names = segment_names(directory);
    usize::from(index).checked_rem(names.len()).map(|index| names.swap_remove(index))
}

fn entry(directory: &Directory, index: u8) -> Option<String> {
    directory.0.keys().nth(usize::from(index).checked_rem(directory.0.len())?).cloned()
}

fn harm_file(directory: &mut Directory, name: Option<String>, harms: &[&Harm]) {
    if let Some(Entry::File(bytes)) = name.and_then(|name| directory.0.get_mut(&name)) {
        harms.iter().for_each(|harm| harm.apply(bytes));
    }
}

fn put(directory: &mut Directory, name: &str, bytes: Vec<u8>) {
    directory.0.insert(name.to_owned(), Entry::File(bytes));
}

fn put_segment(directory: &mut Directory, base: &Number, bytes: &[u8]) {
    if let Some(base) = base.offset(directory) {
        put(directory, &segment_name(base), bytes.to_vec());
    }
}
