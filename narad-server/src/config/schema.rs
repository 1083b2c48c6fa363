//! The JSON Schema of a configuration file, what the plugins take included.

use narad_core::plugin::{PluginKind, Registry};
use serde_json::{Map, Value, json};

use super::keys;

/// Keys that the broker fills in for each topic, so that a file need not.
const FILLED_IN: [(&str, &str); 1] = [("age", "retention_ms")];

/// The kinds of plugin that a file names, each under its key of `storage`.
const KINDS: [(PluginKind, &str); 4] = [
    (PluginKind::Codec, "codec"),
    (PluginKind::Retention, "retention"),
    (PluginKind::Sync, "sync"),
    (PluginKind::Wake, "wake"),
];

/// The schema of the whole file, with every plugin of `registry`.
pub fn schema(registry: &Registry) -> Value {
    let mut root = keys::tree_schema().to_value();
    for (kind, key) in KINDS {
        let Some(setting) = root.pointer_mut(&format!("/properties/storage/properties/{key}")) else {
            continue;
        };
        let plugins = registry.plugins().filter(|plugin| plugin.kind == kind);
        let forms: Vec<Value> =
            plugins.flat_map(|plugin| forms(key, plugin.name, plugin.schema.as_value())).collect();
        if let Value::Object(setting) = setting {
            setting.insert("anyOf".to_owned(), Value::Array(forms));
        } else {
            *setting = json!({ "anyOf": forms });
        }
    }
    if let Value::Object(root) = &mut root {
        root.insert("title".to_owned(), Value::from("narad.toml or narad.json"));
    }
    root
}

/// How a file can name a plugin: an object with its keys, or its name alone when none of them must be given.
fn forms(key: &str, name: &str, schema: &Value) -> Vec<Value> {
    let mut object: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
    object.remove("$schema");
    let mut required: Vec<Value> =
        object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    required.retain(|field| !FILLED_IN.iter().any(|(plugin, filled)| *plugin == name && field == filled));
    let by_name_alone = required.is_empty();
    required.insert(0, Value::from("name"));
    object.insert("required".to_owned(), Value::Array(required));
    object.insert("type".to_owned(), Value::from("object"));
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert("name".to_owned(), json!({ "const": name }));
    }
    if object.contains_key("$defs") {
        // Its references count from itself.
        object.insert("$id".to_owned(), Value::from(format!("urn:narad:{key}:{name}")));
    }
    let mut forms = vec![Value::Object(object)];
    if by_name_alone {
        forms.insert(0, json!({ "const": name }));
    }
    forms
}
