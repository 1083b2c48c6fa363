//! `narad plugin`: what this program is built with. Opens nothing and asks no broker.

use clap::Subcommand;
use narad_core::plugin::{PluginInfo, Registry};
use serde_json::{Value, json};

use super::{
    error::{CliError, Outcome},
    output::{Output, table},
};

/// What is done with plugins.
#[derive(Debug, Subcommand)]
pub(super) enum PluginCommand {
    /// List the plugins with the crate that each comes from, its codec number and the keys of its configuration
    #[command(
        after_help = "A key with a * must be given. With --json one object a line: kind, name, package, version, number \
        (a codec's) and the JSON Schema of the configuration."
    )]
    Ls,
}

/// Carries the command out.
pub(super) fn run(
    command: PluginCommand,
    registry: &Registry,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    match command {
        PluginCommand::Ls if out.is_json() => {
            registry.plugins().try_for_each(|plugin| out.object(&object(&plugin)))?;
        }
        PluginCommand::Ls => {
            let rows: Vec<[String; 6]> = registry.plugins().map(|plugin| row(&plugin)).collect();
            let names = ["KIND", "NAME", "NUMBER", "CRATE", "VERSION", "CONFIGURATION"];
            out.line(table(names, [false, false, true, false, false, false], &rows))?;
        }
    }
    Ok(Outcome::Complete)
}

fn object(plugin: &PluginInfo<'_>) -> Value {
    let mut object = json!({
        "kind": plugin.kind.to_string(), "name": plugin.name, "package": plugin.origin.package,
        "version": plugin.origin.version, "schema": plugin.schema,
    });
    if let (Some(number), Some(object)) = (plugin.number, object.as_object_mut()) {
        object.insert("number".to_owned(), number.get().into());
    }
    object
}

fn row(plugin: &PluginInfo<'_>) -> [String; 6] {
    let keys = keys(plugin.schema.as_value());
    [
        plugin.kind.to_string(),
        plugin.name.to_owned(),
        plugin.number.map_or_else(|| "-".to_owned(), |number| number.to_string()),
        plugin.origin.package.to_owned(),
        plugin.origin.version.to_owned(),
        if keys.is_empty() { "-".to_owned() } else { keys.join(", ") },
    ]
}

fn keys(schema: &Value) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let must = |name: &String| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|properties| properties.keys())
        .map(|name| if must(name) { format!("{name}*") } else { name.clone() })
        .collect()
}
