//! Plugins as the engine calls them: each call timed and counted by the plugin's name, and passed on as it is.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{Metrics, PluginCalls};
use crate::{
    format::CodecNumber,
    plugin::{
        Codec, CodecSet, FrameContext, LogIdentity, PluginError, RetentionDecision, RetentionPolicy,
        RetentionView, Sample, SyncDecision, SyncPolicy, Synced, Unsynced, WakeNotifier, WakeReason,
    },
};

impl Metrics {
    /// The codecs of a log, timed.
    pub(crate) fn timed_codecs(&self, codecs: CodecSet) -> CodecSet {
        codecs.map(|inner| {
            let calls = |operation| self.calls("codec", inner.name(), operation);
            let (encode, decode) = (calls("encode"), calls("decode"));
            Arc::new(TimedCodec { inner, encode, decode })
        })
    }

    /// A sync policy, timed.
    pub(crate) fn timed_sync(&self, inner: Arc<dyn SyncPolicy>) -> Arc<dyn SyncPolicy> {
        let calls = |operation| self.calls("sync", inner.name(), operation);
        let (decide, synced) = (calls("decide"), calls("synced"));
        Arc::new(TimedSync { inner, decide, synced })
    }

    /// A wake notifier, each call of which is timed and counted by its name: what a log does with its own, for a notifier
    /// that passes on to others what it is told.
    pub fn timed_wake(&self, inner: Arc<dyn WakeNotifier>) -> Arc<dyn WakeNotifier> {
        let wake = self.calls("wake", inner.name(), "wake");
        Arc::new(TimedWake { inner, wake })
    }

    /// A retention policy, timed.
    pub(crate) fn timed_retention(&self, inner: Arc<dyn RetentionPolicy>) -> Arc<dyn RetentionPolicy> {
        let calls = |operation| self.calls("retention", inner.name(), operation);
        let (decide, roll_age) = (calls("decide"), calls("roll_age"));
        Arc::new(TimedRetention { inner, decide, roll_age })
    }
}

#[derive(Debug)]
struct TimedCodec {
    inner: Arc<dyn Codec>,
    encode: Arc<PluginCalls>,
    decode: Arc<PluginCalls>,
}

impl Codec for TimedCodec {
    fn number(&self) -> CodecNumber {
        self.inner.number()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        self.encode.time_fallible(|| self.inner.encode(frame, raw, out))
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let before = out.len();
        let decode = || {
            let answer = self.inner.decode(frame, stored, out);
            (answer, out.len().checked_sub(before))
        };
        // The engine takes no other length, so this was no good answer either.
        let stated = Some(frame.uncompressed_len as usize);
        self.decode.time_judged(decode, |(answer, appended)| answer.is_ok() && *appended == stated).0
    }

    fn decode_shared(&self, frame: &FrameContext<'_>, stored: &Bytes) -> Result<Bytes, PluginError> {
        let is_good = |answer: &Result<Bytes, PluginError>| {
            answer.as_ref().is_ok_and(|raw| raw.len() == frame.uncompressed_len as usize)
        };
        self.decode.time_judged(|| self.inner.decode_shared(frame, stored), is_good)
    }

    fn wants_sample(&self) -> bool {
        self.inner.wants_sample()
    }

    fn maintain(&self, sample: &Sample<'_>) -> Result<(), PluginError> {
        self.inner.maintain(sample)
    }
}

#[derive(Debug)]
struct TimedRetention {
    inner: Arc<dyn RetentionPolicy>,
    decide: Arc<PluginCalls>,
    roll_age: Arc<PluginCalls>,
}

impl RetentionPolicy for TimedRetention {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn roll_age(&self) -> Option<Duration> {
        self.roll_age.time(|| self.inner.roll_age())
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        self.decide.time(|| self.inner.decide(view))
    }
}

#[derive(Debug)]
struct TimedSync {
    inner: Arc<dyn SyncPolicy>,
    decide: Arc<PluginCalls>,
    synced: Arc<PluginCalls>,
}

impl SyncPolicy for TimedSync {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        self.decide.time(|| self.inner.decide(unsynced))
    }

    fn synced(&self, synced: &Synced) {
        self.synced.time(|| self.inner.synced(synced));
    }
}

#[derive(Debug)]
struct TimedWake {
    inner: Arc<dyn WakeNotifier>,
    wake: Arc<PluginCalls>,
}

impl WakeNotifier for TimedWake {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn wake(&self, log: &LogIdentity, reason: WakeReason) {
        self.wake.time(|| self.inner.wake(log, reason));
    }

    fn is_prompt(&self) -> bool {
        self.inner.is_prompt()
    }
}
