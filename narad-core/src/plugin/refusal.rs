//! What plugins there are kinds of, who provides one, and why a registry refuses.

use std::fmt;

use super::PluginError;

/// The kinds of plugin that a configuration can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PluginKind {
    /// A [`Codec`](super::Codec).
    Codec,
    /// A [`RetentionPolicy`](super::RetentionPolicy).
    Retention,
    /// A [`SyncPolicy`](super::SyncPolicy).
    Sync,
    /// A [`WakeNotifier`](super::WakeNotifier).
    Wake,
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Codec => "codec",
            Self::Retention => "retention policy",
            Self::Sync => "sync policy",
            Self::Wake => "wake notifier",
        })
    }
}

/// The crate that a plugin comes from, and its version. [`origin!`](crate::origin) is that of the crate it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The crate's name.
    pub package: &'static str,
    /// The crate's version.
    pub version: &'static str,
}

impl Origin {
    /// A crate of that name and version.
    pub const fn new(package: &'static str, version: &'static str) -> Self {
        Self { package, version }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.version)
    }
}

/// The [`Origin`](crate::plugin::Origin) of what is registered here: the crate that this stands in, and its version.
#[macro_export]
macro_rules! origin {
    () => {
        $crate::plugin::Origin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    };
}

/// Why the registry could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No plugin has that name. Correct it, or build the program with the plugin.
    #[error("unknown {kind} \"{name}\"; {}", listed(known))]
    Unknown {
        /// What was looked for.
        kind: PluginKind,
        /// The name that was given.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// Two plugins claim one name or one codec number. Leave one of them out.
    #[error("{kind} {what} is claimed by {first} and by {second}")]
    Duplicate {
        /// Their kind.
        kind: PluginKind,
        /// The name or number.
        what: String,
        /// Who had it.
        first: String,
        /// Who wants it too.
        second: String,
    },
    /// No plugin can have that name: it names a directory.
    #[error("{kind} {name:?}: a name is 1 to 64 of a-z 0-9 - _ that begin with a letter or digit")]
    Name {
        /// The plugin's kind.
        kind: PluginKind,
        /// The name.
        name: String,
    },
    /// What stands in a plugin's place names none.
    #[error("{kind} {spec}: expected a name, or an object with a \"name\"")]
    Malformed {
        /// What was looked for.
        kind: PluginKind,
        /// What stands there, as JSON.
        spec: String,
    },
    /// The configuration does not fit the plugin.
    #[error("{kind} \"{name}\": {reason}")]
    Config {
        /// The plugin's kind.
        kind: PluginKind,
        /// The plugin's name.
        name: String,
        /// What does not fit, with its key in front.
        reason: String,
    },
    /// Plugins stand in one another deeper than anybody needs.
    #[error("{kind} \"{name}\" stands in more than {limit} others")]
    TooDeep {
        /// The plugin's kind.
        kind: PluginKind,
        /// The name of the innermost.
        name: String,
        /// How many it can stand in.
        limit: u8,
    },
    /// The plugin could not be built.
    #[error("{kind} \"{name}\" could not be built: {source}")]
    Build {
        /// The plugin's kind.
        kind: PluginKind,
        /// The plugin's name.
        name: String,
        /// What it said.
        source: PluginError,
    },
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { "none is registered".to_owned() } else { format!("known are {}", known.join(", ")) }
}
