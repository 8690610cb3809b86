//! A step as it is written, and what it cannot be.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::take::Taking;
use super::text::{USUAL, is_name, places};
use crate::outside::http::{PATH_BYTES_MAX, check_headers, check_method};
use crate::outside::{Expect, check_path};
use crate::units::ByteSize;

/// Longest text of a body or a header, bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest answer that is asked for.
const ANSWER_MAX: ByteSize = ByteSize(64 << 20);
/// Bytes of a value that is not known. Assumed: a UUID without its dashes.
const VALUE_BYTES: u32 = 32;
/// The header by which nodes of an experiment know each other's requests.
const OURS: &str = "rehearsal";

/// A request that a user makes in a state. In `path`, `headers`, `body` and `expect.body_contains`, `{NAME}` stands for a value
/// that an earlier answer gave this user, for a column of its row, or for one of `{user}` (its number, from 1), `{seq}` (how often
/// it was here before), `{member}`, `{time}` and `{uuid}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StepSpec {
    /// The method; without it GET where there is no `body`, and POST where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query; without it `/`. Values are percent-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers beside `host` and `content-length`, which follow from the rest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body. If it begins like JSON it is that, and values are escaped in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// A CSV file, relative to the experiment file, whose first row names the columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Which row of `rows` it is.
    #[serde(skip_serializing_if = "Which::is_usual")]
    pub take: Which,
    /// Values that are taken from the answer, by name. If one is not there the step has failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extract: BTreeMap<String, ExtractSpec>,
    /// Which answers are a success, instead of those with 2xx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Bytes of the answer: what dry runs take, and what a receiver of the experiment is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<ByteSize>,
}

/// Which row a user takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// Always the same, by its number: after the last row comes the first.
    #[default]
    User,
    /// With each visit another, which no other user takes as long as there are rows enough.
    Next,
}

impl Which {
    fn is_usual(&self) -> bool {
        *self == Which::User
    }
}

/// Where a value is in an answer: one of `json`, `header` and `regex`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExtractSpec {
    /// A pointer into a body of JSON (RFC 6901), such as `/token`; to text, a number or a truth value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The name of a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression that is looked for in the body: its first group, or all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Bytes that dry runs take the value to have. Assumed: 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8192))]
    pub bytes: Option<u32>,
}

impl ExtractSpec {
    /// Bytes that the value is taken to have.
    pub fn bytes(&self) -> u32 {
        self.bytes.unwrap_or(VALUE_BYTES)
    }
}

impl StepSpec {
    /// The method.
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.body.is_none() { "GET" } else { "POST" })
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }

    /// Whether its body is JSON.
    pub fn is_json(&self) -> bool {
        let said = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        match said {
            Some((_, value)) => value.contains("json"),
            None => self.body.as_deref().is_some_and(|body| body.trim_start().starts_with(['{', '['])),
        }
    }

    /// Bytes of the answer that is asked for; 0 where that is left to the receiver.
    pub fn answer_bytes(&self) -> u32 {
        self.answer.map_or(0, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
    }

    /// In a word or two, `POST /login`.
    pub fn title(&self) -> String {
        format!("{} {}", self.method(), self.path().split('?').next().unwrap_or("/"))
    }

    /// The names that it puts into its request or looks for in the answer, but for those that are there always.
    pub fn uses(&self) -> impl Iterator<Item = &str> {
        let contains = self.expect.as_ref().and_then(|expect| expect.body_contains.as_deref());
        let texts = [Some(self.path()), self.body.as_deref(), contains].into_iter().flatten();
        let texts = texts.chain(self.headers.values().map(String::as_str));
        texts.flat_map(|text| places(text).map(|(name, _)| name)).filter(|name| !USUAL.contains(name))
    }

    /// Bytes of its body, as far as it can be told ahead: names stand for what they are taken to be.
    pub fn usual_body_bytes(&self, bytes_of: &dyn Fn(&str) -> Option<u32>) -> u32 {
        let body = self.body.as_deref().unwrap_or_default();
        let usual = |name: &str| match name {
            "user" | "seq" | "member" => 1,
            "time" => 14,
            "uuid" => 36,
            _ => bytes_of(name).unwrap_or(VALUE_BYTES),
        };
        let filled = places(body).map(|(name, place)| i64::from(usual(name)) - place.len() as i64);
        u32::try_from(body.len() as i64 + filled.sum::<i64>()).unwrap_or(0)
    }

    /// What is wrong with it: the key at fault and why.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut say = |key: &'static str, reason: String| faults.push((key, reason));
        if let Err(why) = check_method(self.method()) {
            say("method", why);
        }
        if matches!(self.method(), "CONNECT" | "HEAD") {
            say("method", format!("{} has no answer to look at; use another method", self.method()));
        }
        if !self.path().starts_with('/') {
            say("path", format!("the path `{}` does not begin with `/`", self.path()));
        } else if let Err(why) = check_path(self.path()) {
            say("path", why);
        } else if self.path().len() > PATH_BYTES_MAX {
            say("path", format!("a path has at most {PATH_BYTES_MAX} characters (RFC 9110 §4.1)"));
        }
        if let Err(why) = check_headers(&self.headers) {
            say("headers", why);
        }
        for (name, value) in &self.headers {
            if name.eq_ignore_ascii_case(OURS) {
                say("headers", format!("the header `{name}` follows from the rest; leave it out"));
            }
            if value.len() > TEXT_BYTES_MAX {
                say("headers", format!("the header `{name}` holds more than 64 KiB"));
            }
        }
        if self.body.as_ref().is_some_and(|body| body.len() > TEXT_BYTES_MAX) {
            say("body", "a body that is written has at most 64 KiB".to_owned());
        }
        if self.take != Which::User && self.rows.is_none() {
            say("take", "`take` says which row of `rows`, which is not there".to_owned());
        }
        for (name, extract) in &self.extract {
            if !is_name(name) || USUAL.contains(&name.as_str()) {
                say("extract", format!("`{name}` names no value: take another word of letters, digits, `_` and `-`"));
            }
            if let Err(why) = Taking::new(extract) {
                say("extract", format!("`{name}`: {why}"));
            }
            if !(1..=super::VALUE_BYTES_MAX as u32).contains(&extract.bytes()) {
                say("extract", format!("`{name}`: a value has 1 to {} bytes", super::VALUE_BYTES_MAX));
            }
        }
        if let Some(Err(why)) = self.expect.as_ref().map(Expect::check) {
            say("expect", why);
        }
        if self.answer.is_some_and(|size| size.0 == 0 || size > ANSWER_MAX) {
            say("answer", format!("an answer has 1B to {ANSWER_MAX}"));
        }
        faults
    }
}
