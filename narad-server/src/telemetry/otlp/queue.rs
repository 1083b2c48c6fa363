//! The way out: a bounded queue and the task behind it. Whoever offers something never waits; what does not fit is counted
//! and forgotten.

use std::{fmt::Debug, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use crate::telemetry::failures;

/// Items that wait, at most.
const WAITING: usize = 2048;
/// Items sent at once, at most.
const BATCH: usize = 512;
/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_secs(1);

/// Takes items to be sent.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: mpsc::Sender<T>,
    /// The kind that what does not fit is counted under.
    dropped: &'static str,
}

impl<T> Queue<T> {
    /// A queue, and the end that sends what is in it.
    pub(super) fn new(dropped: &'static str) -> (Self, mpsc::Receiver<T>) {
        let (items, waiting) = mpsc::channel(WAITING);
        (Self { items, dropped }, waiting)
    }

    /// Takes an item, or counts it.
    pub(super) fn offer(&self, item: T) {
        if self.items.try_send(item).is_err() {
            failures::count(self.dropped);
        }
    }
}

/// Sends what comes, in batches, until `ending` turns true and the queue is empty. `send` says itself when it has failed.
pub(super) async fn send_all<T, F>(
    mut waiting: mpsc::Receiver<T>,
    mut ending: watch::Receiver<bool>,
    send: impl Fn(Vec<T>) -> F,
) where
    F: Future<Output = ()>,
{
    let mut batch = Vec::new();
    loop {
        if batch.is_empty() {
            tokio::select! {
                taken = waiting.recv_many(&mut batch, BATCH) => if taken == 0 { return },
                () = ended(&mut ending) => {
                    if waiting.is_empty() {
                        return;
                    }
                }
            }
        }
        let until = Instant::now() + LINGER;
        while batch.len() < BATCH && !*ending.borrow() {
            let room = BATCH - batch.len();
            tokio::select! {
                taken = waiting.recv_many(&mut batch, room) => if taken == 0 { break },
                () = sleep_until(until) => break,
                () = ended(&mut ending) => break,
            }
        }
        while batch.len() < BATCH
            && let Ok(item) = waiting.try_recv()
        {
            batch.push(item);
        }
        if !batch.is_empty() {
            send(std::mem::take(&mut batch)).await;
        }
    }
}

/// Waits for the end.
pub(super) async fn ended(ending: &mut watch::Receiver<bool>) {
    // Its sender lives as long as the tasks do.
    let _ = ending.wait_for(|&ending| ending).await;
}

/// Waits for an answer as long as the settings say; says and counts that there was none, or a bad one.
pub(super) async fn delivered(
    failed: &'static str,
    within: Duration,
    answer: impl Future<Output = Result<(), String>>,
) -> bool {
    let outcome =
        timeout(within, answer).await.unwrap_or_else(|_| Err(format!("no answer within {within:?}")));
    if let Err(error) = &outcome {
        failures::count(failed);
        tracing::warn!(path = failed, %error, "telemetry could not be delivered");
    }
    outcome.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn items_leave_in_batches_and_what_waits_leaves_at_the_end() {
        let (queue, waiting) = Queue::new("test_dropped");
        let (end, ending) = watch::channel(false);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let sending = tokio::spawn(send_all(waiting, ending, move |batch: Vec<u32>| {
            seen.lock().push(batch);
            async {}
        }));
        queue.offer(1);
        queue.offer(2);
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(*sent.lock(), [vec![1, 2]]);
        queue.offer(3);
        tokio::task::yield_now().await;
        end.send_replace(true);
        sending.await.unwrap();
        assert_eq!(*sent.lock(), [vec![1, 2], vec![3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_offers_never_waits_and_what_does_not_fit_is_counted() {
        let (queue, waiting) = Queue::new("test_overflow");
        let (_end, ending) = watch::channel(false);
        let hanging = tokio::spawn(send_all(waiting, ending, |_: Vec<usize>| std::future::pending()));
        for item in 0..WAITING + BATCH + 100 {
            queue.offer(item);
            if item == BATCH {
                // The first batch is taken, and hangs.
                tokio::time::sleep(LINGER * 2).await;
            }
        }
        let dropped = failures::counted("test_overflow");
        assert!((1..=100 + BATCH as u64).contains(&dropped), "{dropped}");
        hanging.abort();
    }
}
