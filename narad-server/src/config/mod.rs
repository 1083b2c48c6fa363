//! One typed tree of settings, read in layers and validated whole before anything opens.
//!
//! Later layers win: defaults, the file, the environment, the command line. Nothing here touches the data
//! directory or the network.

mod address;
mod env;
mod error;
mod file;
mod keys;
mod layers;
mod schema;
mod settings;
mod source;
mod tree;
mod typed;
mod unique;
mod validate;

use std::path::PathBuf;

pub use address::{Address, AddressError};
pub use error::{ConfigError, ConfigErrors};
pub use layers::{PluginProblems, environment, load, read};
pub use schema::schema;
pub use settings::{Setting, Settings};
pub use source::Source;
pub use tree::{
    Config, Fanout, Http, Log, LogFormat, Node, OtlpProtocol, Security, Storage, Telemetry, TopicDefaults,
};
pub(crate) use validate::{
    MAX_CAP, MAX_PARTITIONS, MAX_TOPIC_MS, MIN_PARTITIONS, MIN_RETENTION_MS, unusable_collector,
};

/// What the command line of `serve` says; it wins over every other layer.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Security off, loopback only, data under the home directory unless told otherwise.
    pub dev: bool,
    /// The configuration file: TOML or JSON, by extension.
    pub config: Option<PathBuf>,
    /// Where to listen: `HOST:PORT`, or `:PORT`; port 0 picks one.
    pub addr: Option<String>,
    /// The data directory.
    pub data_dir: Option<PathBuf>,
}
