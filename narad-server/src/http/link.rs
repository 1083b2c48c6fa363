//! What a connection and the request that it carries know of each other: that the client sends no more, and what is to
//! be undone when it turns out that the client was gone before it could take its answer.
//!
//! Knows no socket and no lease. The connection reports what it sees; the handler says what follows.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{extract::FromRequestParts, http::request::Parts};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

/// A connection that breaks within so long of an answer has not delivered it. Later the client may be at work.
const DOUBT: Duration = Duration::from_secs(1);

/// One connection, as the requests on it see it. Cheap to clone. Who accepts the connection puts it into the extensions
/// of each request.
#[derive(Debug, Clone, Default)]
pub struct Link(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    left: watch::Sender<bool>,
    handed: Mutex<Option<Handed>>,
}

/// What the answer under way, or the last one, hands over.
struct Handed {
    undo: Box<dyn FnOnce() + Send>,
    /// Until when it is in doubt; absent while the answer is being written.
    until: Option<Instant>,
}

impl std::fmt::Debug for Handed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handed").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Link {
    /// The client sends no more: it has gone, or waits for its last answer. Which of both does not show.
    pub fn client_left(&self) {
        self.0.left.send_replace(true);
    }

    /// Waits until the client sends no more.
    pub(super) async fn left(&self) {
        // The sender lives as long as this does.
        let _ = self.0.left.subscribe().wait_for(|&left| left).await;
    }

    /// The answer to the request under way hands something over; `undo` takes it back.
    pub(super) fn hand_over(&self, undo: impl FnOnce() + Send + 'static) {
        *self.0.handed.lock() = Some(Handed { undo: Box::new(undo), until: None });
    }

    /// A request began, so the client has taken the answer before.
    pub fn request_began(&self) {
        self.0.handed.lock().take();
    }

    /// The answer was written, as far as this side can tell.
    pub fn request_ended(&self) {
        if let Some(handed) = &mut *self.0.handed.lock() {
            handed.until = Some(Instant::now() + DOUBT);
        }
    }

    /// Whether the last answer handed something over that the client may not have taken.
    pub fn is_in_doubt(&self) -> bool {
        self.0.handed.lock().as_ref().is_some_and(Handed::is_in_doubt)
    }

    /// The connection broke: what is in doubt was not taken.
    pub fn broke(&self) {
        self.undo_if(Handed::is_in_doubt);
    }

    /// The answer could not be written to its end, however long that took.
    pub fn cut_off(&self) {
        self.undo_if(|_| true);
    }

    fn undo_if(&self, not_taken: impl Fn(&Handed) -> bool) {
        // Not under the lock: it runs code of others.
        let handed = self.0.handed.lock().take();
        if let Some(handed) = handed.filter(not_taken) {
            (handed.undo)();
        }
    }
}

impl Handed {
    fn is_in_doubt(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Link {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_in_doubt_is_undone_once_and_nothing_else() {
        let (link, undone) = (Link::default(), Arc::new(AtomicU32::new(0)));
        let hand_over = || {
            let undone = Arc::clone(&undone);
            link.hand_over(move || {
                undone.fetch_add(1, Ordering::SeqCst);
            });
        };
        let undone = || undone.load(Ordering::SeqCst);
        link.broke();
        hand_over();
        assert!(link.is_in_doubt());
        link.broke();
        link.broke();
        assert_eq!(undone(), 1, "while it is written");
        hand_over();
        link.request_ended();
        tokio::time::advance(DOUBT / 2).await;
        link.broke();
        assert_eq!(undone(), 2, "soon after");
        hand_over();
        link.request_ended();
        tokio::time::advance(DOUBT).await;
        assert!(!link.is_in_doubt());
        link.broke();
        assert_eq!(undone(), 2, "much later");
        hand_over();
        link.request_ended();
        tokio::time::advance(DOUBT).await;
        link.cut_off();
        assert_eq!(undone(), 3, "a client that took its answer slowly");
        hand_over();
        link.request_ended();
        link.request_began();
        link.broke();
        assert_eq!(undone(), 3, "the client went on");
    }

    #[tokio::test]
    async fn who_waits_is_told_that_the_client_left_and_so_is_who_comes_later() {
        let link = Link::default();
        let waiting = tokio::spawn({
            let link = link.clone();
            async move { link.left().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        link.client_left();
        waiting.await.unwrap();
        link.left().await;
    }
}
