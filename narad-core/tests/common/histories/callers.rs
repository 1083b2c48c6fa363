//! Commits of several callers at once, one of whom goes away: without a thread, and the same every time.
//!
//! While the codec works for the first commit the others arrive, so they form the next cycle.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use narad_core::{Result, format::Offset, testkit::Fault};

use super::{
    driver::History,
    steps::{Caller, Records},
};
use crate::model::{Model, batch};

type Commit = Pin<Box<dyn Future<Output = Result<Range<Offset>>> + Send>>;
/// What waits for the next cycle.
type Queued = Arc<Mutex<Vec<(Vec<String>, Commit)>>>;

/// A commit, and while it is under way those of the others.
pub fn together(
    history: &mut History<'_>,
    first: Records,
    is_async: bool,
    others: &[(Records, Caller)],
    fault: Option<&Fault>,
) {
    let first = history.payloads(first);
    let others: Vec<_> =
        others.iter().map(|(records, caller)| (history.payloads(*records), *caller)).collect();
    let queued = Queued::default();
    {
        let (log, queued) = (history.log.clone(), Arc::clone(&queued));
        history.world.codec.meanwhile(move || {
            for (payloads, caller) in others {
                let commit: Commit = Box::pin(log.commit_async(batch(&payloads)));
                if caller == Caller::Stays {
                    queued.lock().unwrap().push((payloads, commit));
                }
            }
        });
    }
    let asked = Model::ask(&history.log);
    let outcome = history.during(fault, |log| match is_async {
        true => done(Box::pin(log.commit_async(batch(&first)))),
        false => log.commit(batch(&first)),
    });
    history.world.codec.forget();
    let mut cycles = vec![(vec![first], outcome.map(|offsets| vec![offsets]))];
    let (batches, outcomes): (Vec<_>, Vec<_>) =
        queued.lock().unwrap().drain(..).map(|(payloads, commit)| (payloads, done(commit))).unzip();
    if !batches.is_empty() {
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!(failed == 0 || failed == outcomes.len(), "one cycle, one outcome: {outcomes:?}");
        cycles.push((batches, outcomes.into_iter().collect()));
    }
    history.model.answered(&history.log, &asked, cycles);
}

fn done(mut commit: Commit) -> Result<Range<Offset>> {
    match commit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a commit whose cycle has run has an outcome"),
    }
}
