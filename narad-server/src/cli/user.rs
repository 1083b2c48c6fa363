//! `narad user`: create, list, delete; grants and passwords.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    client::{
        Client,
        model::{Grant, User},
    },
    error::{CliError, Outcome},
    output::{Output, table},
    password::PasswordSource,
};

/// The variable that holds the password of the user that is created or changed.
const NEW_PASSWORD_VARIABLE: &str = "NARAD_NEW_PASSWORD";

/// What is done with users.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Create a user; its password is in --password-file or NARAD_NEW_PASSWORD, or typed
    Add(AddArgs),
    /// List the users by name
    Ls,
    /// Delete a user; its topics stay, without an owner
    Rm {
        /// The user
        name: String,
    },
    /// Give a user these grants in place of all it has
    Grant(GrantArgs),
    /// Give a user another password, in --password-file or NARAD_NEW_PASSWORD, or typed
    Passwd(PasswdArgs),
}

/// A user to be created.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Its name: 1 to 64 of A-Z a-z 0-9 . _ -
    name: String,
    /// What it may do: ACTION:PATTERN,PATTERN with the action produce, consume or create and topics or prefixes that end
    /// in *; or admin
    #[arg(long = "grant", value_name = "GRANT", value_parser = grant)]
    grants: Vec<Grant>,
    #[command(flatten)]
    password: PasswordSource,
}

/// A user's new grants.
#[derive(Debug, Args)]
pub(super) struct GrantArgs {
    /// The user
    name: String,
    /// As for `user add`
    #[arg(long = "grant", value_name = "GRANT", value_parser = grant, required_unless_present = "none")]
    grants: Vec<Grant>,
    /// Take all grants away
    #[arg(long, conflicts_with = "grants")]
    none: bool,
}

/// A user's new password.
#[derive(Debug, Args)]
pub(super) struct PasswdArgs {
    /// The user
    name: String,
    #[command(flatten)]
    password: PasswordSource,
}

/// Carries the command out.
pub(super) async fn run(
    command: UserCommand,
    client: &Client,
    out: &mut Output,
) -> Result<Outcome, CliError> {
    match command {
        UserCommand::Add(args) => {
            let password =
                args.password.read(NEW_PASSWORD_VARIABLE, &format!("new password of {}", args.name))?;
            show(&client.create_user(&args.name, &password, &args.grants).await?, "created", out)?;
        }
        UserCommand::Ls => list(&client.users().await?, out)?,
        UserCommand::Rm { name } => {
            client.delete_user(&name).await?;
            told(&name, "deleted", out)?;
        }
        UserCommand::Grant(args) => {
            show(&client.set_grants(&args.name, &args.grants).await?, "changed", out)?;
        }
        UserCommand::Passwd(args) => {
            let password =
                args.password.read(NEW_PASSWORD_VARIABLE, &format!("new password of {}", args.name))?;
            client.set_password(&args.name, &password).await?;
            told(&args.name, "changed", out)?;
        }
    }
    Ok(Outcome::Complete)
}

fn told(name: &str, done: &str, out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(out.object(&json!({ "username": name, done: true }))?);
    }
    Ok(out.line(format_args!("{done} {name}"))?)
}

fn show(user: &User, done: &str, out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(out.object(user)?);
    }
    Ok(out.line(format_args!("{done} {}: {}", user.username, grants_text(user)))?)
}

fn list(users: &[User], out: &mut Output) -> Result<(), CliError> {
    if out.is_json() {
        return Ok(users.iter().try_for_each(|user| out.object(user))?);
    }
    let rows: Vec<[String; 2]> =
        users.iter().map(|user| [user.username.clone(), grants_text(user)]).collect();
    Ok(out.line(table(["USER", "GRANTS"], [false, false], &rows))?)
}

fn grants_text(user: &User) -> String {
    if user.root {
        return "root".to_owned();
    }
    let texts: Vec<String> = user
        .grants
        .iter()
        .map(|grant| match grant.patterns.is_empty() {
            true => grant.action.clone(),
            false => format!("{}:{}", grant.action, grant.patterns.join(",")),
        })
        .collect();
    if texts.is_empty() { "no grants".to_owned() } else { texts.join(" ") }
}

/// `ACTION:PATTERN,PATTERN`, or `admin`.
fn grant(text: &str) -> Result<Grant, String> {
    let (action, patterns) = text.split_once(':').unwrap_or((text, ""));
    let patterns: Vec<String> =
        patterns.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
    match (action, patterns.is_empty()) {
        ("admin", true) | ("produce" | "consume" | "create", false) => {
            Ok(Grant { action: action.to_owned(), patterns })
        }
        _ => Err("give produce:PATTERN, consume:PATTERN or create:PATTERN, or admin".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_an_action_and_its_topics() {
        let parsed = grant("produce:orders,eu-*").unwrap();
        assert_eq!(
            (parsed.action.as_str(), parsed.patterns),
            ("produce", vec!["orders".into(), "eu-*".into()])
        );
        assert!(grant("admin").unwrap().patterns.is_empty());
        for bad in ["", "produce", "produce:", "admin:*", "delete:x", ":x"] {
            assert!(grant(bad).is_err(), "{bad}");
        }
    }
}
