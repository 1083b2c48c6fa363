//! Why frames, dictionaries or settings are refused.

use std::io;

/// Why stored bytes do not decode, records do not encode, or the codec cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZstdDictError {
    /// A setting is outside of its bounds.
    #[error("{name} is {value}, which is not between {min} and {max}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it is.
        value: i64,
        /// The least that it can be.
        min: i64,
        /// The most that it can be.
        max: i64,
    },
    /// The dictionary that the frame was written with is not there. Wrapped in
    /// [`Lacking`](narad_core::plugin::Lacking): put its file back, and start the broker again or wait for
    /// the next `maintain`.
    #[error("the frame needs dictionary {id:08x}, which is {}", if *damaged { "damaged" } else { "not there" })]
    NoDictionary {
        /// The dictionary's number, in hexadecimal the name of its file.
        id: u32,
        /// Whether there is a file of its name.
        damaged: bool,
    },
    /// The bytes do not start with a zstd frame.
    #[error("not a zstd frame")]
    NotAFrame,
    /// The zstd frame ends before the bytes do: a second frame, or something else, follows.
    #[error("the zstd frame takes {frame} of {stored} stored bytes")]
    Trailing {
        /// Bytes of the first zstd frame.
        frame: usize,
        /// Bytes stored.
        stored: usize,
    },
    /// The zstd frame wants a window above 256 MiB.
    #[error("the zstd frame wants a window of {bytes} bytes")]
    Window {
        /// The window it wants.
        bytes: u64,
    },
    /// The content is, or claims to be, of another length than the frame header states.
    #[error("{actual} bytes of content where the frame states {stated}")]
    Length {
        /// The length of the content.
        actual: u64,
        /// The length the frame header states.
        stated: u32,
    },
    /// There is no memory for what the frame states.
    #[error("no memory for {bytes} bytes")]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The library refused.
    #[error("zstd: {0}")]
    Library(#[from] io::Error),
}

impl ZstdDictError {
    /// What an error code of the library stands for.
    pub(crate) fn library(code: zstd::zstd_safe::ErrorCode) -> Self {
        Self::Library(io::Error::other(zstd::zstd_safe::get_error_name(code)))
    }
}
