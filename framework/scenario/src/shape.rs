//! A table's shape, read from its JSON Schema: which keys it has, which are required, what their values may be.

use serde_json::{Map, Value};

/// A schema together with the definitions it refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    schema: &'a Value,
    definitions: &'a Map<String, Value>,
}

/// Bounds of a number; each end may be open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) min: Option<f64>,
    pub(crate) above: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl<'a> Shape<'a> {
    pub(crate) fn new(schema: &'a Value, definitions: &'a Map<String, Value>) -> Self {
        Shape { schema, definitions }
    }

    /// The schema itself.
    pub(crate) fn schema(self) -> &'a Value {
        self.schema
    }

    /// Its keys, in alphabetical order.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'a str> {
        self.object().into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// The shape of one key's value.
    pub(crate) fn property(self, key: &str) -> Option<Shape<'a>> {
        self.object()?.get(key).map(|schema| Shape { schema, ..self })
    }

    /// The keys that must be there.
    pub(crate) fn required(self) -> impl Iterator<Item = &'a str> {
        let list = self.resolved().get("required").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether it is a table with known keys.
    pub(crate) fn is_table(self) -> bool {
        self.object().is_some()
    }

    /// The words that may stand there, if they are a closed set.
    pub(crate) fn choices(self) -> Option<Vec<&'a str>> {
        let schema = self.resolved();
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words.iter().map(Value::as_str).collect();
        }
        let variants = schema.get("oneOf")?.as_array()?;
        let words = |variant: &'a Value| match variant.get("enum").and_then(Value::as_array) {
            Some(words) => words.iter().map(Value::as_str).collect::<Option<Vec<_>>>(),
            None => Some(vec![variant.get("const")?.as_str()?]),
        };
        let lists: Option<Vec<Vec<&str>>> = variants.iter().map(words).collect();
        lists.map(|lists| lists.concat())
    }

    /// The bounds of a number.
    pub(crate) fn bounds(self) -> Bounds {
        let schema = self.resolved();
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        Bounds { min: number("minimum"), above: number("exclusiveMinimum"), max: number("maximum") }
    }

    /// The name of the definition it refers to, such as `Size`.
    pub(crate) fn definition(self) -> Option<&'a str> {
        let reference = present(self.schema).get("$ref").or_else(|| self.wrapped()?.get("$ref"))?;
        reference.as_str()?.rsplit('/').next()
    }

    fn object(self) -> Option<&'a Map<String, Value>> {
        let schema = self.resolved();
        let object = schema.get("type").and_then(Value::as_str) == Some("object");
        if !object || schema.get("additionalProperties").is_some_and(Value::is_object) {
            return None;
        }
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        Some(schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE))
    }

    /// The one schema inside `allOf`, by which draft 7 sets a description beside a reference.
    fn wrapped(self) -> Option<&'a Value> {
        present(self.schema).get("allOf")?.as_array()?.first()
    }

    /// The schema behind references, wrappers and `null` alternatives.
    fn resolved(self) -> &'a Value {
        match self.definition().and_then(|name| self.definitions.get(name)) {
            Some(schema) => Shape { schema, ..self }.resolved(),
            None => present(self.schema),
        }
    }
}

/// Of a choice between something and `null`, the something.
fn present(schema: &Value) -> &Value {
    let alternatives = schema.get("anyOf").and_then(Value::as_array);
    let is_null = |s: &&Value| s.get("type").and_then(Value::as_str) == Some("null");
    alternatives.and_then(|list| list.iter().find(|s| !is_null(s))).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_wrappers_and_options_are_seen_through() {
        let definitions = json!({
            "Late": { "oneOf": [{ "const": "queue" }, { "enum": ["skip", "burst"] }] },
            "Limit": { "type": "object", "properties": { "deadline": { "$ref": "#/definitions/Duration" } }, "required": ["deadline"] },
            "Duration": { "type": "string" },
        });
        let definitions = definitions.as_object().expect("an object");
        let schema = json!({ "type": "object", "properties": {
            "late": { "allOf": [{ "$ref": "#/definitions/Late" }], "description": "x" },
            "limit": { "anyOf": [{ "$ref": "#/definitions/Limit" }, { "type": "null" }] },
            "count": { "type": "integer", "minimum": 1.0, "maximum": 9 },
        }});
        let shape = Shape::new(&schema, definitions);
        assert_eq!(shape.keys().collect::<Vec<_>>(), ["count", "late", "limit"]);
        assert_eq!(shape.property("late").and_then(Shape::choices), Some(vec!["queue", "skip", "burst"]));
        let limit = shape.property("limit").expect("is there");
        assert!(limit.is_table());
        assert_eq!(limit.required().collect::<Vec<_>>(), ["deadline"]);
        assert_eq!(limit.property("deadline").and_then(Shape::definition), Some("Duration"));
        let bounds = shape.property("count").expect("is there").bounds();
        assert_eq!(bounds, Bounds { min: Some(1.0), above: None, max: Some(9.0) });
    }
}
