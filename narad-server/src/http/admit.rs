//! Who gets in: not a browser that another site sends, and with security on nobody without a password.
//!
//! Decided before the body is read, so that a stranger's takes no memory.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, Request, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use hyper::body::Body;

use super::{Access, ApiError, App, METRICS, OPENAPI, body, guard};
use crate::{secret::Secret, security::Caller};

const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"narad\"");
/// Clients leave the padding out or do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The request and who sends it, or the answer that refuses it.
pub(super) async fn check<B: Body<Data = Bytes> + Unpin>(
    app: &App,
    access: Access,
    route: Option<&str>,
    request: Request<B>,
) -> Result<(Request<B>, Caller), Response> {
    // The request is not held across the wait: its body cannot be shared.
    let shown = guard::check(&request, route, access == Access::Loopback)
        .and_then(|()| shown(app, access, route, request.headers()));
    let caller = match shown {
        Ok(shown) => caller(app, shown).await,
        Err(error) => Err(error),
    };
    match caller {
        Ok(caller) => Ok((request, caller)),
        Err(error) => {
            let challenges = error.status == StatusCode::UNAUTHORIZED;
            let mut response = body::refuse(app, request, error).await.into_response();
            if challenges {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
            }
            Err(response)
        }
    }
}

/// The credentials that the request shows; none when it needs none.
fn shown(
    app: &App,
    access: Access,
    route: Option<&str>,
    headers: &HeaderMap,
) -> Result<Option<(String, Secret)>, ApiError> {
    let is_open = match route {
        Some("/healthz" | "/readyz" | OPENAPI) => true,
        Some(METRICS) => app.0.settings.metrics_unauthenticated,
        _ => false,
    };
    if is_open || access != Access::Users {
        return Ok(None);
    }
    match credentials(headers) {
        Some(shown) => Ok(Some(shown)),
        None => Err(unauthorized("credentials are needed: HTTP Basic, a user and its password")),
    }
}

async fn caller(app: &App, shown: Option<(String, Secret)>) -> Result<Caller, ApiError> {
    let Some((name, password)) = shown else { return Ok(Caller::anybody()) };
    match app.broker().authenticate(&name, &password).await? {
        Some(caller) => Ok(caller),
        None => Err(unauthorized("there is no such user, or the password is another one")),
    }
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, message)
}

/// The user and password that the request shows. What is no user's name is nobody's; a password may be any bytes.
fn credentials(headers: &HeaderMap) -> Option<(String, Secret)> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let text = all.next()?.to_str().ok()?;
    if all.next().is_some() {
        return None;
    }
    let (scheme, encoded) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    let (name, password) = (decoded.get(..colon)?, decoded.get(colon + 1..)?);
    Some((String::from_utf8_lossy(name).into_owned(), Secret::from(password.to_vec())))
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        // It is there for every route; without it nobody may do anything.
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| unauthorized("credentials are needed").into_response())
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn of(value: &str) -> Option<(String, Secret)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        credentials(&headers)
    }

    #[test]
    fn credentials_are_a_name_and_all_that_follows_the_first_colon() {
        let basic = |text: &[u8]| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(of(&basic(b"u:p:q")), Some(("u".to_owned(), Secret::from("p:q"))));
        assert_eq!(of(&basic(b"u:")), Some(("u".to_owned(), Secret::from(""))));
        assert_eq!(of(&basic(b"u:\xff")), Some(("u".to_owned(), Secret::from(vec![0xff]))));
        assert_eq!(of("basic   dTpwcA"), Some(("u".to_owned(), Secret::from("pp"))), "without its padding");
        for none in [basic(b"nocolon"), "Bearer dTpw".into(), "Basic".into(), "Basic %%%".into(), "".into()] {
            assert_eq!(of(&none), None, "{none}");
        }
    }
}
