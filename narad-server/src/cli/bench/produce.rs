//! Producing at a rate or as fast as it goes.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    BenchArgs,
    body::{self, Batch},
    figures::Figures,
};
use crate::cli::client::{Client, ClientError, Target};

/// After a failure, so that a broker that is in trouble is not hammered.
const PAUSE: Duration = Duration::from_millis(100);

/// What the connections share.
pub(super) struct Load<'a> {
    pub(super) client: &'a Client,
    pub(super) target: Target,
    /// What each request is, if not a message.
    pub(super) batch: Option<Batch>,
    pub(super) figures: &'a Mutex<Figures>,
    /// Nothing new is begun.
    pub(super) stop: &'a AtomicBool,
    /// Messages still to be begun.
    pub(super) left: AtomicU64,
    pub(super) end: Instant,
}

/// One connection's share of the load, the `index`th. With a rate a request that has to wait for the one before it
/// counts from when it was due: otherwise a slow broker would be measured by fewer messages.
pub(super) async fn connection(load: &Load<'_>, args: &BenchArgs, index: u16) {
    let message = match load.batch {
        Some(_) => Bytes::new(),
        None => body::message(args.size),
    };
    let connections = f64::from(args.connections);
    let at_once = connections * f64::from(args.batch);
    let period = args.rate.map(|rate| Duration::from_secs_f64(at_once / rate.get() as f64));
    let mut due = Instant::now() + period.unwrap_or_default().mul_f64(f64::from(index) / connections);
    while let Some(messages) = load.begin() {
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
        match load.produce(&message, messages).await {
            Ok(()) => {
                let mut figures = load.figures.lock();
                figures.took(began.elapsed());
                figures.messages += messages;
                figures.bytes += messages * args.size;
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

    /// How many messages the next request is to have; none when there is to be none.
    fn begin(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) || Instant::now() >= self.end {
            return None;
        }
        let most = self.batch.as_ref().map_or(1, |batch| batch.messages);
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(most));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(left.min(most))
    }

    /// One request, with that many messages.
    async fn produce(&self, message: &Bytes, messages: u64) -> Result<(), ClientError> {
        match &self.batch {
            Some(batch) => self.client.produce_batch(&self.target.topic, messages, batch.of(messages)).await,
            None => self.client.produce(&self.target, message.clone()).await,
        }
    }
}
