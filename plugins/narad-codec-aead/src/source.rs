//! Where keys come from, and why they could not be taken from there. No error here holds what was read.

use std::{
    env, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::KeyRing;

/// The largest key file: room for a thousand keys.
const MAX_FILE_BYTES: usize = 64 << 10;
/// The environment variable that is looked at where the configuration names nothing.
pub const DEFAULT_VARIABLE: &str = "NARAD_AEAD_KEYS";

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "lowercase")]
pub enum KeySource {
    /// A file that only its owner can read, of a key a line: `<number>:<32 bytes in base64>`. The last one encrypts.
    File(PathBuf),
    /// An environment variable of the same content; keys may be parted by commas.
    Env(String),
}

impl Default for KeySource {
    fn default() -> Self {
        Self::Env(DEFAULT_VARIABLE.to_owned())
    }
}

/// By hand, so that no error repeats what may be a key that was put here by mistake.
impl<'de> Deserialize<'de> for KeySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str =
            "keys: expected {\"file\": PATH} or {\"env\": NAME}; keys themselves are not put here";
        let refused = || D::Error::custom(EXPECTED);
        let source = Value::deserialize(deserializer)?;
        let source = source.as_object().filter(|source| source.len() == 1).ok_or_else(refused)?;
        let text = |key: &str| source.get(key).and_then(Value::as_str);
        match (text("file"), text("env")) {
            (Some(path), _) => Ok(Self::File(path.into())),
            (None, Some(name)) if is_variable(name) => Ok(Self::Env(name.to_owned())),
            _ => Err(refused()),
        }
    }
}

/// Whether an environment has variables of such names.
fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Why there are no keys. It never holds a part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key file cannot be read.
    #[error("key file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Others than its owner can read or write the key file. Take that from them: `chmod 600`.
    #[error("key file {} is open to others than its owner (mode {mode:04o}): chmod 600 it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The key file's content is not what it must be.
    #[error("key file {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// The environment variable's content is not what it must be.
    #[error("environment variable {name}: {problem}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// Somebody who has no say over the machine names a file or a variable of it. Nothing was looked at.
    #[error("keys: only an admin may say where keys are; without it they are those in {DEFAULT_VARIABLE}")]
    NotForTopics,
    /// The key that is to encrypt new frames is not there.
    #[error("key {id} is to encrypt new frames and is not there; there are {known:?}")]
    NoActive {
        /// Its number.
        id: u32,
        /// The numbers that are there.
        known: Vec<u32>,
    },
    /// Text from elsewhere is not what it must be.
    #[error(transparent)]
    Text(#[from] KeyProblem),
}

/// What is wrong with a text of keys. Lines are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyProblem {
    /// There is no such variable.
    #[error("it is not set")]
    NotSet,
    /// It is no text in UTF-8.
    #[error("it is not text")]
    NotText,
    /// It is no regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is larger than any list of keys.
    #[error("it is larger than {} KiB", MAX_FILE_BYTES >> 10)]
    TooLarge,
    /// There is no key in it.
    #[error("it holds no key")]
    Empty,
    /// No colon stands between number and key.
    #[error("line {line}: expected <number>:<key in base64>")]
    NoColon {
        /// Where.
        line: usize,
    },
    /// What stands before the colon is no number of a key.
    #[error("line {line}: the number before the colon is not one of 1 to 4294967295")]
    Number {
        /// Where.
        line: usize,
    },
    /// What stands behind the colon is not base64.
    #[error("line {line}: key {id} is not base64 with its padding")]
    Encoding {
        /// Where.
        line: usize,
        /// The key's number.
        id: u32,
    },
    /// The key is shorter or longer than 32 bytes.
    #[error("line {line}: key {id} has another length than 32 bytes")]
    Length {
        /// Where.
        line: usize,
        /// The key's number.
        id: u32,
    },
    /// Two keys have one number.
    #[error("line {line}: there is a key {id} already")]
    Twice {
        /// Where the second is.
        line: usize,
        /// The number.
        id: u32,
    },
    /// The key derivation refused.
    #[error("a key could not be prepared")]
    Derivation,
}

impl KeySource {
    /// The keys that are there now.
    ///
    /// # Errors
    /// A file that cannot be read, or that others can; a variable that is not set; what [`KeyRing::parse`] refuses.
    pub fn read(&self) -> Result<KeyRing, KeyError> {
        match self {
            Self::File(path) => KeyRing::from_file(path),
            Self::Env(name) => KeyRing::from_env(name),
        }
    }
}

impl KeyRing {
    /// The keys in a file that nobody but its owner can read or write.
    ///
    /// # Errors
    /// `Unreadable`; `Exposed` for a file that others can read; `File` for content that is no list of keys.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let file = |problem| KeyError::File { path: path.to_owned(), problem };
        // Looked at first: an open of a FIFO would wait for its other end, and a read of what the kernel makes up, whose
        // length is none, for something to be said.
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(file(KeyProblem::NotAFile));
        }
        if metadata.len() == 0 {
            return Err(file(KeyProblem::Empty));
        }
        let opened = fs::File::open(path).map_err(unreadable)?;
        check_mode(path, &opened.metadata().map_err(unreadable)?)?;
        // As large as it gets, so that no growing leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES.saturating_add(2)));
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        opened.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(file(KeyProblem::TooLarge));
        }
        let text = str::from_utf8(&bytes).map_err(|_| file(KeyProblem::NotText))?;
        Self::from_text(text).map_err(file)
    }

    /// The keys in an environment variable. Whoever can read the process's environment has them: a file is the better
    /// place.
    ///
    /// # Errors
    /// `Variable` when it is not set, or its content is no list of keys.
    pub fn from_env(name: &str) -> Result<Self, KeyError> {
        let variable = |problem| KeyError::Variable { name: name.to_owned(), problem };
        let text = Zeroizing::new(env::var(name).map_err(|error| {
            variable(match error {
                env::VarError::NotPresent => KeyProblem::NotSet,
                env::VarError::NotUnicode(_) => KeyProblem::NotText,
            })
        })?);
        Self::from_text(&text).map_err(variable)
    }
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyError> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(KeyError::Exposed { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &fs::Metadata) -> Result<(), KeyError> {
    Ok(())
}
