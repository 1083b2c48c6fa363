//! The conformance suites: what keeps a contract passes, and each way to break one is found and named.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    format::CodecNumber,
    plugin::{
        BatchedSync, Codec, FrameContext, Lacking, LogIdentity, PluginError, RetentionDecision,
        RetentionPolicy, RetentionView, Sample, SilentWake, SyncDecision, SyncPolicy, Unsynced, WakeNotifier,
        WakeReason,
    },
    testkit::conformance,
};

/// The number of the contract's point that a suite finds broken.
fn broken_point(suite: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(suite)).expect_err("the suite finds nothing");
    let message = panic.downcast_ref::<String>().expect("a message");
    let point = message.strip_prefix("contract point ").unwrap_or_else(|| panic!("{message}"));
    point.split([' ', ':']).next().unwrap().to_owned()
}

#[test]
fn the_plugins_beside_their_traits_keep_their_contracts() {
    conformance::sync_policy(|| Arc::new(BatchedSync::default()));
    conformance::sync_policy(|| Arc::new(BatchedSync::new(Duration::ZERO, 0)));
    conformance::sync_policy(|| Arc::new(BatchedSync::new(Duration::MAX, u64::MAX)));
    conformance::wake_notifier(|| Arc::new(SilentWake));
}

/// A codec that keeps the contract but for one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    AppendsNothing,
    ClearsOut,
    LosesAByte,
    TrustsALength,
    AppendsMore,
    Panics,
    RemembersTheProcess,
    ForgetsWhenMaintained,
    NameNobodyCanHave,
    NamesItselfAnew,
    NumbersItselfAnew,
    BindsToTheOffset,
    CountsInThreeBytes,
    LacksWhateverIsWrong,
    RemembersTheThread,
}

/// The fault, what bytes are mixed with, and how often it was asked who it is.
#[derive(Debug)]
struct Faulty(Fault, AtomicU8, AtomicU8);

