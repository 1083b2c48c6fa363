//! `Codec`: what happens to the records of a frame between memory and disk.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use bytes::Bytes;

use super::{LogIdentity, PluginError};
use crate::{
    error::{Error, Result},
    format::{CodecNumber, Offset, Record},
};

/// Where a frame belongs. A codec may bind to it (authenticate it); most ignore it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FrameContext<'a> {
    /// The log.
    pub log: &'a LogIdentity,
    /// The offset of the frame's first record.
    pub base_offset: Offset,
    /// Records in the frame, ≥ 1.
    pub count: u32,
    /// Bytes before the codec, 1 to 256 MiB.
    pub uncompressed_len: u32,
}

impl<'a> FrameContext<'a> {
    /// The context of a frame.
    pub fn new(log: &'a LogIdentity, base_offset: Offset, count: u32, uncompressed_len: u32) -> Self {
        Self { log, base_offset, count, uncompressed_len }
    }
}

/// Recent records of what a codec writes, for [`Codec::maintain`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// The records: at most 1,000, and 1 MiB of keys and payloads. [`Batch::of`](crate::format::Batch::of) gives one the
    /// form that it has inside a frame.
    pub records: &'a [Record],
}

impl<'a> Sample<'a> {
    /// A sample of these records.
    pub fn new(records: &'a [Record]) -> Self {
        Self { records }
    }
}

/// Transforms the records of a frame on their way to disk and back.
///
/// # Contract
/// 1. `number` and `name` never change; the number is the codec's own on disk for ever (see `docs/codec-numbers.md`).
/// 2. `encode` appends at least one byte to `out` and leaves what was there alone.
/// 3. `decode` of what `encode` appended, with an equal context, appends exactly the bytes that `encode` was given.
/// 4. `decode` of anything else appends at most `uncompressed_len` bytes or answers an error. It allocates no more
///    than that, whatever the bytes claim, and never panics; a panic is contained and counts as an error.
/// 5. What `decode` appends depends on nothing but the arguments, the codec's own configuration and what its directory
///    holds: a frame outlives the process that wrote it. `encode` may draw random numbers (a nonce), if what decoding
///    needs of them is in its output.
/// 6. Calls come from many threads at once, outside every lock that a reader of the log needs. No I/O but in
///    `maintain`.
/// 7. What `maintain` changes concerns later frames alone: every frame that was encoded before decodes as it did, here
///    and in a codec that is built later with the same configuration and the same directory. So what decoding needs is
///    durable (see [`PluginDir::write`](super::PluginDir::write)) before the first frame is encoded with it.
///
/// An error or a panic in `encode` fails that commit and leaves nothing behind; in `decode` it makes that frame
/// corrupt for that read, unless the error is [`Lacking`](super::Lacking); in `maintain` it is logged and counted, and
/// the codec stays as it is.
///
/// # Example
///
/// A codec that flips every bit. Its conformance run is one line:
/// `narad_core::testkit::conformance::codec(|| Arc::new(Inverted))`.
///
/// ```
/// use narad_core::{format::CodecNumber, plugin::{Codec, FrameContext, PluginError}};
///
/// #[derive(Debug)]
/// struct Inverted;
///
/// impl Codec for Inverted {
///     fn number(&self) -> CodecNumber {
///         const { CodecNumber::new(5000).expect("5000 is a codec number") }
///     }
///     fn name(&self) -> &str {
///         "inverted"
///     }
///     fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
///         out.extend(raw.iter().map(|byte| !byte));
///         Ok(())
///     }
///     fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
///         if stored.len() != frame.uncompressed_len as usize {
///             return Err("not the length that the frame states".into());
///         }
///         out.extend(stored.iter().map(|byte| !byte));
///         Ok(())
///     }
/// }
/// ```
///
/// # The usual mistake
///
/// Trusting a length inside the stored bytes: `out.reserve(claimed)` before checking it against
/// `frame.uncompressed_len` lets twenty bytes ask for gigabytes. Check first, or decode into a bounded writer.
///
/// Another one is to decode by the configuration, which may be another by then: put what decoding needs (a version, a
/// stride, a window) into the frame, and give every key a default, so that what the name alone builds reads every frame
/// ([`Registry::readable_codecs`](super::Registry::readable_codecs)). The suite `codec_reads` of the testkit checks it.
pub trait Codec: Debug + Send + Sync + 'static {
    /// The codec's number on disk.
    fn number(&self) -> CodecNumber;

    /// The codec's name in configuration and metrics.
    fn name(&self) -> &str;

    /// Appends the stored form of `raw` to `out`.
    ///
    /// # Errors
    /// Whatever keeps the frame from being encoded; the commit fails with it.
    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError>;

    /// Appends the records of a frame, as they were before `encode`, to `out`.
    ///
    /// # Errors
    /// Whatever keeps the frame from being decoded; the record is answered as corrupt. [`Lacking`](super::Lacking) when the
    /// frame may be sound and the codec has not got what it needs for it.
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError>;

    /// The same, into memory that may be a part of `stored`: for a codec that keeps records as they are, and so has
    /// nothing to copy. Every other one leaves it as it is.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_shared(&self, frame: &FrameContext<'_>, stored: &Bytes) -> Result<Bytes, PluginError> {
        let mut out = Vec::new();
        self.decode(frame, stored, &mut out)?;
        Ok(out.into())
    }

    /// Whether a sample of recent records would be of use now: the engine asks before it takes one. A codec over another
    /// passes on what that one answers.
    fn wants_sample(&self) -> bool {
        false
    }

    /// Looks at recent records of the topic, off the way of every message, and prepares what later frames gain from, such
    /// as a dictionary. Called about once a minute while [`wants_sample`](Self::wants_sample) says so and records have
    /// come since; by one thread at a time, and it may take seconds. The one call in which a codec may do I/O, in the
    /// [`PluginDir`](super::PluginDir) that its constructor was given. A codec over another passes it on.
    ///
    /// # Errors
    /// Whatever kept it from being done. The next time is a minute later.
    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        _ = sample;
        Ok(())
    }
}

