//! `/v1/users`: create, list, look at, change, delete. Who may is the broker's to say.

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiError, App, access, params::json_body};
use crate::{
    broker::NewUser,
    meta::{Grant, User},
    secret::Secret,
    security::Caller,
};

/// A user, as clients see it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(super) struct UserObject<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    root: bool,
    #[serde(skip_serializing_if = "<[Grant]>::is_empty")]
    grants: &'a [Grant],
    created_at_ms: i64,
    updated_at_ms: i64,
}

impl<'a> UserObject<'a> {
    fn new(user: &'a User) -> Self {
        Self {
            username: &user.name,
            root: user.root,
            grants: &user.grants,
            created_at_ms: user.created_at_ms,
            updated_at_ms: user.updated_at_ms,
        }
    }
}

/// The user that the path names, decoded.
pub(super) struct UserPath(String);

impl<S: Send + Sync> FromRequestParts<S> for UserPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Ok(Path(name)) = Path::<String>::from_request_parts(parts, state).await else {
            return Err(ApiError::bad_request("the path does not name a user"));
        };
        Ok(Self(name))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateBody {
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"), extend("not" = {"enum": [".", ".."]}))]
    username: String,
    /// 1 to 72 bytes.
    #[schemars(with = "String", length(min = 1, max = 72))]
    password: Secret,
    grants: Option<Vec<Grant>>,
}

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    access::admin(&caller)?;
    let body: CreateBody = json_body(&body)?;
    let new =
        NewUser { name: body.username, password: body.password, grants: body.grants.unwrap_or_default() };
    let user = app.broker().create_user(&caller, new).await?;
    Ok((StatusCode::CREATED, Json(UserObject::new(&user))).into_response())
}

pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    let users = app.broker().users(&caller).await?;
    Ok(Json(users.iter().map(UserObject::new).collect::<Vec<_>>()).into_response())
}

pub(super) async fn describe(
    State(app): State<App>,
    caller: Caller,
    UserPath(name): UserPath,
) -> Result<Response, ApiError> {
    Ok(Json(UserObject::new(&app.broker().user(&caller, &name).await?)).into_response())
}

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    UserPath(name): UserPath,
) -> Result<StatusCode, ApiError> {
    app.broker().delete_user(&caller, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantsBody {
    grants: Vec<Grant>,
}

pub(super) async fn set_grants(
    State(app): State<App>,
    caller: Caller,
    UserPath(name): UserPath,
    body: Bytes,
) -> Result<Response, ApiError> {
    access::admin(&caller)?;
    let body: GrantsBody = json_body(&body)?;
    let user = app.broker().set_grants(&caller, &name, body.grants).await?;
    Ok(Json(UserObject::new(&user)).into_response())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PasswordBody {
    /// 1 to 72 bytes.
    #[schemars(with = "String", length(min = 1, max = 72))]
    new_password: Secret,
    #[schemars(with = "Option<String>")]
    #[serde(default)]
    current_password: Option<Secret>,
}

pub(super) async fn set_password(
    State(app): State<App>,
    caller: Caller,
    UserPath(name): UserPath,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let body: PasswordBody = json_body(&body)?;
    app.broker().set_password(&caller, &name, body.new_password, body.current_password).await?;
    Ok(StatusCode::NO_CONTENT)
}
