//! A message broker assembled from `narad-core`: HTTP produce, lease-based consume, replay.
//!
//! The parts, from the ground floor up; each uses only those before it:
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`duration`], [`size`], [`secret`], [`config`] | durations and sizes with units; text that is not shown; one typed tree of settings, validated whole before anything opens |
//! | [`telemetry`] | log output; every metric's name, all series as text, spans; the way to a collector |
//! | [`schema`] | JSON Schemas of topics: checking, comparing, what they cost |
//! | [`meta`] | topics, users and their versions, behind `MetaStore`; the embedded one on redb |
//! | [`security`] | passwords, who is asking, and what they may do |
//! | [`ingress`] | the produce log (write-ahead log) and its dispatcher |
//! | [`queue`] | leases, the frontier, waiters |
//! | [`fanout`] | copies of a parent's messages to its children |
//! | [`broker`] | the use cases; knows no HTTP |
//! | [`http`] | the routes of `/v1` and the mapping of errors to statuses, nothing else |
//! | [`serve`] | a running server: open, listen, shut down |
//! | [`cli`] | the command `narad` |

pub mod broker;
pub mod cli;
pub mod config;
pub mod fanout;
pub mod http;
pub mod ingress;
pub mod meta;
mod placement;
pub mod queue;
pub mod schema;
pub mod secret;
pub mod security;
pub mod serve;
pub mod size;
pub mod telemetry;

pub use narad_core::units::duration;

#[cfg(doctest)]
#[doc = include_str!("../../docs/plugins.md")]
struct PluginGuide;
