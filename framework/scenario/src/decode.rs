//! Decodes a checked table, and goes on after an error so that one reading tells of every bad value.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::error::{Problem, Problems};

/// Where the values of a table's keys stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    table: Range<usize>,
    values: BTreeMap<String, Range<usize>>,
}

impl Keys {
    pub(crate) fn of(table: &DeTable<'_>, span: Range<usize>) -> Self {
        let values = table.iter().map(|(key, value)| (key.get_ref().to_string(), value.span())).collect();
        Keys { table: span, values }
    }

    /// Where a key's value stands, or the table if the key was left out.
    pub(crate) fn at(&self, key: &str) -> &Range<usize> {
        self.values.get(key).unwrap_or(&self.table)
    }

    /// Whether the key was written.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }
}

/// Decodes `table` without the keys in `bad`. `None` if anything was bad.
pub(crate) fn decode<T: DeserializeOwned>(
    table: &DeTable<'_>,
    span: &Range<usize>,
    bad: &BTreeSet<String>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    decode_with(table, span, bad, problems, |value| T::deserialize(ValueDeserializer::from(value)))
}

/// As [`decode`], with a given reader. After an error the key at fault is left out and the rest is read again.
pub(crate) fn decode_with<'i, T>(
    table: &DeTable<'i>,
    span: &Range<usize>,
    bad: &BTreeSet<String>,
    problems: &mut Problems<'_>,
    read: impl Fn(Spanned<DeValue<'i>>) -> Result<T, toml::de::Error>,
) -> Option<T> {
    let mut rest = filtered(table, |key| !bad.contains(key));
    let mut good = bad.is_empty();
    // each turn ends the loop or takes a key away
    loop {
        let error = match read(Spanned::new(span.clone(), DeValue::Table(rest.clone()))) {
            Ok(value) => return good.then_some(value),
            Err(error) => error,
        };
        // a key that was taken away is missed; that has been told already
        if !good && error.message().starts_with("missing field") {
            return None;
        }
        good = false;
        let at = error.span().unwrap_or_else(|| span.clone());
        let key =
            rest.iter().find(|(_, v)| v.span().start <= at.start && at.start < v.span().end.max(v.span().start + 1));
        let Some(key) = key.map(|(key, _)| key.get_ref().to_string()) else {
            problems.at(&at, Problem::Rule { reason: plain(error.message()) });
            return None;
        };
        problems.at(&at, Problem::Value { key: key.clone(), reason: plain(error.message()) });
        rest.remove(key.as_str());
    }
}

/// The keys of a table that `keep` keeps, with their values and places.
pub(crate) fn filtered<'i>(table: &DeTable<'i>, keep: impl Fn(&str) -> bool) -> DeTable<'i> {
    let kept = table.iter().filter(|(key, _)| keep(key.get_ref()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A decoder's message in words of the file rather than of the program.
fn plain(message: &str) -> String {
    let mut text = message.trim_end().to_owned();
    for number in ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"] {
        text = text.replace(&format!("expected {number}"), "a whole number is needed");
    }
    for (from, to) in [
        ("expected f64", "a number is needed"),
        ("expected a string", "text in quotes is needed"),
        ("expected a boolean", "`true` or `false` is needed"),
        ("invalid type: ", "this is "),
        ("invalid value: ", "this is "),
        ("invalid socket address syntax", "this is no address; write for instance `127.0.0.1:7001`"),
        ("integer `", "the whole number `"),
        ("string \"", "the text \""),
        ("floating point `", "the number `"),
    ] {
        text = text.replace(from, to);
    }
    text
}
