//! A value that somebody else will deliver: awaited as a future, on any executor.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::sync::Mutex;

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Promise<T>(Arc<Shared<T>>);

/// The delivering end. Dropped without a value, it leaves the other end waiting no longer: that end gets `None`.
#[derive(Debug)]
pub(crate) struct Deliver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    done: bool,
    waker: Option<Waker>,
}

/// Both ends.
pub(crate) fn promise<T>() -> (Deliver<T>, Promise<T>) {
    let state = State { value: None, done: false, waker: None };
    let shared = Arc::new(Shared { state: Mutex::new(state) });
    (Deliver(Arc::clone(&shared)), Promise(shared))
}

impl<T> Deliver<T> {
    /// Hands the value over.
    pub(crate) fn deliver(self, value: T) {
        self.finish(Some(value));
    }

    /// Whether nobody waits for the value any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn finish(&self, value: Option<T>) {
        let waker = {
            let mut state = self.0.state.lock();
            if state.done {
                return;
            }
            state.value = value;
            state.done = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            // Somebody else's code: its panic must not take down the one who delivers, to others too.
            _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl<T> Drop for Deliver<T> {
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl<T> Future for Promise<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        if state.done {
            return Poll::Ready(state.value.take());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
