//! Parameters of paths and queries.

use serde_json::{Value, json};

use super::super::PATTERN_OF_NAMES;

/// A parameter of the query; none must be given unless it says so.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) kind: Kind,
}

/// What a parameter holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number, from the first to the second.
    Number(u64, u64),
    /// A duration, such as `1m30s`.
    Duration,
    /// One of these.
    OneOf(&'static [&'static str]),
    Text,
}

impl Parameter {
    pub(super) const fn new(name: &'static str, kind: Kind, says: &'static str) -> Self {
        Self { name, says, kind }
    }

    pub(super) fn describe(&self) -> Value {
        let schema = match self.kind {
            Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Duration => {
                let pattern = "^(0|([0-9]{1,6}(\\.[0-9]{1,3})?(ns|us|ms|s|m|h|d)){1,3})$";
                json!({"type": "string", "pattern": pattern})
            }
            Kind::OneOf(values) => json!({"type": "string", "enum": values}),
            Kind::Text => json!({"type": "string"}),
        };
        json!({"name": self.name, "in": "query", "required": false, "description": self.says, "schema": schema})
    }
}

/// The parameters that `path` has in braces.
pub(super) fn of_path(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let described = names.map(|name| {
        let says = match name {
            "topic" => "The topic's name",
            "child" => "The child's name",
            "user" => "The user's name",
            _ => "The directory's name below topics/",
        };
        let schema = if name == "directory" {
            json!({"type": "string", "minLength": 1})
        } else {
            json!({"type": "string", "pattern": PATTERN_OF_NAMES, "not": {"enum": [".", ".."]}})
        };
        json!({"name": name, "in": "path", "required": true, "description": says, "schema": schema})
    });
    described.collect()
}