/// The codecs a log can read, by number.
#[derive(Debug, Clone, Default)]
pub struct CodecSet {
    codecs: BTreeMap<CodecNumber, Arc<dyn Codec>>,
    /// Those that say why they cannot be had. Any other of their number goes before them.
    stand_ins: BTreeMap<CodecNumber, Arc<dyn Codec>>,
}

impl CodecSet {
    /// No codec at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a codec. It takes the place of one of the same name and number.
    ///
    /// # Errors
    /// `InvalidArgument` when another codec has its number already.
    pub fn insert(&mut self, codec: Arc<dyn Codec>) -> Result<()> {
        let number = codec.number();
        match self.codecs.get(&number) {
            Some(other) if other.name() != codec.name() => Err(Error::InvalidArgument {
                name: "codec",
                reason: format!("{} and {} both claim number {number}", other.name(), codec.name()),
            }),
            _ => {
                self.codecs.insert(number, codec);
                Ok(())
            }
        }
    }

    /// The same codecs, each as `change` makes it; a number stays what it was.
    #[cfg(feature = "engine")]
    pub(crate) fn map(self, mut change: impl FnMut(Arc<dyn Codec>) -> Arc<dyn Codec>) -> Self {
        let mut all = |codecs: BTreeMap<CodecNumber, Arc<dyn Codec>>| {
            codecs.into_iter().map(|(number, codec)| (number, change(codec))).collect()
        };
        Self { codecs: all(self.codecs), stand_ins: all(self.stand_ins) }
    }

    /// The codec of that number.
    pub fn get(&self, number: CodecNumber) -> Option<&Arc<dyn Codec>> {
        self.codecs.get(&number).or_else(|| self.stand_ins.get(&number))
    }

    pub(super) fn insert_stand_in(&mut self, codec: Arc<dyn Codec>) {
        self.stand_ins.insert(codec.number(), codec);
    }
}
