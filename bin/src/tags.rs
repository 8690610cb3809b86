//! `--tag KEY=VALUE`: what the user says of a run, to find it again.

use std::collections::BTreeMap;

use rehearsal_export::Bundle;

use crate::exit::UsageError;

/// Tags of one run. Assumed: more is a description.
const TAGS_MAX: usize = 32;
/// Longest key and longest value, characters.
const KEY_CHARS_MAX: usize = 32;
const VALUE_CHARS_MAX: usize = 128;

/// One tag.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl std::str::FromStr for Tag {
    type Err = String;

    /// Reads `build=1.4.2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("`{text}` is no tag; write for instance `build=1.4.2`"));
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ['-', '_', '.'].contains(&c);
        let begins = key.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || key.len() > KEY_CHARS_MAX || !key.chars().all(fits) {
            return Err(format!(
                "`{key}` cannot be a key: a lower-case letter, then at most {} of letters, digits, `-`, `_` and `.`",
                KEY_CHARS_MAX - 1
            ));
        }
        if value.is_empty() || value.chars().count() > VALUE_CHARS_MAX || value.chars().any(char::is_control) {
            return Err(format!("the value of `{key}` has 1 to {VALUE_CHARS_MAX} characters without line ends"));
        }
        Ok(Tag { key: key.to_owned(), value: value.to_owned() })
    }
}

/// The tags of a run, by key.
///
/// # Errors
/// When a key comes twice, or there are too many.
pub fn of_run(tags: &[Tag]) -> Result<BTreeMap<String, String>, UsageError> {
    let mut found = BTreeMap::new();
    for Tag { key, value } in tags {
        if let Some(other) = found.insert(key.clone(), value.clone()) {
            return Err(UsageError(format!("--tag: `{key}` is both `{other}` and `{value}`; say it once")));
        }
    }
    if found.len() > TAGS_MAX {
        return Err(UsageError(format!("--tag: there are {} tags, at most {TAGS_MAX} are possible", found.len())));
    }
    Ok(found)
}

/// Whether a bundle has all of these tags.
pub fn has(bundle: &Bundle, tags: &[Tag]) -> bool {
    tags.iter().all(|tag| bundle.manifest.tags.get(&tag.key) == Some(&tag.value))
}

/// Tags in one line, `build=1.4.2 radio=5g`.
pub fn told(tags: &BTreeMap<String, String>) -> String {
    tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Those that all of several runs have.
pub fn shared<'a>(mut runs: impl Iterator<Item = &'a BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut common = runs.next().cloned().unwrap_or_default();
    runs.for_each(|run| common.retain(|key, value| run.get(key) == Some(value)));
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_short_key_and_a_line() {
        let read = |text: &str| text.parse::<Tag>();
        assert_eq!(read("build=a=b"), Ok(Tag { key: "build".to_owned(), value: "a=b".to_owned() }));
        let long = format!("{}=1", "k".repeat(33));
        for bad in ["build", "=1", "Build=1", "1a=1", "a b=1", "a=", "a=\n", "a=\u{7}", long.as_str()] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let value = "ä".repeat(VALUE_CHARS_MAX);
        assert!(read(&format!("a={value}")).is_ok() && read(&format!("a={value}ä")).is_err());
    }

    #[test]
    fn tags_of_a_run_are_said_once() {
        let tags = |texts: &[&str]| texts.iter().map(|t| t.parse().expect("a tag")).collect::<Vec<Tag>>();
        assert_eq!(of_run(&tags(&["b=2", "a=1"])).map(|t| told(&t)), Ok("a=1 b=2".to_owned()));
        assert!(of_run(&tags(&["a=1", "a=2"])).is_err_and(|why| why.0.contains("both `1` and `2`")));
        let many: Vec<Tag> = (0..=TAGS_MAX).map(|n| Tag { key: format!("k{n}"), value: "1".to_owned() }).collect();
        assert!(of_run(&many).is_err() && of_run(&many[1..]).is_ok());
    }

    #[test]
    fn what_runs_share_is_in_all_of_them() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let runs: [BTreeMap<String, String>; 2] = [map(&[("a", "1"), ("b", "2")]), map(&[("a", "1"), ("b", "3")])];
        assert_eq!(shared(runs.iter()), map(&[("a", "1")]));
    }
}
