//! Compares a table with its shape before anything is decoded, so that every misspelt key is told at once.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Problem, Problems};
use crate::shape::Shape;
use crate::suggest;

/// A table under its name in messages, `node \`camera\``.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a, 'i> {
    pub(crate) name: &'a str,
    pub(crate) table: &'a DeTable<'i>,
    pub(crate) span: &'a Range<usize>,
}

impl Table<'_, '_> {
    /// Notes unknown and missing keys and values that their schema excludes. Gives the keys that cannot be decoded.
    pub(crate) fn check(self, shapes: &[Shape<'_>], problems: &mut Problems<'_>) -> BTreeSet<String> {
        let mut bad = BTreeSet::new();
        for (key, value) in self.table {
            let name: &str = key.get_ref();
            let good = match shapes.iter().find_map(|shape| shape.property(name)) {
                Some(shape) => check_value(name, value, shape, problems),
                None => {
                    self.unknown(key, shapes, problems);
                    false
                }
            };
            if !good {
                bad.insert(name.to_owned());
            }
        }
        for key in shapes.iter().flat_map(|shape| shape.required()) {
            if !self.table.contains_key(key) {
                problems.at(self.span, Problem::MissingKey { key: key.to_owned(), table: self.name.to_owned() });
                bad.insert(key.to_owned());
            }
        }
        bad
    }

    fn unknown(self, key: &Spanned<std::borrow::Cow<'_, str>>, shapes: &[Shape<'_>], problems: &mut Problems<'_>) {
        let known = shapes.iter().flat_map(|shape| shape.keys());
        let help = suggest::help(key.get_ref(), known);
        let problem = Problem::UnknownKey { key: key.get_ref().to_string(), table: self.name.to_owned() };
        problems.helped(&key.span(), problem, help);
    }
}

/// Checks one value as far as its schema tells; the rest is found when it is decoded.
fn check_value(key: &str, value: &Spanned<DeValue<'_>>, shape: Shape<'_>, problems: &mut Problems<'_>) -> bool {
    let wrong = |reason: String| Problem::Value { key: key.to_owned(), reason };
    match value.get_ref() {
        DeValue::Table(table) if shape.is_table() => {
            Table { name: &format!("`{key}`"), table, span: &value.span() }.check(&[shape], problems).is_empty()
        }
        other if shape.is_table() => {
            let known: Vec<&str> = shape.keys().collect();
            let help = format!("write a table with {}", suggest::quoted(&known));
            problems.helped(&value.span(), wrong(format!("a table is needed, not {}", article(other))), Some(help));
            false
        }
        DeValue::String(word) => match shape.choices() {
            Some(choices) if !choices.contains(&word.as_ref()) => {
                let help = suggest::help(word, choices.iter().copied());
                problems.helped(&value.span(), wrong(format!("`{word}` is not one of its values")), help);
                false
            }
            _ => check_quantity(key, word, value, shape, problems),
        },
        DeValue::Integer(number) => {
            // 64 bits with a sign is what TOML promises to keep
            let read = i64::from_str_radix(number.as_str(), number.radix());
            if read.is_err() {
                let text = number.as_str();
                let most = shape.bounds().max.filter(|_| !text.starts_with('-'));
                let bound =
                    most.map_or("it does not fit 64 bits".to_owned(), |max| format!("it must be {}", at_most(max)));
                problems.at(&value.span(), wrong(format!("{text} is out of range: {bound}")));
                return false;
            }
            check_number(key, number.as_str(), read.map_or(f64::NAN, |n| n as f64), value, shape, problems)
        }
        DeValue::Float(number) => {
            let read = number.as_str().parse().unwrap_or(f64::NAN);
            check_number(key, number.as_str(), read, value, shape, problems)
        }
        _ => true,
    }
}

fn check_number(
    key: &str,
    text: &str,
    number: f64,
    value: &Spanned<DeValue<'_>>,
    shape: Shape<'_>,
    problems: &mut Problems<'_>,
) -> bool {
    let bounds = shape.bounds();
    // what is no number keeps no bound
    let nan = number.is_nan();
    let broken = [
        bounds.min.filter(|min| nan || number < *min).map(|min| format!("at least {min}")),
        bounds.above.filter(|above| nan || number <= *above).map(|above| format!("above {above}")),
        bounds.max.filter(|max| nan || number > *max).map(at_most),
    ];
    let Some(bound) = broken.into_iter().flatten().next() else {
        return true;
    };
    let reason = format!("{text} is out of range: it must be {bound}");
    problems.at(&value.span(), Problem::Value { key: key.to_owned(), reason });
    false
}

/// Ways to write a quantity that its own parser would answer with a riddle.
fn check_quantity(
    key: &str,
    text: &str,
    value: &Spanned<DeValue<'_>>,
    shape: Shape<'_>,
    problems: &mut Problems<'_>,
) -> bool {
    let Some(definition) = shape.definition() else { return true };
    let (reason, help) = if definition == "Size" && text.contains("..") {
        let first = text.split("..").next().unwrap_or_default().trim();
        (format!("`{text}` is a range, one size is wanted"), format!("write for instance `{first}`"))
    } else if has_exponent(text) {
        (format!("`{text}` has an exponent"), "write plain digits".to_owned())
    } else {
        return true;
    };
    problems.helped(&value.span(), Problem::Value { key: key.to_owned(), reason }, Some(help));
    false
}

/// Whether a text begins like `1.5e30`.
fn has_exponent(text: &str) -> bool {
    let rest = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let exponent = rest.strip_prefix(['e', 'E']).filter(|_| rest.len() < text.trim_start().len());
    let digits = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    digits.is_some_and(|d| d.starts_with(|c: char| c.is_ascii_digit()))
}

/// A bound in words; the largest number that is exact everywhere says so.
fn at_most(max: f64) -> String {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    if max == EXACT { format!("at most {max} (2^53 − 1)") } else { format!("at most {max}") }
}

/// What a value is, with its article.
pub(crate) fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
