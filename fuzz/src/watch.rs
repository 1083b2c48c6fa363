//! The codecs that the targets open logs with. They watch what they are asked: a claim above the format's bound must
//! be refused before a codec hears of it.

use std::sync::{Arc, Mutex};

use narad_codecs::{None as NoCodec, Zstd};
use narad_core::{
    format::{CodecNumber, MAX_FRAME_BYTES},
    log::LogOptions,
    plugin::{Codec, CodecSet, FrameContext, PluginError},
};

/// The codec of that number, unwatched.
pub fn codec(number: CodecNumber) -> Option<Arc<dyn Codec>> {
    match number.get() {
        0 => Some(Arc::new(NoCodec)),
        1 => Some(Arc::new(Zstd::default())),
        _ => None,
    }
}

/// What was asked of the codecs and should not have been.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Vec<String>>>);

impl Watch {
    /// The codecs that a log can read, watched.
    pub fn codecs(&self) -> CodecSet {
        let mut set = CodecSet::new();
        for number in [0, 1] {
            let inner = CodecNumber::new(number).and_then(codec).expect("a codec");
            set.insert(Arc::new(Watched { inner, watch: self.clone() })).expect("one codec a number");
        }
        set
    }

    /// Options of a log that writes with zstd.
    pub fn options(&self) -> LogOptions {
        let readable = self.codecs();
        let zstd = CodecNumber::new(1).and_then(|number| readable.get(number).cloned()).expect("zstd");
        let mut options = LogOptions::new("fuzz", zstd);
        options.readable = readable;
        options
    }

    /// # Panics
    /// When a codec was asked for what it should not have been.
    pub fn assert_modest(&self) {
        let seen = self.0.lock().expect("the watch");
        assert!(seen.is_empty(), "{seen:?}");
    }
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Codec>,
    watch: Watch,
}

impl Codec for Watched {
    fn number(&self) -> CodecNumber {
        self.inner.number()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.inner.encode(frame, raw, out)
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let is_modest = (1..=MAX_FRAME_BYTES).contains(&frame.uncompressed_len)
            && stored.len() <= MAX_FRAME_BYTES as usize
            && u64::from(frame.count) * 4 <= u64::from(frame.uncompressed_len);
        if !is_modest {
            // The engine contains a codec's panic, so the complaint is kept for later.
            self.watch.0.lock().expect("the watch").push(format!("{frame:?}, {} bytes stored", stored.len()));
        }
        self.inner.decode(frame, stored, out)
    }
}
