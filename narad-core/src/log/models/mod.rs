//! Models of what several threads do to one log at a time: the engine itself, over the simulated disk, on shuttle's
//! scheduler, which chooses who goes on at every lock, wait and atomic access. A model ends when everybody in it does:
//! whoever is left waiting is a deadlock, and shuttle says so.
//!
//! `cargo test -p narad-core --features shuttle,testkit --lib models`
//!
//! Each model runs under a number of random schedules, half of them with few preemptions (PCT), drawn from the seed in
//! `NARAD_SEED`, or from a random one, which is printed at the failure. `NARAD_SCHEDULES` multiplies their number.
//! Shuttle prints the failing schedule as well: put it into `NARAD_SCHEDULE` and run that one test to get the same
//! steps again, under a debugger say.
//!
//! What a model cannot show: shuttle knows no ordering of atomics weaker than `SeqCst`, and no time. Nothing in here may
//! block other than by `crate::sync`, or use a thread that is not shuttle's.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod combine;
mod commit;
mod release;
mod sweep;
mod truncate;
mod wake;

use std::{path::Path, sync::Arc};

use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler},
};

use super::{Log, LogOptions};
use crate::{
    format::{Batch, Offset},
    runtime::{Runtime, RuntimeOptions},
    testkit::{self, ManualClock, SeedGuard, SimDisk, Verbatim},
};

/// How often a schedule of few preemptions preempts.
const PREEMPTIONS: usize = 3;

/// Runs the model under that many schedules, or under the one that is to be repeated.
fn explore(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    // The engine's frames are larger than what shuttle gives a thread by itself.
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    if let Ok(schedule) = std::env::var("NARAD_SCHEDULE") {
        Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(model);
        return;
    }
    let factor = std::env::var("NARAD_SCHEDULES").map_or(1, |factor| factor.parse().unwrap());
    let seed = SeedGuard::new(testkit::seed());
    let (model, half) = (Arc::new(model), (schedules * factor).div_ceil(2));
    let again = Arc::clone(&model);
    let random = RandomScheduler::new_from_seed(seed.get(), half);
    Runner::new(random, config.clone()).run(move || model());
    let few = PctScheduler::new_from_seed(seed.get(), PREEMPTIONS, half);
    Runner::new(few, config).run(move || again());
}

/// A log on a simulated disk.
struct Rig {
    disk: SimDisk,
    runtime: Runtime,
    log: Log,
}

impl Rig {
    /// With so many workers; with none, background work runs in the thread that causes it.
    fn new(workers: usize) -> Self {
        Self::with(workers, options())
    }

    fn with(workers: usize, options: LogOptions) -> Self {
        let clock = Arc::new(ManualClock::new());
        // The seed is the schedule's: a schedule that is repeated finds the same disk.
        let disk = SimDisk::with_clock(0, Arc::clone(&clock) as _);
        let runtime = if workers == 0 {
            Runtime::driven_by_hand(Arc::new(disk.clone()), clock)
        } else {
            let disk = Arc::new(disk.clone());
            Runtime::new(RuntimeOptions { disk, clock, workers, ..RuntimeOptions::default() })
        };
        let log = Log::open(&runtime, Path::new("/data/p00000"), options).unwrap();
        Self { disk, runtime, log }
    }

    /// Every record from the oldest to the watermark, all of them readable.
    fn visible(&self) -> Vec<String> {
        let found = self.log.read_batch(self.log.oldest_offset(), 100, 1 << 20).unwrap();
        assert_eq!((found.next, &found.unreadable[..]), (self.log.high_watermark(), &[][..]));
        found.records.iter().map(|record| text(&record.payload)).collect()
    }
}

fn options() -> LogOptions {
    LogOptions::new("modelled", Arc::new(Verbatim))
}

fn record(payload: &str) -> Batch {
    Batch::of(b"", payload.as_bytes())
}

fn offset(value: u32) -> Offset {
    Offset::from(value)
}

fn text(payload: &[u8]) -> String {
    String::from_utf8(payload.to_vec()).unwrap()
}
