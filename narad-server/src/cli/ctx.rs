//! `narad ctx`: keep, list, select and forget the brokers that one talks to.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    client::{Client, DEFAULT_SERVER},
    contexts::{Context, Contexts},
    error::{CliError, Outcome},
    output::{Output, table},
    password::PasswordSource,
    target::{PASSWORD_VARIABLE, Target},
};

/// What is done with contexts.
#[derive(Debug, Subcommand)]
pub(super) enum CtxCommand {
    /// Keep a broker under a name: --server says where it is, --user who talks to it
    #[command(
        after_help = "The first context is selected at once. The password is read from --password-file, from \
        NARAD_PASS, or typed, and kept in $XDG_CONFIG_HOME/narad/contexts.json or ~/.narad/contexts.json, which only \
        you can read."
    )]
    Add(AddArgs),
    /// List the contexts; the selected one is marked
    Ls,
    /// Use a context from now on whenever neither --server nor --context is given
    Select {
        /// The context
        name: String,
    },
    /// Forget a context
    Rm {
        /// The context
        name: String,
    },
}

/// A context to be kept; one of the name is replaced.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    password: PasswordSource,
    /// Keep no password: it is asked for, or in NARAD_PASS, each time
    #[arg(long, conflicts_with = "password_file")]
    no_password: bool,
}

/// Carries the command out.
pub(super) fn run(command: CtxCommand, target: &Target, out: &mut Output) -> Result<Outcome, CliError> {
    let mut contexts = Contexts::load()?;
    match command {
        CtxCommand::Add(args) => {
            let context = context(&args, target)?;
            let shown = context.server.clone();
            let is_replaced = contexts.contexts.insert(args.name.clone(), context).is_some();
            let selected = contexts.selected.get_or_insert_with(|| args.name.clone());
            let is_selected = *selected == args.name;
            contexts.save()?;
            let told = json!({ "context": args.name, "server": shown, "selected": is_selected,
                "replaced": is_replaced });
            let done_what = if is_replaced { "replaced" } else { "kept" };
            let name = &args.name;
            let use_it = if is_selected {
                "selected".to_owned()
            } else {
                format!("not selected: `narad ctx select {name}` does")
            };
            done(out, &told, &format!("{done_what} {name}: {shown} ({use_it})"))?;
        }
        CtxCommand::Ls => list(&contexts, out)?,
        CtxCommand::Select { name } => {
            contexts.get(&name)?;
            contexts.selected = Some(name.clone());
            contexts.save()?;
            done(out, &json!({ "context": name, "selected": true }), &format!("selected {name}"))?;
        }
        CtxCommand::Rm { name } => {
            contexts.get(&name)?;
            contexts.contexts.remove(&name);
            let was_selected = contexts.selected.take_if(|selected| *selected == name).is_some();
            contexts.save()?;
            let from_now = if was_selected {
                format!("; none is selected now: without --server or --context, {DEFAULT_SERVER} is asked")
            } else {
                String::new()
            };
            let told = json!({ "context": name, "removed": true, "was_selected": was_selected });
            done(out, &told, &format!("forgot {name}{from_now}"))?;
        }
    }
    Ok(Outcome::Complete)
}

fn context(args: &AddArgs, target: &Target) -> Result<Context, CliError> {
    let server = target.server.clone().ok_or_else(|| CliError::Usage("give --server URL".to_owned()))?;
    // Found out now and not at the first use.
    Client::new(&server)?;
    let user = target.acting_user.clone().filter(|user| !user.is_empty());
    let password = match &user {
        Some(user) if !args.no_password => {
            let password = args.password.read(PASSWORD_VARIABLE, &format!("password of {user}"))?;
            password.expose_text().map(str::to_owned)
        }
        _ => None,
    };
    Ok(Context { server, user, password })
}

fn done(out: &mut Output, told: &serde_json::Value, text: &str) -> Result<(), CliError> {
    let told = if out.is_json() { out.object(told) } else { out.line(text) };
    Ok(told?)
}

fn list(contexts: &Contexts, out: &mut Output) -> Result<(), CliError> {
    let is_selected = |name: &String| contexts.selected.as_ref() == Some(name);
    if out.is_json() {
        for (name, context) in &contexts.contexts {
            let told = json!({ "context": name, "server": context.server, "user": context.user,
                "selected": is_selected(name) });
            out.object(&told)?;
        }
        return Ok(());
    }
    if contexts.contexts.is_empty() {
        out.remark("no contexts yet; `narad --server URL --user NAME ctx add CONTEXT` keeps one");
        return Ok(());
    }
    let rows: Vec<[String; 4]> = contexts
        .contexts
        .iter()
        .map(|(name, context)| {
            let mark = if is_selected(name) { "*" } else { "" };
            let user = context.user.clone().unwrap_or_else(|| "-".to_owned());
            [mark.to_owned(), name.clone(), context.server.clone(), user]
        })
        .collect();
    Ok(out.line(table(["", "CONTEXT", "SERVER", "USER"], [false; 4], &rows))?)
}
