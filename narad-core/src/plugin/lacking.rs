//! `Lacking`: how a codec says that a frame is sound and cannot be decoded yet.

use std::{error::Error, fmt};

use super::PluginError;

/// What a codec answers from `decode` when the frame may well be what it wrote and something outside of the frame is not
/// there: a key, a dictionary.
///
/// The engine tells it apart from damage: the read fails with [`Error::Lacking`](crate::Error::Lacking), which names the
/// record and the codec and has what the codec said as its source, and nobody is led past the record. Once the codec has
/// what it lacked, the record is read as any other. So it is the answer for what a frame names and the codec has not got,
/// and never for bytes that are no frame of its own: consumers would wait for them for ever.
///
/// ```
/// use narad_core::plugin::{Lacking, PluginError};
///
/// fn key_of(number: u32) -> Result<&'static [u8], PluginError> {
///     match number {
///         1 => Ok(b"sixteen bytes..."),
///         other => Err(Lacking::new(format!("the frame needs key {other}")).into()),
///     }
/// }
///
/// let error = key_of(2).unwrap_err();
/// assert!(error.is::<Lacking>());
/// assert_eq!(error.to_string(), "the frame needs key 2");
/// ```
#[derive(Debug)]
pub struct Lacking(PluginError);

impl Lacking {
    /// Says what is lacking: by name or number, and what to do about it.
    pub fn new(what: impl Into<PluginError>) -> Self {
        Self(what.into())
    }

    /// What is lacking, in the codec's own words and type.
    pub fn what(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Lacking {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