thread_local! {
    static MASK_OF_THE_THREAD: u8 = {
        static THREADS: AtomicU8 = AtomicU8::new(1);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

impl Faulty {
    fn mask(&self) -> u8 {
        match self.0 {
            Fault::RemembersTheThread => MASK_OF_THE_THREAD.with(|mask| *mask),
            _ => self.1.load(Ordering::Relaxed),
        }
    }

    /// Whether it was asked before, if it minds.
    fn asked_before(&self, fault: Fault) -> bool {
        self.0 == fault && self.2.fetch_add(1, Ordering::Relaxed) > 1
    }
}

impl Codec for Faulty {
    fn number(&self) -> CodecNumber {
        let other = self.asked_before(Fault::NumbersItselfAnew);
        CodecNumber::new(5000 + u32::from(other)).unwrap()
    }
    fn name(&self) -> &str {
        match self.0 {
            Fault::NameNobodyCanHave => "My Codec",
            fault if fault == Fault::NamesItselfAnew && self.asked_before(fault) => "another",
            _ => "faulty",
        }
    }
    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        match self.0 {
            Fault::AppendsNothing => return Ok(()),
            Fault::ClearsOut => out.clear(),
            _ => {}
        }
        let len = if self.0 == Fault::CountsInThreeBytes { raw.len() % (1 << 24) } else { raw.len() };
        out.extend((len as u32).to_be_bytes());
        let moved = if self.0 == Fault::BindsToTheOffset { frame.base_offset.get() as u32 as u8 } else { 0 };
        out.extend(raw.iter().map(|byte| byte ^ self.mask() ^ moved));
        Ok(())
    }
    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let Some((len, body)) = stored.split_first_chunk::<4>() else {
            assert!(self.0 != Fault::Panics, "too short");
            if self.0 == Fault::LacksWhateverIsWrong {
                return Err(Lacking::new("who knows what").into());
            }
            return Err("too short".into());
        };
        let claimed = u32::from_be_bytes(*len) as usize;
        if self.0 == Fault::TrustsALength && claimed < 1 << 31 {
            out.reserve(claimed);
        }
        if self.0 == Fault::AppendsMore && claimed != body.len() {
            out.resize(out.len() + frame.uncompressed_len as usize + 1, 0);
            return Ok(());
        }
        if claimed != body.len() || claimed != frame.uncompressed_len as usize {
            return Err("another length".into());
        }
        let lost = usize::from(self.0 == Fault::LosesAByte && body.len() > 100);
        let moved = if self.0 == Fault::BindsToTheOffset { 42 } else { 0 };
        out.extend(body[lost..].iter().map(|byte| byte ^ self.mask() ^ moved));
        Ok(())
    }
    fn maintain(&self, _: &Sample<'_>) -> Result<(), PluginError> {
        if self.0 == Fault::ForgetsWhenMaintained {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn each_way_to_break_the_codecs_contract_is_found() {
    static BUILT: AtomicU64 = AtomicU64::new(0);
    let suite = |fault| {
        conformance::codec(|| {
            let of_the_process = BUILT.fetch_add(1, Ordering::Relaxed) as u8;
            let mask = if fault == Fault::RemembersTheProcess { of_the_process } else { 0x55 };
            Arc::new(Faulty(fault, AtomicU8::new(mask), AtomicU8::new(0)))
        });
    };
    suite(Fault::Nothing);
    for (fault, point) in [
        (Fault::AppendsNothing, "2"),
        (Fault::ClearsOut, "2"),
        (Fault::LosesAByte, "3"),
        (Fault::TrustsALength, "4"),
        (Fault::AppendsMore, "4"),
        (Fault::Panics, "4"),
        (Fault::RemembersTheProcess, "5"),
        (Fault::ForgetsWhenMaintained, "7"),
        (Fault::NameNobodyCanHave, "1"),
        (Fault::NamesItselfAnew, "1"),
        (Fault::NumbersItselfAnew, "1"),
        (Fault::BindsToTheOffset, "3"),
        (Fault::CountsInThreeBytes, "3"),
        (Fault::LacksWhateverIsWrong, "2"),
        (Fault::RemembersTheThread, "5"),
    ] {
        assert_eq!(broken_point(|| suite(fault)), point, "{fault:?}");
    }
}

#[test]
fn a_codec_that_needs_its_configuration_to_decode_is_told_from_one_that_does_not() {
    let of =
        |fault, mask| -> Arc<dyn Codec> { Arc::new(Faulty(fault, AtomicU8::new(mask), AtomicU8::new(0))) };
    conformance::codec_reads(&of(Fault::Nothing, 7), &of(Fault::Nothing, 7));
    let point = broken_point(|| conformance::codec_reads(&of(Fault::Nothing, 7), &of(Fault::Nothing, 8)));
    assert_eq!(point, "5");
}

#[test]
fn a_codec_that_refuses_to_encode_is_told_what_it_refused() {
    #[derive(Debug)]
    struct Refuses;
    impl Codec for Refuses {
        fn number(&self) -> CodecNumber {
            CodecNumber::new(5000).unwrap()
        }
        fn name(&self) -> &str {
            "refuses"
        }
        fn encode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Err("too small".into())
        }
        fn decode(&self, _: &FrameContext<'_>, _: &[u8], _: &mut Vec<u8>) -> Result<(), PluginError> {
            Ok(())
        }
    }
    let panic = catch_unwind(|| conformance::codec(|| Arc::new(Refuses))).expect_err("it is found");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert_eq!(message, "encode of 1 bytes of zeros failed: too small");
}

/// A plugin made of a function.
struct Named<F>(F);

impl<F> std::fmt::Debug for Named<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Named")
    }
}

impl<F: Fn(&Unsynced) -> SyncDecision + Send + Sync + 'static> SyncPolicy for Named<F> {
    fn name(&self) -> &str {
        "named"
    }
    fn decide(&self, unsynced: &Unsynced) -> SyncDecision {
        (self.0)(unsynced)
    }
}

impl<F: Fn(&RetentionView<'_>) -> RetentionDecision + Send + Sync + 'static> RetentionPolicy for Named<F> {
    fn name(&self) -> &str {
        "named"
    }
    fn roll_age(&self) -> Option<Duration> {
        None
    }
    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        (self.0)(view)
    }
}

