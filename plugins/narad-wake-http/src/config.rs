//! What a configuration says of the notifier, and the name that it has there.

use std::{collections::BTreeSet, env, sync::Arc, time::Duration};

use narad_core::{
    origin,
    plugin::{Registry, RegistryError},
    units::duration::WithUnits,
};
use schemars::JsonSchema;
use serde::Deserialize;
use ureq::http::Uri;

use crate::{HttpWake, post::Poster, sender::Settings};

/// Partitions that a notifier can be told to remember, at most.
const MOST_PENDING: u32 = 1 << 20;
/// The longest time that a setting takes.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The configuration of the notifier `http`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpWakeConfig {
    /// Where to post to, such as "http://127.0.0.1:8080/wake".
    pub url: String,
    /// The topics to tell of; absent, all of them.
    #[serde(default)]
    pub topics: Option<BTreeSet<String>>,
    /// How long announcements are gathered before they are posted, such as "100ms".
    #[serde(default = "default_linger")]
    pub linger: WithUnits,
    /// How long each step of a request may take: connecting, sending, waiting for the answer, such as "5s".
    #[serde(default = "default_timeout")]
    pub timeout: WithUnits,
    /// The longest wait between two tries, such as "30s". The first is 100 ms, and it doubles.
    #[serde(default = "default_max_backoff")]
    pub max_backoff: WithUnits,
    /// How many partitions are remembered that could not be posted yet, 1 to 1048576.
    #[serde(default = "default_max_pending")]
    pub max_pending: u32,
    /// The environment variable that holds the token to send, as `Authorization: Bearer`; absent, none is sent.
    #[serde(default)]
    pub bearer_token_env: Option<String>,
}

fn default_linger() -> WithUnits {
    WithUnits(Duration::from_millis(100))
}

fn default_timeout() -> WithUnits {
    WithUnits::seconds(5)
}

fn default_max_backoff() -> WithUnits {
    WithUnits::seconds(30)
}

fn default_max_pending() -> u32 {
    4_096
}

/// Why no notifier can be made of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpWakeError {
    /// The URL is none, or none that a notification can be posted to.
    #[error("url: {reason}")]
    Url {
        /// What is wrong with it. Does not repeat it: it may hold a password.
        reason: String,
    },
    /// The environment variable of the token is not set, or holds what no header can.
    #[error("bearer_token_env: the environment variable {name} {reason}")]
    Token {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A setting is out of its bounds.
    #[error("{setting} is {value}; it has to be {bounds}")]
    OutOfBounds {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        bounds: &'static str,
    },
}

impl HttpWakeConfig {
    /// To post to `url`, and otherwise as the defaults have it.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            topics: None,
            linger: default_linger(),
            timeout: default_timeout(),
            max_backoff: default_max_backoff(),
            max_pending: default_max_pending(),
            bearer_token_env: None,
        }
    }

    pub(crate) fn settings(self, from: String) -> Result<Settings, HttpWakeError> {
        check_url(&self.url)?;
        check_time("linger", self.linger, Duration::ZERO, "at most 1h")?;
        check_time("timeout", self.timeout, Duration::from_millis(1), "1ms to 1h")?;
        check_time("max_backoff", self.max_backoff, Duration::from_millis(1), "1ms to 1h")?;
        if !(1..=MOST_PENDING).contains(&self.max_pending) {
            let value = self.max_pending.to_string();
            return Err(HttpWakeError::OutOfBounds { setting: "max_pending", value, bounds: "1 to 1048576" });
        }
        let token = self.bearer_token_env.map(token).transpose()?;
        Ok(Settings {
            poster: Poster::new(self.url, token, self.timeout.0),
            from,
            linger: self.linger.0,
            max_backoff: self.max_backoff.0,
            max_pending: usize::try_from(self.max_pending).unwrap_or(usize::MAX),
        })
    }
}

fn check_url(url: &str) -> Result<(), HttpWakeError> {
    let wrong = |reason: String| Err(HttpWakeError::Url { reason });
    let url: Uri = match url.parse() {
        Ok(url) => url,
        Err(error) => return wrong(format!("not a URL: {error}")),
    };
    match url.scheme_str() {
        Some("http") => {}
        Some("https") if cfg!(feature = "https") => {}
        Some("https") => return wrong("https needs the feature \"https\" of narad-wake-http".to_owned()),
        Some(other) => return wrong(format!("cannot post to {other}: it begins with http:// or https://")),
        None => return wrong("it has to begin with http:// or https://".to_owned()),
    }
    match url.authority() {
        Some(authority) if authority.as_str().contains('@') => wrong(
            "a password in it would be shown in logs; bearer_token_env names a variable with a token"
                .to_owned(),
        ),
        Some(authority) if !authority.host().is_empty() => Ok(()),
        _ => wrong("it names no host".to_owned()),
    }
}

fn check_time(
    setting: &'static str,
    WithUnits(time): WithUnits,
    least: Duration,
    bounds: &'static str,
) -> Result<(), HttpWakeError> {
    if (least..=LONGEST).contains(&time) {
        return Ok(());
    }
    Err(HttpWakeError::OutOfBounds { setting, value: WithUnits(time).to_string(), bounds })
}

fn token(name: String) -> Result<String, HttpWakeError> {
    let token = match env::var(&name) {
        Ok(token) if !token.is_empty() => token,
        _ => return Err(HttpWakeError::Token { name, reason: "is not set" }),
    };
    if token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    Err(HttpWakeError::Token { name, reason: "holds more than printable ASCII" })
}

/// Makes `http` known.
///
/// # Errors
/// `Duplicate` when the name is taken.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.wake(origin!(), "http", |config: HttpWakeConfig, context| {
        Ok(Arc::new(HttpWake::new(&*context.log.name, config)?))
    })
}
