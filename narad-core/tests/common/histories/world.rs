//! What outlives a crash and a panic: the disk, the clock, and how the log is opened on them.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use narad_codecs::None as NoCodec;
use narad_core::{
    Result,
    disk::Disk,
    format::CodecNumber,
    log::{Log, LogOptions},
    plugin::{Codec, FrameContext, PluginError, RetentionDecision, RetentionPolicy, RetentionView},
    runtime::Runtime,
    testkit::{Garbled, ManualClock, SimDisk},
};
use narad_retention::Age;

use super::steps::{Drive, Setup};
use crate::write_path::DIR;

const START_MS: i64 = 1_800_000_000_000;
const RETENTION: Duration = Duration::from_secs(600);

pub struct World {
    pub setup: Setup,
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub runtime: Runtime,
    pub codec: Arc<BusyCodec>,
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let clock = ManualClock::at(START_MS);
        let disk = SimDisk::with_clock(setup.disk_seed, Arc::new(clock.clone()));
        Self::on(setup.clone(), disk, clock)
    }

    fn on(setup: Setup, disk: SimDisk, clock: ManualClock) -> Self {
        let runtime = Runtime::driven_by_hand(drive(&setup, &disk), Arc::new(clock.clone()));
        Self { setup, disk, clock, runtime, codec: Arc::default() }
    }

    /// A copy of the disk as it is now, without its faults, for a process of its own.
    pub fn fork(&self) -> Self {
        Self::on(self.setup.clone(), self.disk.fork(), self.clock.clone())
    }

    /// The disk as the log sees it.
    pub fn drive(&self) -> Arc<dyn Disk> {
        drive(&self.setup, &self.disk)
    }

    pub fn set_wall_clock(&self, ms: i64) {
        self.clock.set_unix_ms(START_MS + ms);
    }

    pub fn open(&self) -> Result<Log> {
        let mut options = LogOptions::new("test", Arc::<BusyCodec>::clone(&self.codec));
        options.segment_bytes = self.setup.segment_bytes;
        options.retention = by_age();
        Log::open(&self.runtime, Path::new(DIR), options)
    }

    pub fn files(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        self.disk.paths().into_iter().map(|path| (path.clone(), self.disk.contents(&path))).collect()
    }

    pub fn clear_faults(&self) {
        self.disk.clear_faults();
        self.disk.set_capacity(None);
    }

    /// Unlinks that have failed.
    pub fn failed_unlinks(&self) -> u64 {
        self.runtime.metrics().error_count("storage", "retention_unlink")
    }
}

fn drive(setup: &Setup, disk: &SimDisk) -> Arc<dyn Disk> {
    match setup.drive {
        Drive::Garbled => Arc::new(Garbled::new(disk.clone())),
        Drive::Honest | Drive::Lying => Arc::new(disk.clone()),
    }
}

/// The log's own policy. Segments roll by it too.
pub fn by_age() -> Arc<dyn RetentionPolicy> {
    Arc::new(Age::new(RETENTION))
}

/// Keeps the newest records, so many of them at least.
#[derive(Debug)]
pub struct Newest(pub u64);

impl RetentionPolicy for Newest {
    fn name(&self) -> &str {
        "newest"
    }

    fn roll_age(&self) -> Option<Duration> {
        None
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let may_go = view.high_watermark.get().saturating_sub(self.0);
        let expired = view.segments.iter().take_while(|segment| segment.end.get() <= may_go);
        RetentionDecision::expire(expired.count(), "count")
    }
}

type Event = Box<dyn FnOnce() + Send>;

/// The codec none, which can be made to refuse a frame, and during whose work something else can happen: the commit
/// that asked for it is then under way.
#[derive(Default)]
pub struct BusyCodec {
    meanwhile: Mutex<Option<Event>>,
    refuses: Mutex<bool>,
}

impl BusyCodec {
    /// Has this happen while the next frame is encoded.
    pub fn meanwhile(&self, event: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(event));
    }

    /// What has not come about by now does not happen.
    pub fn forget(&self) {
        *self.meanwhile.lock().unwrap() = None;
    }

    /// Refuses every frame, or takes them again.
    pub fn refuse(&self, refuses: bool) {
        *self.refuses.lock().unwrap() = refuses;
    }
}

impl fmt::Debug for BusyCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BusyCodec")
    }
}

impl Codec for BusyCodec {
    fn number(&self) -> CodecNumber {
        NoCodec.number()
    }

    fn name(&self) -> &str {
        NoCodec.name()
    }

    fn encode(&self, frame: &FrameContext<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(event) = meanwhile {
            event();
        }
        if *self.refuses.lock().unwrap() {
            return Err("refused".into());
        }
        NoCodec.encode(frame, raw, out)
    }

    fn decode(&self, frame: &FrameContext<'_>, stored: &[u8], out: &mut Vec<u8>) -> Result<(), PluginError> {
        NoCodec.decode(frame, stored, out)
    }
}
