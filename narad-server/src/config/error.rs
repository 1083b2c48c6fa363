//! Why settings cannot be used.

use std::{fmt, path::PathBuf};

use super::Source;

/// One thing that is wrong with the settings.
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
    /// The file is not well formed.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A key of the file is no setting.
    #[error("unknown key \"{key}\" in {}{hint}", path.display())]
    UnknownKey {
        /// The key, with its section.
        key: String,
        /// The file.
        path: PathBuf,
        /// What was probably meant, or why there is no such key; begins with `; ` unless it is empty.
        hint: String,
    },
    /// A variable under a section's prefix is no setting.
    #[error("unknown variable {name}{hint}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// What was probably meant, or why there is no such variable; begins with `; ` unless it is empty.
        hint: String,
    },
    /// A variable's value is not UTF-8.
    #[error("the value of {0} is not UTF-8")]
    NotText(String),
    /// A value has the wrong type, lies outside its bounds or contradicts another.
    #[error("{key}: {reason} ({from})")]
    Invalid {
        /// The setting.
        key: String,
        /// What is wrong with it, and what to write instead.
        reason: String,
        /// Where the value comes from.
        from: Source,
    },
}

/// Everything that is wrong with the settings. Nothing was opened.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// `Ok` when nothing was found.
    pub(super) fn unless_none(found: Vec<ConfigError>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// One after the other; never none.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "{} settings cannot be used:", self.0.len())?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ConfigErrors {}
