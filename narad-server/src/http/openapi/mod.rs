//! `/v1/openapi.json`: what the API takes and answers, from the table that the router is built of and from the types
//! that the handlers read and write.
//!
//! A route that is not in the table is not served, and an answer that the document does not have is a defect.

mod answers;
mod parameters;
mod table;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

pub(super) use self::table::{Route, routes};
use self::{
    answers::{Answer, Content, Link},
    parameters::Parameter,
};
use super::{App, error::ErrorObject};

/// What is done with a route by one method.
pub(super) struct Operation {
    /// Lower case, as the document has it.
    method: &'static str,
    id: &'static str,
    summary: &'static str,
    query: &'static [Parameter],
    body: Body,
    /// What it answers when all is well.
    answers: &'static [Answer],
    /// Statuses of errors beside those of [`answers::ANY`] and [`answers::WITH_CREDENTIALS`].
    errors: &'static [u16],
    /// Whether it needs no credentials.
    open: bool,
}

/// What an operation takes as its body.
#[derive(Clone, Copy)]
enum Body {
    None,
    /// A JSON object of that type.
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// The same, or nothing.
    OptionalJson(fn(&mut SchemaGenerator) -> Schema),
    /// Bytes, 1 to that many.
    Bytes(usize),
}

pub(super) async fn document(State(app): State<App>) -> Response {
    let document = app.0.openapi.get_or_init(|| of(routes(&app)).to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

/// The document of all routes.
pub(super) fn everything() -> Value {
    of(table::all())
}

fn of(routes: impl Iterator<Item = &'static Route>) -> Value {
    let settings = || SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut requests =
        settings().with(|settings| settings.inline_subschemas = true).for_deserialize().into_generator();
    let mut answers = settings()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .for_serialize()
        .into_generator();
    let error = answers.subschema_for::<ErrorObject>();
    let mut paths = Map::new();
    for route in routes {
        let mut item = Map::new();
        let parameters = parameters::of_path(route.path);
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), parameters.into());
        }
        for operation in route.operations {
            item.insert(operation.method.to_owned(), operation.describe(&mut requests, &mut answers, &error));
        }
        paths.insert(route.path.to_owned(), item.into());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "narad",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A message log over HTTP: topics, produce, lease-based consume, replay.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"basic": []}],
        "paths": paths,
        "components": {
            "schemas": answers.take_definitions(true),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    })
}

impl Operation {
    fn describe(
        &self,
        requests: &mut SchemaGenerator,
        answers: &mut SchemaGenerator,
        error: &Schema,
    ) -> Value {
        let mut described = Map::new();
        described.insert("operationId".to_owned(), self.id.into());
        described.insert("summary".to_owned(), self.summary.into());
        if !self.query.is_empty() {
            described.insert("parameters".to_owned(), self.query.iter().map(Parameter::describe).collect());
        }
        if self.open {
            described.insert("security".to_owned(), json!([]));
        }
        if let Some(body) = self.body.describe(requests) {
            described.insert("requestBody".to_owned(), body);
        }
        let mut responses = Map::new();
        for answer in self.answers {
            responses.insert(answer.status.to_string(), answer.describe(answers));
        }
        let with_credentials = if self.open { &[] } else { answers::WITH_CREDENTIALS };
        for &status in self.errors.iter().chain(answers::ANY).chain(with_credentials) {
            responses.insert(status.to_string(), answers::error(status, error));
        }
        described.insert("responses".to_owned(), responses.into());
        described.into()
    }
}

impl Body {
    fn describe(self, requests: &mut SchemaGenerator) -> Option<Value> {
        let json = |schema: Schema| json!({"application/json": {"schema": schema}});
        match self {
            Self::None => None,
            Self::Json(schema) => Some(json!({"required": true, "content": json(schema(requests))})),
            Self::OptionalJson(schema) => Some(json!({"required": false, "content": json(schema(requests))})),
            Self::Bytes(most) => {
                let bytes = json!({"schema": {"type": "string", "minLength": 1, "maxLength": most}});
                // Any type is taken; it is not looked at.
                Some(json!({"required": true, "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary", "minLength": 1, "maxLength": most}},
                    "text/plain": bytes,
                    "*/*": {},
                }}))
            }
        }
    }
}

#[cfg(test)]
mod tests;
