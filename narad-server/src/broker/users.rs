//! Users: who asks is found out, and users are created, listed, changed and deleted by those who may.

use std::sync::Arc;

use super::{Broker, BrokerError, to_the_end};
use crate::{
    meta::{Action, Grant, User, UserChange, UserName},
    secret::{MAX_PASSWORD_BYTES, Secret},
    security::{Caller, check_grants, generate_password},
};

/// The user that the first start makes.
const ROOT: &str = "admin";

/// A user to be created.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Its name: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub name: String,
    /// 1 to 72 bytes.
    pub password: Secret,
    /// What it may do.
    pub grants: Vec<Grant>,
}

impl Broker {
    /// The user `name`, if that is its password: see [`Authenticator`](crate::security::Authenticator).
    ///
    /// # Errors
    /// `Throttled`, `Overloaded`; a failure of the metastore.
    pub async fn authenticate(&self, name: &str, password: &Secret) -> Result<Option<Caller>, BrokerError> {
        Ok(self.0.authenticator.verify(name, password).await?.map(Caller::user))
    }

    /// How many passwords were hashed since the start.
    pub fn password_hashes(&self) -> u64 {
        self.0.authenticator.hashes()
    }

    /// Makes the root user unless there is one, with `password` or one that it makes up: that is answered, once, when the
    /// user is durable.
    ///
    /// # Errors
    /// `Invalid` for a password that nobody may have; a failure of the metastore.
    pub async fn seed_root(&self, password: Option<Secret>) -> Result<Option<Secret>, BrokerError> {
        let meta = self.0.catalog.meta();
        let users = meta.users().await?;
        if users.iter().any(|user| user.root) {
            tracing::info!(users = users.len(), "security is on");
            return Ok(None);
        }
        let generated = password.is_none().then(generate_password);
        let Some(password) = password.or_else(|| generated.clone()) else { return Ok(None) };
        check_password("NARAD_ADMIN_PASSWORD", &password)?;
        let mut root = self.record(user_name(ROOT)?, password).await?;
        root.root = true;
        meta.create_user(root).await?;
        tracing::info!(user = ROOT, users = users.len() + 1, "security is on; the first user was made");
        Ok(generated)
    }

    /// Creates a user.
    ///
    /// # Errors
    /// `Forbidden` unless `caller` is an admin, and root when `admin` is among the grants; `Invalid`; `UserExists`.
    pub async fn create_user(&self, caller: &Caller, new: NewUser) -> Result<User, BrokerError> {
        admins_only(caller)?;
        let name = user_name(&new.name)?;
        check_password("password", &new.password)?;
        may_give(caller, &new.grants)?;
        if new.name == ROOT {
            // Taken, also while security is off and nobody has made it yet.
            return Err(BrokerError::UserExists(new.name));
        }
        let mut user = self.record(name, new.password).await?;
        user.grants = new.grants;
        let (broker, by) = (self.clone(), caller.clone());
        to_the_end(async move {
            let user = broker.0.catalog.meta().create_user(user).await?;
            tracing::info!(user = %user.name, by = by_whom(&by), "user created");
            Ok(user)
        })
        .await
    }

    /// Every user, in name order.
    ///
    /// # Errors
    /// `Forbidden` unless `caller` is an admin.
    pub async fn users(&self, caller: &Caller) -> Result<Vec<User>, BrokerError> {
        admins_only(caller)?;
        Ok(self.0.catalog.meta().users().await?)
    }

    /// The user `name`.
    ///
    /// # Errors
    /// `Forbidden` unless `caller` is an admin; `NoUser`.
    pub async fn user(&self, caller: &Caller, name: &str) -> Result<User, BrokerError> {
        admins_only(caller)?;
        self.existing(name).await
    }

    /// Gives a user these grants in place of those it has. They count from its next request on.
    ///
    /// # Errors
    /// `Forbidden` unless `caller` is an admin; for its own grants and those of root; for `admin` unless it is root.
    pub async fn set_grants(
        &self,
        caller: &Caller,
        name: &str,
        grants: Vec<Grant>,
    ) -> Result<User, BrokerError> {
        admins_only(caller)?;
        if caller.is(name) {
            return Err(forbidden("nobody changes their own grants"));
        }
        may_give(caller, &grants)?;
        if self.existing(name).await?.root {
            return Err(forbidden("root needs no grants"));
        }
        let (broker, by, name) = (self.clone(), caller.clone(), name.to_owned());
        to_the_end(async move {
            let change =
                UserChange { grants: Some(grants), updated_at_ms: broker.now(), ..UserChange::default() };
            let user = broker.0.catalog.meta().update_user(&name, change).await?;
            tracing::info!(user = %user.name, by = by_whom(&by), "grants changed");
            Ok(user)
        })
        .await
    }

