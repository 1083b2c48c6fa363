//! The routes of users.

use reqwest::Method;
use serde::Serialize;

use super::{
    Client, ClientError, Result,
    model::{Grant, User},
};
use crate::secret::Secret;

#[derive(Serialize)]
struct NewUser<'a> {
    username: &'a str,
    password: &'a str,
    grants: &'a [Grant],
}

#[derive(Serialize)]
struct NewPassword<'a> {
    new_password: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_password: Option<&'a str>,
}

impl Client {
    /// Creates a user.
    pub(crate) async fn create_user(&self, name: &str, password: &Secret, grants: &[Grant]) -> Result<User> {
        let new = NewUser { username: name, password: text(password)?, grants };
        self.json(self.request(Method::POST, &["users"])?.json(&new)).await
    }

    /// Every user, by name.
    pub(crate) async fn users(&self) -> Result<Vec<User>> {
        self.json(self.request(Method::GET, &["users"])?).await
    }

    /// Deletes a user.
    pub(crate) async fn delete_user(&self, name: &str) -> Result<()> {
        self.send(self.request(Method::DELETE, &["users", name])?).await.map(drop)
    }

    /// Gives a user these grants in place of all it has.
    pub(crate) async fn set_grants(&self, name: &str, grants: &[Grant]) -> Result<User> {
        let body = serde_json::json!({ "grants": grants });
        self.json(self.request(Method::PUT, &["users", name, "grants"])?.json(&body)).await
    }

    /// Gives a user another password. For one's own, the one that this client sends goes along.
    pub(crate) async fn set_password(&self, name: &str, password: &Secret) -> Result<()> {
        let own = self.credentials.as_ref().filter(|(user, _)| user == name);
        let current_password = own.map(|(_, current)| text(current)).transpose()?;
        let body = NewPassword { new_password: text(password)?, current_password };
        self.send(self.request(Method::PUT, &["users", name, "password"])?.json(&body)).await.map(drop)
    }
}

/// JSON has no place for other bytes.
fn text(password: &Secret) -> Result<&str> {
    password.expose_text().ok_or(ClientError::PasswordBytes)
}
