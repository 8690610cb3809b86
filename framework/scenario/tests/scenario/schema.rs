//! The JSON Schema knows what the loader knows.

use rehearsal_scenario::json_schema;
use serde_json::Value;

use super::kinds::registry;

#[test]
fn every_kind_has_its_own_and_the_common_keys() {
    let schema = json_schema(&registry());
    let keys = |kind: &str| {
        let actor = &schema["definitions"][format!("actor-{kind}")];
        assert_eq!(actor["properties"]["kind"]["const"], kind);
        assert_eq!(actor["additionalProperties"], false);
        actor["properties"].as_object().expect("properties").keys().cloned().collect::<Vec<_>>()
    };
    assert!(
        ["bytes", "count", "kind", "rate", "to", "requests"].iter().all(|key| keys("sensor").iter().any(|k| k == key))
    );
    assert_eq!(
        keys("receiver"),
        ["analyzer", "answer", "backlog", "count", "kind", "listen", "pools", "token", "workers"]
    );
    assert_eq!(keys("logger"), ["count", "kind"]);
    assert_eq!(schema["definitions"]["actor"]["oneOf"].as_array().map(Vec::len), Some(10));
    assert_eq!(schema["properties"]["experiment"]["additionalProperties"], false);
}

#[test]
fn every_reference_leads_somewhere() {
    let schema = json_schema(&registry());
    let mut seen = 0;
    let mut open = vec![&schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a local reference");
                    assert!(schema.pointer(pointer).is_some(), "{reference}");
                    seen += 1;
                }
                open.extend(object.values());
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    assert!(seen > 20, "{seen} references");
}
