//! One request: what is posted where, and what the answer means.

use std::{fmt, io, time::Duration};

use ureq::{
    Agent, Body, Error,
    http::{Response, StatusCode, header::CONTENT_TYPE},
};

/// As much of an answer's body is read, so that its connection can be used again.
const READ_LIMIT: u64 = 4 << 10;

/// Posts to one URL.
pub(crate) struct Poster {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// What became of a notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The receiver has it.
    Taken,
    /// It may be taken another time.
    Failed(String),
    /// It will not be taken, however often it is posted.
    Refused(StatusCode),
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Poster {
    /// Posts to `url`; each step of a request, such as connecting or waiting for the answer, takes `timeout` at most.
    pub(crate) fn new(url: String, token: Option<String>, timeout: Duration) -> Self {
        // No timeout for resolving and none for the whole: with either, ureq starts a thread for each lookup.
        let agent = Agent::config_builder()
            .timeout_connect(Some(timeout))
            .timeout_send_request(Some(timeout))
            .timeout_send_body(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_recv_body(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(1)
            .proxy(None)
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Self { agent, url, token }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn post(&self, body: &[u8]) -> Outcome {
        let mut request = self.agent.post(&self.url).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        match request.send(body) {
            Ok(answer) => {
                let status = answer.status();
                drain(answer);
                meaning(status)
            }
            Err(error) => Outcome::Failed(said(&error)),
        }
    }
}

fn meaning(status: StatusCode) -> Outcome {
    let again = status == StatusCode::REQUEST_TIMEOUT
        || status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error();
    match status {
        status if status.is_success() => Outcome::Taken,
        status if again => Outcome::Failed(format!("it answered {status}")),
        status => Outcome::Refused(status),
    }
}

/// What an answer says beyond its status is not used. A connection whose answer could not be read to its end is closed.
fn drain(answer: Response<Body>) {
    let mut body = answer.into_body().into_with_config().limit(READ_LIMIT).reader();
    // Nothing depends on it.
    let _ = io::copy(&mut body, &mut io::sink());
}

fn said(error: &Error) -> String {
    match error {
        Error::Timeout(timeout) => format!("it did not answer in time ({timeout})"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let of = |code| meaning(StatusCode::from_u16(code).unwrap());
        for code in [200, 202, 204] {
            assert_eq!(of(code), Outcome::Taken);
        }
        for code in [408, 429, 500, 502, 503] {
            assert!(matches!(of(code), Outcome::Failed(_)), "{code}");
        }
        for code in [301, 307, 400, 401, 403, 404, 410] {
            assert!(matches!(of(code), Outcome::Refused(_)), "{code}");
        }
    }
}
