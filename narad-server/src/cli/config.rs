//! `narad config`: check a configuration, describe what one may hold, show the one in force.
//!
//! Reads the file and the environment as `serve` would, and opens nothing.

use clap::Subcommand;
use narad_core::plugin::Registry;
use serde_json::json;

use super::{
    ServeArgs,
    error::{CliError, Outcome},
    output::Output,
};
use crate::{
    broker::check_plugins,
    config::{self, ConfigErrors, Overrides, Settings},
    serve::ServeError,
};

/// What is done with a configuration.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Say everything that is wrong with the settings; `serve` with the same arguments would start when nothing is
    #[command(
        after_help = "Reads the file and this environment, and opens nothing. Exit status: 0 when the settings \
        can be used, else 1."
    )]
    Check(ServeArgs),
    /// Write the JSON Schema of a configuration file, for editors and for checking files elsewhere
    Schema,
    /// Show every setting in force and where it comes from; secrets are masked
    #[command(
        after_help = "With --json one object a line: key, value, layer (default, dev, file, environment, flag) and \
        name (the file, variable or flag; absent for defaults)."
    )]
    Show(ServeArgs),
}

/// Carries the command out.
pub(super) fn run(
    command: ConfigCommand,
    registry: &Registry,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    match command {
        ConfigCommand::Check(args) => check(args.into(), registry, out),
        ConfigCommand::Schema => schema(registry, out),
        ConfigCommand::Show(args) => show(args.into(), registry, out),
    }
}

fn read(overrides: &Overrides, registry: &Registry) -> Result<Settings, ConfigErrors> {
    config::environment().and_then(|environment| {
        config::read(overrides, environment, |plugins| check_plugins(registry, plugins))
    })
}

fn check(overrides: Overrides, registry: &Registry, out: &mut Output) -> Result<Outcome, CliError> {
    let (errors, strangers) = match read(&overrides, registry) {
        Ok(settings) => (Vec::new(), settings.strangers),
        Err(errors) => (errors.iter().map(ToString::to_string).collect(), Vec::new()),
    };
    if out.is_json() {
        out.object(&json!({ "ok": errors.is_empty(), "errors": errors, "ignored_variables": strangers }))?;
        return Ok(Outcome::of(errors.is_empty()));
    }
    for name in strangers {
        out.complain(format_args!("{name} is no setting of this version, and is ignored"));
    }
    for error in &errors {
        out.complain(error);
    }
    if errors.is_empty() {
        out.line("the settings can be used")?;
    }
    Ok(Outcome::of(errors.is_empty()))
}

fn schema(registry: &Registry, out: &mut Output) -> Result<Outcome, CliError> {
    let schema = config::schema(registry);
    if out.is_json() {
        out.object(&schema)?;
    } else {
        out.line(format_args!("{schema:#}"))?;
    }
    Ok(Outcome::Complete)
}

fn show(overrides: Overrides, registry: &Registry, out: &mut Output) -> Result<Outcome, CliError> {
    let settings = read(&overrides, registry).map_err(ServeError::from)?.in_force();
    let width = settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in settings {
        if out.is_json() {
            let mut object = json!({
                "key": setting.key, "value": setting.value, "layer": setting.source.layer(),
            });
            if let (Some(name), Some(object)) = (setting.source.name(), object.as_object_mut()) {
                object.insert("name".to_owned(), name.into());
            }
            out.object(&object)?;
        } else {
            let value = if setting.value.is_null() { "none".to_owned() } else { setting.value.to_string() };
            out.line(format_args!("{:<width$}  {value:<16}  {}", setting.key, setting.source))?;
        }
    }
    Ok(Outcome::Complete)
}
