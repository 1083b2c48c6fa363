//! The file of contexts: which brokers there are, and as whom they are talked to. For its owner alone: it holds passwords.
//!
//! A change is whole or not there: the file is written under another name, synced and renamed.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::error::CliError;

/// A broker and who talks to it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// Where it is, as `--server` takes it.
    pub(super) server: String,
    /// The user; none for a broker without security.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    /// Its password; none asks for it each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) password: Option<String>,
}

/// All contexts, and the one that is used when nobody says.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) selected: Option<String>,
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Those of the file; none when there is no file.
    pub(super) fn load() -> Result<Self, CliError> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let refuse = |reason: String| CliError::Contexts { path: path.clone(), reason };
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(refuse(error.to_string())),
        };
        let mode = file.metadata().map_err(|error| refuse(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(refuse("others may read it, and it holds passwords: chmod 600 it".to_owned()));
        }
        let text = io::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| {
            // serde would quote what it does not understand, which may be a password.
            refuse(format!("line {}, column {} is not understood", error.line(), error.column()))
        })
    }

    /// Puts them into the file, durably.
    pub(super) fn save(&self) -> Result<(), CliError> {
        let Some(path) = path() else {
            let reason = "there is no HOME and no XDG_CONFIG_HOME to keep it in".to_owned();
            return Err(CliError::Contexts { path: PathBuf::from("contexts.json"), reason });
        };
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from);
        let saved = text.and_then(|text| replace(&path, text.as_bytes()));
        saved.map_err(|error| CliError::Contexts { path, reason: error.to_string() })
    }

    /// The context `name`.
    pub(super) fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.contexts.get(name).ok_or_else(|| {
            CliError::Usage(format!("there is no context {name}; `narad ctx ls` lists those there are"))
        })
    }
}

/// `$XDG_CONFIG_HOME/narad/contexts.json`, or `~/.narad/contexts.json`.
fn path() -> Option<PathBuf> {
    let of = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = of("XDG_CONFIG_HOME").map(|config| config.join("narad"));
    Some(dir.or_else(|| Some(of("HOME")?.join(".narad")))?.join("contexts.json"))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let unfinished = path.with_extension("json.new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    fs::File::open(dir)?.sync_all()
}
