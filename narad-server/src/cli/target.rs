//! Which broker a command talks to, and as whom: the flags, then the environment, then the context.

use super::{
    client::{Client, DEFAULT_SERVER},
    contexts::{Context, Contexts},
    error::CliError,
    password,
};
use crate::secret::Secret;

/// The variable that holds the password of the user that talks.
pub(super) const PASSWORD_VARIABLE: &str = "NARAD_PASS";

/// What the flags and their variables say; what they leave open, a context says.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// The broker to talk to: HOST:PORT or http://HOST:PORT; without a context it is http://127.0.0.1:7942
    #[arg(short, long, global = true, env = "NARAD_ADDR", hide_env_values = true)]
    #[arg(value_name = "URL", help_heading = super::EVERYWHERE)]
    pub(super) server: Option<String>,

    /// The context to use, see `narad ctx`; without one, the selected one unless --server is given
    #[arg(long, alias = "ctx", global = true, env = "NARAD_CONTEXT", hide_env_values = true)]
    #[arg(value_name = "NAME", help_heading = super::EVERYWHERE)]
    pub(super) context: Option<String>,

    /// The user to be; its password is in NARAD_PASS, in the context, or asked for
    #[arg(short = 'u', long = "user", global = true, env = "NARAD_USER", hide_env_values = true)]
    #[arg(value_name = "NAME", help_heading = super::EVERYWHERE)]
    pub(super) acting_user: Option<String>,
}

impl Target {
    /// A client of the broker, with the credentials that it needs. Asks for a password if there is a user without one.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        let context = self.context()?;
        let of_context = context.as_ref().map(|context| context.server.as_str());
        let client = Client::new(self.server.as_deref().or(of_context).unwrap_or(DEFAULT_SERVER))?;
        match self.credentials(context.as_ref())? {
            Some((user, password)) => Ok(client.with_credentials(user, password)),
            None => Ok(client),
        }
    }

    /// A server that somebody names gets no password of a context that nobody has named.
    fn context(&self) -> Result<Option<Context>, CliError> {
        match (given(&self.context), &self.server) {
            (Some(name), _) => Ok(Some(Contexts::load()?.get(name)?.clone())),
            (None, Some(_)) => Ok(None),
            (None, None) => {
                let contexts = Contexts::load()?;
                contexts.selected.as_deref().map(|name| contexts.get(name).cloned()).transpose()
            }
        }
    }

    fn credentials(&self, context: Option<&Context>) -> Result<Option<(String, Secret)>, CliError> {
        let of_context = context.and_then(|context| context.user.as_deref());
        let Some(user) = given(&self.acting_user).or(of_context) else { return Ok(None) };
        let kept =
            context.filter(|_| of_context == Some(user)).and_then(|context| context.password.as_deref());
        let password = match (password::of_environment(PASSWORD_VARIABLE)?, kept) {
            (Some(password), _) => password,
            (None, Some(kept)) => Secret::from(kept),
            (None, None) => password::typed(&format!("password of {user}"), || PASSWORD_VARIABLE.to_owned())?,
        };
        Ok(Some((user.to_owned(), password)))
    }
}

/// A variable that is set to nothing says nothing.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}
