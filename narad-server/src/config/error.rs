//! Why settings cannot be used.

use std::path::PathBuf;

use super::AddressError;

/// Why the settings cannot be used. Nothing was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file of `--config`.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file's name does not say how it is written.
    #[error("{}: the name must end in .toml or .json", .0.display())]
    Extension(PathBuf),
    /// A key of the file is no setting.
    #[error("unknown key \"{key}\" in {}{}", path.display(), hint(nearest))]
    UnknownKey {
        /// The key, with its section.
        key: String,
        /// The file.
        path: PathBuf,
        /// The setting that was probably meant.
        nearest: Option<String>,
    },
    /// A variable under a section's prefix is no setting.
    #[error("unknown variable {name}{}", hint(nearest))]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },
    /// A variable's value cannot be read.
    #[error("{name}: \"{value}\" is not a value for it")]
    Variable {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// The address of the command line cannot be read.
    #[error("--addr: {0}")]
    Address(#[from] AddressError),
    /// The file is not well formed.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A value has the wrong type.
    #[error("{key}: {reason}")]
    Value {
        /// The setting.
        key: String,
        /// What does not fit.
        reason: String,
    },
    /// A value is outside its bounds, or contradicts another.
    #[error("{key}: {reason}")]
    Invalid {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
