//! The codec: frames with the dictionary in use, and when the engine is to bring a sample for a new one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use narad_core::{
    format::CodecNumber,
    plugin::{Codec, FrameContext, Lacking, PluginDir, PluginError, Sample},
};

use crate::{
    ZstdDictConfig,
    dictionary::MAX_BYTES,
    error::ZstdDictError,
    frame::{With, check, compress, decompress},
    shelf::Shelf,
    train::train,
};

/// Bytes of records after which a first dictionary is tried. The next try comes after twice as many, and so on.
const FIRST_TRY: u64 = 16 << 10;
/// Bytes of records after which another dictionary is tried at the latest.
const LAST_TRY: u64 = 64 << 20;

/// zstd with the dictionaries of a topic.
#[derive(Debug)]
pub struct ZstdDict {
    config: ZstdDictConfig,
    shelf: Shelf,
    /// Bytes of records encoded since the last try.
    encoded: AtomicU64,
    /// How many there are to be before the next.
    due: AtomicU64,
    /// A frame came whose dictionary is not known.
    missed: AtomicBool,
}

impl ZstdDict {
    /// Its number on disk.
    pub const NUMBER: CodecNumber = CodecNumber::new(8).unwrap();

    /// A codec with the dictionaries that are in `dir`, where it keeps new ones. Without a directory it has none: it writes
    /// plain zstd frames, and reads no others.
    ///
    /// # Errors
    /// `Setting` for a value outside of its bounds; what the engine says of the directory. A damaged dictionary is none:
    /// the frames that need it are told when they are read.
    pub fn new(config: ZstdDictConfig, dir: Option<PluginDir>) -> Result<Self, PluginError> {
        for (name, value, min, max) in [
            ("level", i64::from(config.level), 1, 22),
            (
                "dictionary_bytes",
                i64::try_from(config.dictionary_bytes.0).unwrap_or(i64::MAX),
                1024,
                MAX_BYTES as i64,
            ),
            ("max_dictionaries", i64::from(config.max_dictionaries), 1, 128),
        ] {
            if !(min..=max).contains(&value) {
                return Err(ZstdDictError::Setting { name, value, min, max }.into());
            }
        }
        let shelf = Shelf::load(dir, config.level)?;
        Ok(Self {
            config,
            shelf,
            encoded: AtomicU64::new(0),
            due: AtomicU64::new(FIRST_TRY),
            missed: AtomicBool::new(false),
        })
    }

    /// The number of the dictionary that new frames are written with.
    pub fn dictionary(&self) -> Option<u32> {
        self.shelf.in_use().map(|in_use| in_use.id)
    }

    /// Whether enough was written to try another dictionary.
    fn is_due(&self) -> bool {
        self.encoded.load(Ordering::Relaxed) >= self.due.load(Ordering::Relaxed) && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.shelf.has_room(usize::try_from(self.config.max_dictionaries).unwrap_or(usize::MAX))
    }
}

impl Codec for ZstdDict {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "zstd-dict"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let in_use = self.shelf.in_use();
        let with = in_use.as_ref().map_or(With::Level(self.config.level), |it| With::Dictionary(&it.encoder));
        let start = out.len();
        let compressed = compress(with, raw, out);
        if compressed.is_err() {
            out.truncate(start);
        }
        self.encoded.fetch_add(raw.len() as u64, Ordering::Relaxed);
        Ok(compressed?)
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let stated = frame.uncompressed_len;
        let dictionary = match check(stored, stated)? {
            0 => None,
            id => Some(self.shelf.decoder(id).map_err(|damaged| {
                self.missed.store(true, Ordering::Relaxed);
                PluginError::from(Lacking::new(ZstdDictError::NoDictionary { id, damaged }))
            })?),
        };
        let start = out.len();
        let decompressed = decompress(dictionary.as_deref(), stored, stated, out);
        if decompressed.is_err() {
            out.truncate(start);
        }
        Ok(decompressed?)
    }

    fn wants_sample(&self) -> bool {
        self.missed.load(Ordering::Relaxed) || self.is_due()
    }

    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        if self.missed.swap(false, Ordering::Relaxed) {
            self.shelf
                .look_again(self.config.level)
                .inspect_err(|_| self.missed.store(true, Ordering::Relaxed))?;
            if !self.is_due() {
                return Ok(());
            }
        }
        if !self.has_room() {
            return Ok(());
        }
        let in_use = self.shelf.in_use();
        let level = self.config.level;
        let now = in_use.as_ref().map_or(With::Level(level), |it| With::Dictionary(&it.encoder));
        let max_bytes = usize::try_from(self.config.dictionary_bytes.0).unwrap_or(MAX_BYTES);
        if let Some((dictionary, encoder)) = train(sample, max_bytes, level, now)? {
            // After an error it is tried again with the next sample, as soon as there is one.
            self.shelf.add(&dictionary, encoder)?;
        }
        self.encoded.store(0, Ordering::Relaxed);
        let due = self.due.load(Ordering::Relaxed);
        self.due.store(due.saturating_mul(2).min(LAST_TRY), Ordering::Relaxed);
        Ok(())
    }
}
