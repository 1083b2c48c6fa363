//! Trying again, a bounded number of times, what a busy server refused or a restarting one did not answer.
//!
//! Refusals that left nothing behind may be repeated: 429, 503, and a connection that never came about. A request
//! whose answer was lost may have been carried out, so only what can be done twice without harm is repeated then.

use std::{future::Future, time::Duration};

use super::client::ClientError;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// How often and on what grounds a request is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    /// Repetitions after the first try.
    pub(crate) limit: u32,
    /// Whether a server that cannot be connected to may come back: true once it has answered before.
    pub(crate) unreachable: bool,
    /// Whether a request whose answer was lost is repeated: true only for what may be carried out twice.
    pub(crate) lost: bool,
}

impl Retry {
    /// Repetitions unless a flag says otherwise: about six seconds of pauses when the server names none.
    pub(crate) const DEFAULT_LIMIT: u32 = 6;

    /// For a request by itself: a busy server is waited for, one that is not there is not.
    pub(crate) const BUSY: Self = Self { limit: Self::DEFAULT_LIMIT, unreachable: false, lost: false };

    /// For a request that may be carried out twice, to a server that has answered before: it is also waited for while
    /// it restarts.
    pub(crate) const RESTART: Self = Self { limit: Self::DEFAULT_LIMIT, unreachable: true, lost: true };

    /// Runs `call` until it succeeds, fails for good, or the limit is reached. Also returns the repetitions.
    pub(crate) async fn run<T, F: Future<Output = Result<T, ClientError>>>(
        self,
        mut call: impl FnMut() -> F,
    ) -> (Result<T, ClientError>, u32) {
        let mut repeated = 0;
        loop {
            let result = call().await;
            let pause = match &result {
                Err(error) if repeated < self.limit => self.pause(error, repeated),
                _ => None,
            };
            let Some(pause) = pause else { return (result, repeated) };
            tokio::time::sleep(pause).await;
            repeated += 1;
        }
    }

    /// How long to wait before trying again after `error`, or `None` when that would be wrong or no use.
    fn pause(self, error: &ClientError, repeated: u32) -> Option<Duration> {
        let may_repeat =
            error.is_busy() || (self.unreachable && error.is_unreachable()) || (self.lost && error.is_lost());
        if !may_repeat {
            return None;
        }
        let backoff = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(repeated)).min(LONGEST_BACKOFF);
        Some(error.retry_after().map_or(backoff, |asked| asked.min(LONGEST_RETRY_AFTER)))
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn refusal(status: StatusCode, retry_after: Option<u64>) -> ClientError {
        ClientError::Refused {
            status,
            message: "no".into(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn only_a_busy_server_is_asked_again() {
        let retry = Retry::BUSY;
        assert!(retry.pause(&refusal(StatusCode::SERVICE_UNAVAILABLE, None), 0).is_some());
        assert!(retry.pause(&refusal(StatusCode::TOO_MANY_REQUESTS, None), 0).is_some());
        assert!(retry.pause(&refusal(StatusCode::INTERNAL_SERVER_ERROR, None), 0).is_none());
        assert!(retry.pause(&refusal(StatusCode::NOT_FOUND, Some(1)), 0).is_none());
    }

    #[test]
    fn a_lost_answer_is_asked_for_again_only_where_that_does_no_harm() {
        let lost = ClientError::Lost { server: "s".into(), reason: "reset".into() };
        let absent = ClientError::Unreachable { server: "s".into(), reason: "refused".into() };
        for error in [&lost, &absent] {
            assert!(Retry::BUSY.pause(error, 0).is_none(), "{error}");
            assert!(Retry::RESTART.pause(error, 0).is_some(), "{error}");
        }
        let publishing = Retry { lost: false, ..Retry::RESTART };
        assert!(publishing.pause(&lost, 0).is_none() && publishing.pause(&absent, 0).is_some());
        assert!(Retry::RESTART.pause(&refusal(StatusCode::NOT_FOUND, None), 0).is_none());
    }

    #[test]
    fn the_server_says_how_long_within_bounds() {
        let pause = |seconds, repeated| {
            Retry::BUSY.pause(&refusal(StatusCode::SERVICE_UNAVAILABLE, seconds), repeated).unwrap()
        };
        assert_eq!(pause(Some(2), 0), Duration::from_secs(2));
        assert_eq!(pause(Some(86_400), 0), LONGEST_RETRY_AFTER);
        assert_eq!(pause(None, 1), 2 * FIRST_PAUSE);
        assert_eq!(pause(None, 31), LONGEST_BACKOFF);
    }
}
