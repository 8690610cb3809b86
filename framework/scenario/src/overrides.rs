//! `--set nodes.camera.count=8`: values from the command line, laid over the parsed file.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::{Problem, Problems};
use crate::source::Sources;
use crate::suggest;

/// One override, taken apart but not yet applied.
#[derive(Debug)]
pub(crate) struct Override {
    /// The names on the way to the key, with their places.
    path: Vec<(String, Range<usize>)>,
    /// The value behind as much padding as brings it to its place among the sources.
    padded: String,
    value: Range<usize>,
}

impl Override {
    /// Takes `path=value` apart. `start` is the place of its text among the sources.
    pub(crate) fn new(text: &str, start: usize, problems: &mut Problems<'_>) -> Option<Self> {
        let whole = start..start + text.len();
        let form = Some("write for instance `--set nodes.camera.count=8`");
        let Some((left, value)) = split_at_equals(text) else {
            problems.rule(&whole, "a `--set` needs a key, `=` and a value", form);
            return None;
        };
        let path = segments(left, start);
        if path.len() < 2 || path.iter().any(|(name, _)| name.is_empty()) {
            problems.rule(&(start..start + left.len()), "a `--set` needs the whole path of a key, with dots", form);
            return None;
        }
        let from = start + left.len() + 1;
        // `x=` and the padding before it put the parsed value's span where it stands
        let padded = format!("{}x={value}", " ".repeat(from.saturating_sub(2)));
        Some(Override { path, padded, value: from..start + text.len() })
    }

    /// Whether it is of something in a table at the top.
    pub(crate) fn is_in(&self, table: &str) -> bool {
        self.path.first().is_some_and(|(name, _)| name == table)
    }

    /// Whether it names a model.
    pub(crate) fn names_model(&self) -> bool {
        self.path.last().is_some_and(|(name, _)| crate::model::is_model(name))
    }

    /// Puts the value into the file's tables.
    pub(crate) fn apply<'i>(&'i self, root: &mut DeTable<'i>, problems: &mut Problems<'_>) {
        let value = self.value();
        let Some((last, way)) = self.path.split_last() else { return };
        let mut table = root;
        for (depth, (name, span)) in way.iter().enumerate() {
            if let Some(what) = named_by_file(&way[..depth])
                && !table.contains_key(name.as_str())
            {
                let known: Vec<&str> = table.keys().map(|key| key.get_ref().as_ref()).collect();
                let help = suggest::help(name, known);
                problems.helped(span, Problem::Unknown { what, name: name.clone() }, help);
                return;
            }
            if !table.contains_key(name.as_str()) {
                table.insert(key(name, span), Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            }
            match table.get_mut(name.as_str()).map(Spanned::get_mut) {
                Some(DeValue::Table(inner)) => table = inner,
                _ => return problems.rule(span, format!("`{name}` is a value, not a table"), None),
            }
        }
        if way.len() == 1 && way[0].0 == "experiment" {
            displace(table, &last.0);
        }
        // the file's key goes with its value, so that errors show the override
        table.remove(last.0.as_str());
        table.insert(key(&last.0, &last.1), value);
    }

    /// The value as TOML if it is that, else as text: quotes may be left out.
    fn value(&self) -> Spanned<DeValue<'_>> {
        let mut parsed = DeTable::parse(&self.padded).map(Spanned::into_inner).unwrap_or_default();
        match parsed.remove("x") {
            Some(value) if parsed.is_empty() => value,
            _ => {
                let text = self.padded.get(self.value.clone()).unwrap_or_default();
                Spanned::new(self.value.clone(), DeValue::String(DeString::Borrowed(text)))
            }
        }
    }
}

/// Adds each `--set` to the sources.
pub(crate) fn place(sets: &[String], sources: &mut Sources) -> Vec<usize> {
    sets.iter().map(|set| sources.add_set(set)).collect()
}

/// `duration` and `stop` exclude each other: the one that is set last holds.
fn displace(experiment: &mut DeTable<'_>, set: &str) {
    match set {
        "duration" => experiment.remove("stop"),
        "stop" => experiment.remove("duration"),
        _ => None,
    };
}

