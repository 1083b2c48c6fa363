//! One typed tree of settings.

use std::path::PathBuf;

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
