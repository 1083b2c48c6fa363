//! Why a request to a broker failed, in terms of what the caller can do next.

use std::time::Duration;

use reqwest::StatusCode;

/// Why a request was not carried out, or may not have been.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The address cannot be one of a server.
    #[error("server address {given:?}: {reason}; give HOST:PORT or http://HOST:PORT")]
    Address {
        /// The address as given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A name that no topic and no user can have, and no request can carry.
    #[error("{0:?} cannot be the name of a topic or a user")]
    TopicName(String),

    /// A password that is no text.
    #[error("the password is not UTF-8")]
    PasswordBytes,

    /// There was no connection: nothing was sent.
    #[error(
        "cannot reach {server}: {reason}; start a broker with `narad serve --dev`, or name a running one with \
         --server or NARAD_ADDR"
    )]
    Unreachable {
        /// The server.
        server: String,
        /// What the operating system said.
        reason: String,
    },

    /// The connection ended before the answer: the request may have been carried out or not.
    #[error("no answer from {server}: {reason}; the request may or may not have been carried out")]
    Lost {
        /// The server.
        server: String,
        /// How it ended.
        reason: String,
    },

    /// The server said no.
    #[error("{message} ({status}){}", way_out(*status))]
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// The server's words.
        message: String,
        /// When it may be asked again.
        retry_after: Option<Duration>,
    },

    /// The answer is not one of this API.
    #[error("cannot understand the answer of {server} to {request}: {reason}; is it a narad broker?")]
    Answer {
        /// The server.
        server: String,
        /// The method and path.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
}

fn way_out(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "; name a user with --user and give its password in NARAD_PASS, or keep both with `narad ctx add`"
        }
        _ => "",
    }
}

impl ClientError {
    /// Whether nothing was sent, for want of a connection.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether the connection ended before the answer.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the server did nothing and may later: 429 and 503.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.status(), Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE))
    }

    /// The status of a refusal.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        if let Self::Refused { status, .. } = self { Some(*status) } else { None }
    }

    /// When the server wants to be asked again, if it said so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Refused { retry_after, .. } = self { *retry_after } else { None }
    }

    /// Whether the request may have been carried out all the same.
    pub(crate) fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Answer { .. } => true,
            Self::Refused { status, .. } => status.is_server_error() && !self.is_busy(),
            Self::Address { .. } | Self::TopicName(_) | Self::PasswordBytes | Self::Unreachable { .. } => {
                false
            }
        }
    }
}