fn key<'i>(name: &str, span: &Range<usize>) -> Spanned<DeString<'i>> {
    Spanned::new(span.clone(), DeString::Owned(name.to_owned()))
}

/// What the next name after `way` is the name of, where only the file can introduce it.
fn named_by_file(way: &[(String, Range<usize>)]) -> Option<&'static str> {
    let way: Vec<&str> = way.iter().map(|(name, _)| name.as_str()).collect();
    match way[..] {
        ["nodes"] => Some("node"),
        ["hosts"] => Some("host"),
        ["nodes", _, "actors"] => Some("actor"),
        _ => None,
    }
}

/// Splits at the first `=` outside quotes.
fn split_at_equals(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let at = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '=' && !quoted
    });
    at.map(|(at, _)| (&text[..at], &text[at + 1..]))
}

/// The names between dots outside quotes. A threshold's name has a dot of its own.
fn segments(left: &str, start: usize) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let (mut from, mut quoted) = (0, false);
    let ends: Vec<usize> = left
        .char_indices()
        .filter_map(|(at, c)| {
            quoted ^= c == '"';
            (c == '.' && !quoted).then_some(at)
        })
        .chain([left.len()])
        .collect();
    for end in ends {
        found.push((left[from..end].trim().trim_matches('"').to_owned(), start + from..start + end));
        from = end + 1;
    }
    if found[0].0 == "thresholds" && found.len() > 2 {
        let name = found[1..].iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(".");
        let span = found[1].1.start..start + left.len();
        found.truncate(1);
        found.push((name, span));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(file: &str, sets: &[&str]) -> Result<String, String> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let mut sources = Sources::new("x.toml", file.to_owned());
        let starts = place(&sets, &mut sources);
        let mut problems = Problems::new(&sources);
        let overrides: Vec<Override> =
            sets.iter().zip(starts).filter_map(|(text, start)| Override::new(text, start, &mut problems)).collect();
        let mut root = DeTable::parse(file).expect("valid").into_inner();
        for one in &overrides {
            one.apply(&mut root, &mut problems);
        }
        problems.pass().map_err(|e| e.to_string())?;
        let value: toml::Table = serde::Deserialize::deserialize(toml::de::ValueDeserializer::from(Spanned::new(
            0..0,
            DeValue::Table(root),
        )))
        .map_err(|e: toml::de::Error| e.to_string())?;
        Ok(toml::to_string(&value).expect("serialises"))
    }

    #[test]
    fn values_are_toml_or_else_text() {
        let file = "[experiment]\nname = 'a'\nstop = 'x'\n[nodes.c]\ncount = 1\n";
        let text = set(
            file,
            &[
                "nodes.c.count=8",
                "experiment.duration=5s",
                "thresholds.response.p99=<1ms",
                "links.c->c.delay = \"5ms\"",
            ],
        )
        .expect("applies");
        assert_eq!(
            text,
            "[experiment]\nduration = \"5s\"\nname = \"a\"\n\n[links.\"c->c\"]\ndelay = \"5ms\"\n\n[nodes.c]\ncount = 8\n\n[thresholds]\n\"response.p99\" = \"<1ms\"\n"
        );
    }

    #[test]
    fn errors_name_the_set() {
        let file = "[experiment]\nname = 'a'\n[nodes.camera]\ncount = 1\n";
        let error = |text: &str| set(file, &[text]).expect_err(text);
        let unknown = error("nodes.camrea.count=8");
        assert!(unknown.starts_with("--set nodes.camrea.count=8: there is no node `camrea`"), "{unknown}");
        assert!(unknown.contains("did you mean `camera`?"), "{unknown}");
        assert!(error("nodes.camera.count").contains("needs a key, `=` and a value"));
        assert!(error("count=8").contains("whole path"));
        assert!(error("experiment.name.x=8").contains("`name` is a value, not a table"));
    }
}
