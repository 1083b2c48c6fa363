//! What a log's frames are written and read with. Replaced whole, while frames are read and written with the one before.

use std::sync::Arc;

use super::{Inner, Log};
use crate::{
    error::Result,
    metrics::Metrics,
    plugin::{Codec, CodecSet},
};

/// The codecs of a log, every call into them timed.
#[derive(Debug)]
pub(super) struct Codecs {
    /// The codec for new frames as it was given, which logs of a topic share.
    given: Arc<dyn Codec>,
    /// The same, timed.
    pub(super) writing: Arc<dyn Codec>,
    /// Holds every codec, the one for new frames too.
    pub(super) readable: CodecSet,
}

impl Codecs {
    /// `codec` for new frames, and `readable` with it for those that are there.
    ///
    /// # Errors
    /// `InvalidArgument` when two codecs claim one number.
    pub(super) fn new(codec: Arc<dyn Codec>, mut readable: CodecSet, metrics: &Metrics) -> Result<Self> {
        readable.insert(Arc::clone(&codec))?;
        let readable = metrics.timed_codecs(readable);
        let writing = Arc::clone(readable.get(codec.number()).unwrap_or(&codec));
        Ok(Self { given: codec, writing, readable })
    }
}

impl Log {
    /// The codec that new frames are written with.
    pub fn codec(&self) -> Arc<dyn Codec> {
        Arc::clone(&self.0.codecs().given)
    }

    /// Writes the frames that are begun from here on with another codec; what was written before stays readable as far as
    /// `readable` goes, in which `codec` is always. Never blocks on file I/O.
    ///
    /// # Errors
    /// `InvalidArgument` when two codecs claim one number; nothing is changed then.
    pub fn set_codec(&self, codec: Arc<dyn Codec>, readable: CodecSet) -> Result<()> {
        let codecs = Codecs::new(codec, readable, self.0.runtime.metrics())?;
        *self.0.codecs.write() = Arc::new(codecs);
        Ok(())
    }
}

impl Inner {
    /// Those of now.
    pub(super) fn codecs(&self) -> Arc<Codecs> {
        Arc::clone(&self.codecs.read())
    }
}
