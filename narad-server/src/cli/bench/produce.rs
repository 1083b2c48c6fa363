//! Producing at a rate or as fast as it goes.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rand::RngExt;

use super::{BenchArgs, figures::Figures};
use crate::cli::client::{Client, Target};

/// After a failure, so that a broker that is in trouble is not hammered.
const PAUSE: Duration = Duration::from_millis(100);

/// What the connections share.
pub(super) struct Load<'a> {
    pub(super) client: &'a Client,
    pub(super) target: Target,
    pub(super) figures: &'a Mutex<Figures>,
    /// Nothing new is begun.
    pub(super) stop: &'a AtomicBool,
    /// Messages still to be begun.
    pub(super) left: AtomicU64,
    pub(super) end: Instant,
}

/// One connection's share of the load, the `index`th. With a rate a message that has to wait for the one before it
/// counts from when it was due: otherwise a slow broker would be measured by fewer messages.
pub(super) async fn connection(load: &Load<'_>, args: &BenchArgs, index: u16) {
    let mut payload = vec![0u8; usize::try_from(args.size).unwrap_or(1)];
    rand::rng().fill(&mut payload[..]);
    // Text, so that it can be read in a terminal.
    payload.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    let payload = Bytes::from(payload);

    let connections = f64::from(args.connections);
    let period = args.rate.map(|rate| Duration::from_secs_f64(connections / rate.get() as f64));
    let mut due = Instant::now() + period.unwrap_or_default().mul_f64(f64::from(index) / connections);
    while load.begin() {
        let mut began = Instant::now();
        if let Some(period) = period {
            if due >= load.end {
                break;
            }
            if due > began {
                load.wait_until(due).await;
                began = Instant::now();
            } else {
                began = due;
            }
            if load.stop.load(Ordering::Relaxed) {
                break;
            }
            due += period;
        }
        match load.client.produce(&load.target, payload.clone()).await {
            Ok(()) => {
                let mut figures = load.figures.lock();
                figures.took(began.elapsed());
                figures.messages += 1;
                figures.bytes += args.size;
            }
            Err(error) => {
                load.figures.lock().failed(&error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Load<'_> {
    /// In short steps: an interrupt must not wait for a slow rate.
    async fn wait_until(&self, due: Instant) {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(left.min(PAUSE)).await;
        }
    }

    /// Whether one more is to be sent.
    fn begin(&self) -> bool {
        let goes_on = !self.stop.load(Ordering::Relaxed) && Instant::now() < self.end;
        let take = |left: u64| left.checked_sub(1);
        goes_on && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}
