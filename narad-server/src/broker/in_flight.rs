//! Calls that run now, and a wait for those that ran at a moment. A call costs a lock of no contention; nobody waits for
//! calls that began later, however many there are.

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Calls of one kind.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<Arc<watch::Sender<()>>>);

/// A call that runs, until it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    _generation: Arc<watch::Sender<()>>,
}

impl InFlight {
    /// A call begins.
    pub(super) fn begin(&self) -> Running {
        Running { _generation: Arc::clone(&self.0.lock()) }
    }

    /// Waits until every call has ended that began before this was called.
    pub(super) fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let generation = mem::take(&mut *self.0.lock());
        let mut ended = generation.subscribe();
        drop(generation);
        async move {
            // The last of them takes the sender with it.
            while ended.changed().await.is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn calls_that_ran_are_waited_for_and_later_ones_are_not() {
        let calls = InFlight::default();
        assert!(calls.settled().now_or_never().is_some());
        let (one, other) = (calls.begin(), calls.begin());
        let mut settled = Box::pin(calls.settled());
        let _later = calls.begin();
        drop(one);
        assert!((&mut settled).now_or_never().is_none());
        drop(other);
        assert!(settled.now_or_never().is_some());
    }
}
