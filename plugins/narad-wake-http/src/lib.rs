//! Tells a URL when topics of a narad broker have records, so that whoever sleeps until then need not poll.
//!
//! | name | tells | configuration |
//! | --- | --- | --- |
//! | `http` | a URL, by POST, which partitions may have records to deliver | `url`; `topics`, `linger`, `timeout`, `max_backoff`, `max_pending`, `bearer_token_env` |
//!
//! ```
//! use narad_core::plugin::{LogIdentity, PluginContext, Registry};
//! use serde_json::json;
//!
//! let mut registry = Registry::new();
//! narad_wake_http::register(&mut registry)?;
//! let context = PluginContext::new(LogIdentity::named("broker-1"));
//! let spec = json!({ "name": "http", "url": "http://127.0.0.1:8080/wake", "topics": ["orders"] });
//! assert_eq!(registry.build_wake(&spec, &context)?.name(), "http");
//! let refused = registry.build_wake(&json!({ "name": "http", "url": "ftp://there" }), &context);
//! assert!(refused.is_err());
//! # Ok::<(), narad_core::plugin::RegistryError>(())
//! ```
//!
//! # What is posted
//!
//! `Content-Type: application/json`, and for all that was announced since the last post one body:
//!
//! ```json
//! {
//!   "from": "broker-1",
//!   "topics": [{ "name": "orders", "id": "00000000deadbeef", "partitions": [0, 2] }],
//!   "more": false
//! }
//! ```
//!
//! `id` is the topic's incarnation, and absent for a log that is no topic's. With `more` there were more partitions than
//! the notifier remembers: look at all of them. Any answer of 200 to 299 takes the notification. 408, 429, 500 to 599, and
//! no answer have it posted again, later, with what came in the meantime; every other answer refuses it for good.
//!
//! A notification is a hint. It may come twice, or late, or for records that somebody else has taken; and when the process
//! ends, the last ones may not have been posted. Who listens looks at the topic on its own start, and now and then.
//!
//! # What it costs
//!
//! Announcing takes a short lock and never waits for the network; one thread, started with the first announcement, does
//! the posting, one request at a time. Memory is bounded by `max_pending` partitions. A receiver that is dead, slow or
//! silent changes none of this. When the notifier is dropped nothing more is posted; a request that is under way is ended
//! by its timeouts, and not waited for.

mod body;
mod config;
mod notifier;
mod pending;
mod post;
mod sender;

pub use config::{HttpWakeConfig, HttpWakeError, register};
pub use notifier::{HttpWake, HttpWakeCounts};
