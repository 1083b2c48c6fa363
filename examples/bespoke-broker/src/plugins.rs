//! Three plugins, each the shortest that does something.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use narad_core::{
    format::CodecNumber,
    plugin::{
        Codec, FrameContext, LogIdentity, PluginError, RetentionDecision, RetentionPolicy, RetentionView,
        WakeNotifier, WakeReason,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Keeps the curious out: each letter stands for the one 13 places on.
#[derive(Debug)]
pub(crate) struct Rot13;

impl Rot13 {
    /// Of those that nobody needs to ask for: see `docs/codec-numbers.md`.
    pub(crate) const NUMBER: CodecNumber = match CodecNumber::new(1_300_013) {
        Some(number) => number,
        None => unreachable!(),
    };
}

impl Codec for Rot13 {
    fn number(&self) -> CodecNumber {
        Self::NUMBER
    }

    fn name(&self) -> &str {
        "rot13"
    }

    fn encode(&self, _: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        out.extend(raw.iter().map(|byte| match byte {
            b'a'..=b'm' | b'A'..=b'M' => byte + 13,
            b'n'..=b'z' | b'N'..=b'Z' => byte - 13,
            other => *other,
        }));
        Ok(())
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        if stored.len() != frame.uncompressed_len as usize {
            return Err("not the length that the frame states".into());
        }
        self.encode(frame, stored, out)
    }
}

/// Keeps the newest segments of a partition. It is its own configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Newest {
    /// How many of them.
    segments: usize,
}

impl RetentionPolicy for Newest {
    fn name(&self) -> &str {
        "newest"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        RetentionDecision::expire(view.segments.len().saturating_sub(self.segments), "count")
    }
}

/// Counts announcements of new messages.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl WakeNotifier for Tally {
    fn name(&self) -> &str {
        "tally"
    }

    fn wake(&self, _: &LogIdentity, reason: WakeReason) {
        if reason == WakeReason::Committed {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.load(Ordering::Relaxed).fmt(f)
    }
}
