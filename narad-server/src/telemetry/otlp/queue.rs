//! The way out: a bounded queue and the task behind it. Whoever offers something never waits; what does not fit is counted
//! and forgotten. Little is sent to a collector that takes nothing.

use std::{fmt::Debug, pin::pin, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::telemetry::failures;

/// Items that wait, at most.
const WAITING: usize = 2048;
/// Items sent at once, at most.
const BATCH: usize = 512;
/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_secs(1);
/// How long nothing is sent after a batch that could not be delivered.
const REST: Duration = Duration::from_secs(2);
/// How often the queue is looked at while a batch is under way.
const LOOK: Duration = Duration::from_millis(100);

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

/// Sends what comes, in batches, until `ending` turns true and the queue is empty. `send` answers whether the batch was
/// delivered, and says itself when it was not; then there is a rest, and at the end no other try.
///
/// `want` is told whether more items are of use: none are while the collector has yet to show that it takes some again, or
/// while the queue is full.
pub(super) async fn send_all<T, F>(
    mut waiting: mpsc::Receiver<T>,
    mut ending: watch::Receiver<bool>,
    want: impl Fn(bool),
    send: impl Fn(Vec<T>) -> F,
) where
    F: Future<Output = bool>,
{
    let (mut batch, mut is_failing) = (Vec::new(), false);
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
        if batch.is_empty() {
            continue;
        }
        if is_failing {
            // One batch to see whether they are taken again.
            want(false);
        }
        let sending = send(std::mem::take(&mut batch));
        is_failing = !watching(&waiting, &want, sending).await;
        if is_failing {
            want(false);
            tokio::select! {
                () = sleep(REST) => {}
                () = ended(&mut ending) => return,
            }
        }
        want(true);
    }
}

/// What `sending` answers. While it does not, and the queue is full, nothing is wanted.
async fn watching<T>(
    waiting: &mpsc::Receiver<T>,
    want: &impl Fn(bool),
    sending: impl Future<Output = bool>,
) -> bool {
    let mut sending = pin!(sending);
    loop {
        match timeout(LOOK, &mut sending).await {
            Ok(is_delivered) => return is_delivered,
            Err(_) if waiting.len() >= WAITING => want(false),
            Err(_) => {}
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

    /// What happened, in the order in which it did, with the time since the first.
    #[derive(Debug, Clone, Default)]
    struct Events(Arc<Mutex<Vec<(String, Duration)>>>);

    impl Events {
        fn push(&self, since: Instant, what: String) {
            self.0.lock().push((what, since.elapsed()));
        }

        fn take(&self) -> Vec<(String, Duration)> {
            std::mem::take(&mut self.0.lock())
        }
    }

    fn event(what: &str, at: Duration) -> (String, Duration) {
        (what.to_owned(), at)
    }

    #[tokio::test(start_paused = true)]
    async fn items_leave_in_batches_and_what_waits_leaves_at_the_end() {
        let (queue, waiting) = Queue::new("test_dropped");
        let (end, ending) = watch::channel(false);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let send = move |batch: Vec<u32>| {
            seen.lock().push(batch);
            async { true }
        };
        let sending = tokio::spawn(send_all(waiting, ending, |_| {}, send));
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
    async fn whoever_offers_never_waits_and_what_does_not_fit_is_counted_and_no_more_is_wanted() {
        let (queue, waiting) = Queue::new("test_overflow");
        let (_end, ending) = watch::channel(false);
        let wanted = Arc::new(Mutex::new(true));
        let told = Arc::clone(&wanted);
        let send = |_: Vec<usize>| std::future::pending();
        let hanging = tokio::spawn(send_all(waiting, ending, move |more| *told.lock() = more, send));
        for item in 0..WAITING + BATCH + 100 {
            if item == WAITING {
                assert!(*wanted.lock());
            }
            queue.offer(item);
            if item == BATCH {
                // The first batch is taken, and hangs.
                tokio::time::sleep(LINGER * 2).await;
            }
        }
        let dropped = failures::counted("test_overflow");
        assert!((1..=100 + BATCH as u64).contains(&dropped), "{dropped}");
        tokio::time::sleep(LOOK * 2).await;
        assert!(!*wanted.lock());
        hanging.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_takes_nothing_is_asked_from_time_to_time_and_little_is_made_for_it() {
        let (queue, waiting) = Queue::new("test_failing");
        let (end, ending) = watch::channel(false);
        let (events, takes, begin) = (Events::default(), Arc::new(Mutex::new(false)), Instant::now());
        let (on_want, on_send, answer) = (events.clone(), events.clone(), Arc::clone(&takes));
        let want = move |more: bool| on_want.push(begin, format!("want {more}"));
        let send = move |batch: Vec<usize>| {
            on_send.push(begin, format!("send {}", batch.len()));
            let takes = *answer.lock();
            async move { takes }
        };
        let sending = tokio::spawn(send_all(waiting, ending, want, send));
        (0..WAITING).for_each(|item| queue.offer(item));
        tokio::time::sleep(REST + REST / 2).await;
        let (full, zero) = (format!("send {BATCH}"), Duration::ZERO);
        assert_eq!(
            events.take(),
            [
                event(&full, zero),
                event("want false", zero),
                event("want true", REST),
                event("want false", REST),
                event(&full, REST),
                event("want false", REST),
            ]
        );
        *takes.lock() = true;
        tokio::time::sleep(REST).await;
        let again = REST * 2;
        assert_eq!(
            events.take(),
            [
                event("want true", again),
                event("want false", again),
                event(&full, again),
                event("want true", again),
                event(&full, again),
                event("want true", again),
            ]
        );
        *takes.lock() = false;
        (0..WAITING).for_each(|item| queue.offer(item));
        tokio::time::sleep(REST / 4).await;
        end.send_replace(true);
        timeout(REST / 4, sending).await.expect("no other try at the end").unwrap();
        assert_eq!(events.take().iter().filter(|(what, _)| *what == full).count(), 1);
    }
}
