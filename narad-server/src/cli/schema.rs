//! `narad topic schema`: the versions of a topic's JSON Schema, and the file that a new one comes from.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::value::RawValue;

use super::{client::Client, error::CliError, output::Output};

/// A topic whose schema is shown.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The topic
    topic: String,
    /// Show this version and not the current one
    #[arg(long = "at", value_name = "VERSION")]
    at: Option<u32>,
}

/// Writes a version of the schema, as it was given; with `--json` every one of them, or that version.
pub(super) async fn show(args: &SchemaArgs, client: &Client, out: &mut Output) -> Result<(), CliError> {
    let SchemaArgs { topic, at } = args;
    let mut found = client.schemas(topic).await?;
    if let Some(version) = at {
        found.versions.retain(|one| one.version == *version);
        if found.versions.is_empty() {
            return Err(CliError::Usage(format!("topic {topic} has no version {version} of a schema")));
        }
    }
    if out.is_json() {
        return Ok(out.object(&found)?);
    }
    let shown = at.unwrap_or(found.version);
    match found.versions.iter().find(|one| one.version == shown) {
        Some(one) => Ok(out.line(one.schema.get())?),
        None => {
            out.remark(format_args!(
                "{topic} has no schema; `narad topic edit {topic} --schema FILE` gives it one"
            ));
            Ok(())
        }
    }
}

/// A file of JSON: what is a schema is the broker's to say.
#[derive(Debug, Clone, Args)]
pub(super) struct SchemaFile {
    /// Take this JSON Schema: every message must be valid against it
    #[arg(long = "schema", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl SchemaFile {
    /// The text of the file, if one was named.
    ///
    /// # Errors
    /// It cannot be read, or is no JSON.
    pub(super) fn read(&self) -> Result<Option<Box<RawValue>>, CliError> {
        self.file.as_deref().map(read).transpose()
    }
}

fn read(path: &Path) -> Result<Box<RawValue>, CliError> {
    let refuse = |reason: String| CliError::Usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refuse(format!("not JSON: {error}")))
}
