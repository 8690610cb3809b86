//! The JSON Schema of an experiment file, for editors: completion and checks while typing.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::read::ACTORS;
use crate::registry::{Catalogue, KindEntry, Registry};
use crate::shape::Shape;
use crate::threshold::{COUNT_STATISTICS, COUNTS, STATISTICS, TIMES};

/// The JSON Schema (draft 7, which TOML editors read) of an experiment with these kinds.
pub fn json_schema(registry: &Registry) -> Value {
    let catalogue = Catalogue::new(registry);
    let mut definitions = catalogue.definitions().clone();
    let mut choices = Vec::new();
    for kind in registry.kinds() {
        let name = format!("actor-{}", kind.name);
        choices.push(json!({ "$ref": format!("#/definitions/{name}") }));
        definitions.insert(name, actor(kind, &catalogue));
    }
    definitions.insert("actor".into(), json!({ "oneOf": choices }));
    let token = json!({ "pattern": "^[a-z0-9-]{1,32}$" });
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Experiment",
        "description": "One experiment: hosts, nodes with actors, links, thresholds.",
        "type": "object",
        "additionalProperties": false,
        "required": ["experiment"],
        "anyOf": [{ "required": ["nodes"] }, { "required": ["mix"] }],
        "properties": {
            "experiment": catalogue.experiment().schema(),
            "hosts": tables(catalogue.host().schema(), Some(&token)),
            "nodes": tables(&node(&catalogue), Some(&token)),
            "links": links(catalogue.link().schema()),
            "thresholds": thresholds(catalogue.threshold().schema()),
            "verdict": catalogue.verdict().schema(),
            "provision": catalogue.provision().schema(),
            "mix": catalogue.mix().schema(),
        },
    });
    schema["definitions"] = Value::Object(definitions);
    finished(schema)
}

/// The keys of one kind of actor: those of all actors, of all senders if it is one, and its own.
fn actor(kind: &KindEntry, catalogue: &Catalogue) -> Value {
    let own = catalogue.own(kind.name);
    let shapes: Vec<Shape<'_>> = catalogue.common(kind.role).into_iter().chain([own]).collect();
    let mut properties = Map::new();
    for shape in &shapes {
        let own = shape.keys().filter_map(|key| Some((key.to_owned(), shape.property(key)?.schema().clone())));
        properties.extend(own);
    }
    properties.insert("kind".into(), json!({ "const": kind.name, "description": kind.summary }));
    let required: Vec<&str> = shapes.iter().flat_map(|shape| shape.required()).collect();
    json!({
        "title": kind.name,
        "description": kind.summary,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn node(catalogue: &Catalogue) -> Value {
    let mut node = catalogue.node().schema().clone();
    node["properties"][ACTORS] = tables(&json!({ "$ref": "#/definitions/actor" }), None);
    node["required"] = json!([ACTORS]);
    node
}

fn tables(of: &Value, names: Option<&Value>) -> Value {
    let mut schema = json!({ "type": "object", "additionalProperties": of });
    if let Some(names) = names {
        schema["propertyNames"] = names.clone();
    }
    schema
}

fn links(link: &Value) -> Value {
    json!({
        "type": "object",
        "properties": { "default": link },
        "patternProperties": { "^ *[a-z0-9-]+ *(-> *[a-z0-9-]+ *)?$": link },
        "additionalProperties": false,
    })
}

fn thresholds(table: &Value) -> Value {
    let counts: Vec<&str> = COUNTS.iter().map(|(name, _)| *name).collect();
    let text = json!({ "type": "string", "pattern": "^ *[<>]=?.+$", "examples": ["<100ms"] });
    let mut table = table.clone();
    table["properties"]["limit"]["pattern"] = text["pattern"].clone();
    let limit = json!({ "oneOf": [text, table] });
    let times = format!("^({})\\.({})$", TIMES.join("|").replace('-', "[-_]"), STATISTICS.join("|"));
    let counts = format!("^({})\\.({})$", counts.join("|"), COUNT_STATISTICS.join("|"));
    json!({ "type": "object", "patternProperties": { times: limit, counts: limit }, "additionalProperties": false })
}

/// Applies the draft's own rules, such as wrapping a reference that has a description beside it.
fn finished(schema: Value) -> Value {
    let mut schema = schemars::Schema::try_from(schema).expect("an object is a schema");
    let mut generator = SchemaSettings::draft07().into_generator();
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema.to_value()
}
