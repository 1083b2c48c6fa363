//! Answers: statuses, contents, headers.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

/// Statuses of errors that any request can be answered with before a route sees it: a body that is cut off, late or too
/// large, a browser of elsewhere, a head that is too large.
pub(super) const ANY: &[u16] = &[400, 403, 408, 413, 431];
/// And where credentials are needed: none or wrong ones, too many wrong ones, too many checked at once, a failure.
pub(super) const WITH_CREDENTIALS: &[u16] = &[401, 429, 500, 503];

/// An answer that is no error.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) says: &'static str,
    pub(super) content: Content,
    /// Headers that it may have, each with what it says.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// What can be done next with what it names.
    pub(super) links: &'static [Link],
}

/// What can be done next: the operation, and its parameters, each with where in the request or the answer it stands.
pub(super) struct Link {
    pub(super) operation: &'static str,
    pub(super) parameters: &'static [(&'static str, &'static str)],
}

/// What an answer holds.
pub(super) enum Content {
    None,
    Json(fn(&mut SchemaGenerator) -> Schema),
    Text,
}

impl Answer {
    pub(super) const fn json(
        status: u16,
        says: &'static str,
        schema: fn(&mut SchemaGenerator) -> Schema,
    ) -> Self {
        Self { status, says, content: Content::Json(schema), headers: &[], links: &[] }
    }

    pub(super) const fn empty(status: u16, says: &'static str) -> Self {
        Self { status, says, content: Content::None, headers: &[], links: &[] }
    }

    pub(super) const fn leads_to(self, links: &'static [Link]) -> Self {
        Self { links, ..self }
    }

    pub(super) fn describe(&self, answers: &mut SchemaGenerator) -> Value {
        let mut described = json!({"description": self.says});
        let headers = self.headers.iter().map(|(name, says)| {
            ((*name).to_owned(), json!({"description": says, "schema": {"type": "string"}}))
        });
        let headers: serde_json::Map<_, _> = headers.collect();
        let content = match self.content {
            Content::None => None,
            Content::Json(schema) => Some(json!({"application/json": {"schema": schema(answers)}})),
            Content::Text => Some(json!({"text/plain": {"schema": {"type": "string"}}})),
        };
        if let Value::Object(described) = &mut described {
            described.extend(content.map(|content| ("content".to_owned(), content)));
            if !headers.is_empty() {
                described.insert("headers".to_owned(), headers.into());
            }
            let links: serde_json::Map<_, _> = self.links.iter().map(Link::describe).collect();
            if !links.is_empty() {
                described.insert("links".to_owned(), links.into());
            }
        }
        described
    }
}

impl Link {
    fn describe(&self) -> (String, Value) {
        let parameters = self.parameters.iter().map(|(name, place)| ((*name).to_owned(), (*place).into()));
        let parameters: serde_json::Map<_, _> = parameters.collect();
        (self.operation.to_owned(), json!({"operationId": self.operation, "parameters": parameters}))
    }
}

/// An error with that status.
pub(super) fn error(status: u16, body: &Schema) -> Value {
    let (says, header) = match status {
        400 => ("The request is malformed, or what it asks for is not possible", None),
        401 => ("No credentials, or wrong ones", Some("WWW-Authenticate")),
        403 => ("Not allowed: no grant, or a browser sends it from another origin", None),
        404 => ("What the path names is not there", None),
        408 => ("The body did not arrive in time", None),
        409 => ("It does not go together with what is there", None),
        410 => ("It is gone", None),
        413 => ("The body is too large", None),
        415 => ("The body is encoded in a way that is not taken", None),
        429 => ("Too many requests of this kind, or wrong passwords", Some("Retry-After")),
        431 => ("The head of the request is too large", None),
        503 => {
            ("Not now: the disk is full, too much waits, or the server starts or stops", Some("Retry-After"))
        }
        _ => ("The server failed", None),
    };
    let mut described =
        json!({"description": says, "content": {"application/json": {"schema": body.as_value()}}});
    if let (Some(name), Value::Object(described)) = (header, &mut described) {
        described.insert("headers".to_owned(), json!({name: {"schema": {"type": "string"}}}));
    }
    described
}
