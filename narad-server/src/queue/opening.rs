//! An open that somebody waits for, and others with it.

use narad_core::Error;
use tokio::sync::watch;

/// An open that runs, or has ended.
#[derive(Debug, Clone)]
pub(super) struct Opening(watch::Receiver<Option<Result<(), Error>>>);

impl Opening {
    /// One that runs until the returned function is told how it ended, or is gone.
    pub(super) fn begin() -> (impl FnOnce(Result<(), Error>) + Send, Self) {
        let (end, ending) = watch::channel(None);
        let tell = move |outcome| {
            end.send_replace(Some(outcome));
        };
        (tell, Self(ending))
    }

    /// Waits until it has ended. Dropping the future leaves the open running.
    ///
    /// # Errors
    /// What kept the partition from being opened.
    pub(super) async fn ended(mut self) -> Result<(), Error> {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            // The task is gone: a panic in a plugin, which was said where it was caught.
            Err(_) => Err(Error::Closed),
        }
    }

    /// Whether its end is still to come.
    pub(super) fn is_running(&self) -> bool {
        self.0.has_changed().is_ok()
    }
}
