//! Where a setting's value comes from: the layer, and the file, variable or flag in it.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use figment::value::Value;

/// The layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The defaults of `--dev`.
    Dev,
    /// The file of `--config`.
    File(PathBuf),
    /// The environment variable of this name.
    Environment(String),
    /// The flag of the command line.
    Flag(&'static str),
}

impl Source {
    /// The layer's name: `default`, `dev`, `file`, `environment` or `flag`.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Dev => "dev",
            Self::File(_) => "file",
            Self::Environment(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// The file, variable or flag; `None` for defaults.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Default | Self::Dev => None,
            Self::File(path) => Some(path.display().to_string()),
            Self::Environment(name) => Some(name.clone()),
            Self::Flag(flag) => Some((*flag).to_owned()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Dev => f.write_str("default of --dev"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// Settings by `section.name`, before they are typed. One that a later layer names is replaced whole: a plugin that is
/// named anew keeps no key of the old one.
pub(super) type Layer = BTreeMap<String, (Value, Source)>;