impl<F: Fn(WakeReason) + Send + Sync + 'static> WakeNotifier for Named<F> {
    fn name(&self) -> &str {
        "named"
    }
    fn wake(&self, _: &LogIdentity, reason: WakeReason) {
        (self.0)(reason);
    }
}

fn sync(decide: impl Fn(&Unsynced) -> SyncDecision + Clone + Send + Sync + 'static) -> String {
    broken_point(|| conformance::sync_policy(|| Arc::new(Named(decide.clone()))))
}

#[test]
fn each_way_to_break_the_sync_policys_contract_is_found() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    assert_eq!(sync(|_| SyncDecision::Within(Duration::from_secs(1))), "1", "pushes the sync away");
    assert_eq!(sync(|_| SyncDecision::Within(Duration::ZERO)), "1", "never syncs");
    let moody = |_: &Unsynced| match ASKED.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => SyncDecision::Now,
        _ => SyncDecision::NotYet,
    };
    assert_eq!(sync(moody), "2", "depends on more than the argument");
    let overflowing = |unsynced: &Unsynced| {
        assert!(unsynced.bytes < u64::MAX, "overflow");
        SyncDecision::Now
    };
    assert_eq!(sync(overflowing), "4", "panics");
}

fn retention(
    decide: impl Fn(&RetentionView<'_>) -> RetentionDecision + Clone + Send + Sync + 'static,
) -> String {
    broken_point(|| conformance::retention_policy(|| Arc::new(Named(decide.clone()))))
}

#[test]
fn each_way_to_break_the_retention_policys_contract_is_found() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let moody = |_: &RetentionView<'_>| {
        RetentionDecision::expire(ASKED.fetch_add(1, Ordering::Relaxed) as usize % 2, "mood")
    };
    assert_eq!(retention(moody), "1", "depends on more than the argument");
    assert_eq!(retention(|_| RetentionDecision::expire(1, "Too Old!")), "2", "no word for a label");
    let younger_goes = |view: &RetentionView<'_>| {
        let young = |time: i64| view.now_ms.saturating_sub(time) < 5_000;
        RetentionDecision::expire(view.segments.iter().filter(|s| young(s.last_write_ms)).count(), "age")
    };
    assert_eq!(retention(younger_goes), "3", "expires fewer as time goes on");
    let on_a_weekend = |view: &RetentionView<'_>| {
        let weekend = view.now_ms.div_euclid(86_400_000).rem_euclid(7) > 4;
        RetentionDecision::expire(if weekend { view.segments.len() } else { 0 }, "weekend")
    };
    assert_eq!(retention(on_a_weekend), "3", "expires on some days");
    let all_that_are_old = |view: &RetentionView<'_>| {
        let old = |time: i64| time < view.now_ms.saturating_sub(3_600_000);
        RetentionDecision::expire(view.segments.iter().filter(|s| old(s.last_write_ms)).count(), "age")
    };
    assert_eq!(retention(all_that_are_old), "2", "counts beyond the prefix");
    let unknown_is_everything = |view: &RetentionView<'_>| {
        let settled = view.frontier.unwrap_or(view.high_watermark);
        let behind = view.segments.iter().take_while(|segment| segment.end <= settled).count();
        RetentionDecision::expire(behind, "consumed")
    };
    assert_eq!(retention(unknown_is_everything), "3", "takes what is not known to be settled");
    let needs_one = |view: &RetentionView<'_>| {
        RetentionDecision::expire(usize::from(view.segments[0].bytes > view.segments[0].end.get()), "size")
    };
    assert_eq!(retention(needs_one), "5", "panics over an empty log");
}

#[test]
fn a_notifier_that_panics_is_found() {
    let fussy = |reason| assert_ne!(reason, WakeReason::Closed);
    let point = broken_point(|| conformance::wake_notifier(|| Arc::new(Named(fussy))));
    assert_eq!(point, "2");
}