    /// Gives a user another password; the one before counts from its next request on no more. Whoever is no admin needs to
    /// show it again, and changes no other's.
    ///
    /// # Errors
    /// `Forbidden` for another user's unless `caller` is an admin, for root's unless it is root, and for a current
    /// password that is wrong or needed; `Throttled`; `Invalid`; `NoUser`; `UserChanged`.
    pub async fn set_password(
        &self,
        caller: &Caller,
        name: &str,
        new: Secret,
        current: Option<Secret>,
    ) -> Result<(), BrokerError> {
        if !caller.is(name) {
            admins_only(caller)?;
        }
        check_password("new_password", &new)?;
        let user = self.existing(name).await?;
        if user.root && !caller.is_root() {
            return Err(forbidden("only root changes its password"));
        }
        if current.is_none() && !caller.is_admin() {
            return Err(forbidden("current_password: needed to change one's own password"));
        }
        let if_password = current.is_some().then(|| user.password.clone());
        if let Some(current) = current
            && self.authenticate(name, &current).await?.is_none()
        {
            return Err(forbidden("current_password: it is another one"));
        }
        let password = Some(self.0.authenticator.hash(new.clone()).await?);
        let (broker, by, name) = (self.clone(), caller.clone(), name.to_owned());
        to_the_end(async move {
            let change = UserChange { password, if_password, updated_at_ms: broker.now(), grants: None };
            let user = broker.0.catalog.meta().update_user(&name, change).await?;
            broker.0.authenticator.changed(&user, &new);
            tracing::info!(user = %user.name, by = by_whom(&by), "password changed");
            Ok(())
        })
        .await
    }

    /// Deletes a user. Its topics stay, without an owner.
    ///
    /// # Errors
    /// `Forbidden` unless `caller` is an admin, for root and for oneself; `NoUser`.
    pub async fn delete_user(&self, caller: &Caller, name: &str) -> Result<(), BrokerError> {
        admins_only(caller)?;
        if caller.is(name) {
            return Err(forbidden("nobody deletes themselves"));
        }
        if self.existing(name).await?.root {
            return Err(forbidden("root cannot be deleted"));
        }
        let (broker, by, name) = (self.clone(), caller.clone(), name.to_owned());
        to_the_end(async move {
            broker.0.catalog.meta().delete_user(&name).await?;
            tracing::info!(user = %name, by = by_whom(&by), "user deleted");
            Ok(())
        })
        .await
    }

    async fn existing(&self, name: &str) -> Result<User, BrokerError> {
        user_name(name)?;
        let found = self.0.catalog.meta().user(name).await?;
        found.ok_or_else(|| BrokerError::NoUser(name.to_owned()))
    }

    async fn record(&self, name: UserName, password: Secret) -> Result<User, BrokerError> {
        Ok(User::new(name, self.0.authenticator.hash(password).await?, self.now()))
    }

    fn now(&self) -> i64 {
        self.0.runtime.clock().unix_ms()
    }
}

fn forbidden(reason: impl Into<Arc<str>>) -> BrokerError {
    BrokerError::Forbidden(reason.into())
}

/// For what only an admin may.
pub(super) fn admins_only(caller: &Caller) -> Result<(), BrokerError> {
    if caller.is_admin() { Ok(()) } else { Err(forbidden("this needs the grant admin")) }
}

/// Whether the grants are well formed, and `caller` may give them.
fn may_give(caller: &Caller, grants: &[Grant]) -> Result<(), BrokerError> {
    check_grants(grants).map_err(|error| BrokerError::invalid("grants", error.to_string()))?;
    if !caller.is_root() && grants.iter().any(|grant| grant.action == Action::Admin) {
        return Err(forbidden("only root grants admin"));
    }
    Ok(())
}

fn user_name(text: &str) -> Result<UserName, BrokerError> {
    UserName::new(text).map_err(|error| BrokerError::invalid("username", error.to_string()))
}

fn check_password(name: &'static str, password: &Secret) -> Result<(), BrokerError> {
    let bytes = password.expose().len();
    if (1..=MAX_PASSWORD_BYTES).contains(&bytes) {
        return Ok(());
    }
    Err(BrokerError::invalid(name, format!("1 to {MAX_PASSWORD_BYTES} bytes, not {bytes}")))
}

fn by_whom(caller: &Caller) -> &str {
    caller.name().map_or("anybody", |name| name)
}
