//! What stands in a set of readable codecs for one that is registered and could not be built.
//!
//! Without it, a frame of that codec would count as one that nobody can ever read, and consumers would be led past it for
//! want of a setting or of a file descriptor.

use std::sync::Arc;

use super::{Codec, FrameContext, Lacking, PluginError, RegistryError};
use crate::format::CodecNumber;

#[derive(Debug)]
pub(super) struct Unbuilt {
    number: CodecNumber,
    name: String,
    reason: Arc<RegistryError>,
}

impl Unbuilt {
    pub(super) fn new(number: CodecNumber, name: &str, reason: RegistryError) -> Self {
        Self { number, name: name.to_owned(), reason: Arc::new(reason) }
    }
}

impl Codec for Unbuilt {
    fn number(&self) -> CodecNumber {
        self.number
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn encode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
        Err(Arc::clone(&self.reason).into())
    }

    fn decode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
        Err(Lacking::new(Arc::clone(&self.reason)).into())
    }
}
