//! Consuming and acknowledging whatever the topic holds.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::figures::Figures;
use crate::cli::client::{Client, Message, Poll, Settle};

/// A consume that waited this long in vain has drained the topic.
const QUIET: Duration = Duration::from_secs(1);
const LARGEST_BATCH: usize = 100;
const NO_CONTENT: u16 = 204;
/// Failures in a row after which a connection gives up.
const PATIENCE: u32 = 10;

/// Consumes until there is nothing, and returns when the last message was acknowledged.
pub(super) async fn connection(
    client: &Client,
    topic: &str,
    figures: &Mutex<Figures>,
    stop: &AtomicBool,
) -> Option<Instant> {
    let (mut last, mut failures) = (None, 0);
    while !stop.load(Ordering::Relaxed) && failures < PATIENCE {
        let began = Instant::now();
        let poll = Poll { wait: QUIET, partition: None, max: LARGEST_BATCH };
        let batch = match client.consume(topic, poll).await {
            Ok(batch) if batch.is_empty() => {
                if began.elapsed() < QUIET / 2 {
                    // A broker that is going down answers at once.
                    failures += 1;
                    tokio::time::sleep(QUIET / 10).await;
                    continue;
                }
                break;
            }
            Ok(batch) => batch,
            Err(error) => {
                failures += 1;
                figures.lock().failed(&error);
                tokio::time::sleep(QUIET / 10).await;
                continue;
            }
        };
        failures = 0;
        let receipts: Vec<&str> =
            batch.iter().map(|message| message.receipt.as_deref().unwrap_or_default()).collect();
        let began = Instant::now();
        match client.settle(topic, Settle::Ack, &receipts).await {
            Ok(results) => {
                let mut figures = figures.lock();
                figures.took(began.elapsed());
                figures.messages += batch.len() as u64;
                figures.bytes += batch.iter().map(size).sum::<u64>();
                for gone in results.into_iter().filter(|settled| settled.status != NO_CONTENT) {
                    figures.note(format!("ack status {}", gone.status), gone.error.unwrap_or_default());
                }
                last = Some(Instant::now());
            }
            Err(error) => figures.lock().failed(&error),
        }
    }
    last
}

fn size(message: &Message) -> u64 {
    message.payload.len() as u64
}
