//! Where passwords come from: a file, standard input, the environment, or somebody who types without being read over the
//! shoulder. Never an argument, which every user of the machine can see.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use clap::Args;
use console::Term;

use super::{error::CliError, lines::input_error, stdin_is_terminal};
use crate::secret::Secret;

/// The longest line that is read as a password.
const MAX_LINE: u64 = 4096;

/// Where a password for somebody comes from.
#[derive(Debug, Args)]
pub(super) struct PasswordSource {
    /// Read the password from the first line of this file; - is standard input
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The same as `--password-file -`
    #[arg(long, hide = true, conflicts_with = "password_file")]
    user_password_stdin: bool,
}

impl PasswordSource {
    /// The password: of the file, of the variable `variable`, or typed, twice.
    pub(super) fn read(&self, variable: &str, whose: &str) -> Result<Secret, CliError> {
        let standard_input = self.user_password_stdin.then(|| Path::new("-"));
        if let Some(path) = self.password_file.as_deref().or(standard_input) {
            return first_line(path);
        }
        if let Some(password) = of_environment(variable)? {
            return Ok(password);
        }
        let password = typed(whose, || format!("--password-file FILE or {variable}"))?;
        if typed(&format!("{whose} again"), String::new)? != password {
            return Err(CliError::Usage("these are two passwords".to_owned()));
        }
        Ok(password)
    }
}

/// The password in the variable `name`, unless that is empty or not set.
pub(super) fn of_environment(name: &str) -> Result<Option<Secret>, CliError> {
    match env::var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(Secret::from(text))),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(CliError::Usage(format!("{name} is not UTF-8"))),
    }
}

/// What somebody types, unseen. Without a terminal, `instead` says what else to give.
pub(super) fn typed(whose: &str, instead: impl FnOnce() -> String) -> Result<Secret, CliError> {
    let term = Term::stderr();
    if !stdin_is_terminal() || !term.is_term() {
        return Err(CliError::Usage(format!("there is no {whose}, and nobody to ask: give {}", instead())));
    }
    let unread = |source| CliError::Input { name: "the terminal".to_owned(), source };
    term.write_str(&format!("{whose}: ")).map_err(unread)?;
    let line = term.read_secure_line().map_err(unread)?;
    if line.is_empty() {
        return Err(CliError::Usage(format!("no {whose} was typed")));
    }
    Ok(Secret::from(line))
}

fn first_line(path: &Path) -> Result<Secret, CliError> {
    let from_stdin = path == Path::new("-");
    let input: Box<dyn Read> = if from_stdin {
        Box::new(io::stdin())
    } else {
        Box::new(fs::File::open(path).map_err(|source| input_error(path, source))?)
    };
    let mut line = String::new();
    let read = BufReader::new(input.take(MAX_LINE)).read_line(&mut line);
    read.map_err(|source| input_error(path, source))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        let name = if from_stdin { "standard input".to_owned() } else { path.display().to_string() };
        return Err(CliError::Usage(format!("the first line of {name} is empty: there is no password")));
    }
    Ok(Secret::from(password))
}
