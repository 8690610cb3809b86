//! Values out of answers.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use super::VALUE_BYTES_MAX;
use super::spec::ExtractSpec;

/// Largest compiled expression, bytes.
const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// How a value is found.
#[derive(Clone, Debug)]
pub enum Taking {
    /// By a pointer into a document of JSON (RFC 6901).
    Json(String),
    /// In a header.
    Header(String),
    /// By the first group of an expression, or all that it matches.
    Regex(Regex),
}

/// A body as JSON, once that has been tried.
pub type Document = Option<Option<Value>>;

impl Taking {
    /// As it is written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(spec: &ExtractSpec) -> Result<Taking, String> {
        match (&spec.json, &spec.header, &spec.regex) {
            (Some(pointer), None, None) if pointer.starts_with('/') => Ok(Taking::Json(pointer.clone())),
            (Some(pointer), None, None) => Err(format!(
                "`{pointer}` points nowhere: a pointer into JSON begins with `/`, such as `/token` (RFC 6901)"
            )),
            (None, Some(name), None) if crate::outside::http::is_token(name) => {
                Ok(Taking::Header(name.to_ascii_lowercase()))
            }
            (None, Some(name), None) => Err(format!("`{name}` is no header")),
            (None, None, Some(text)) => {
                let built = RegexBuilder::new(text).size_limit(PROGRAM_BYTES_MAX).build();
                built.map(Taking::Regex).map_err(|why| {
                    let why = why.to_string();
                    let last = why.lines().last().unwrap_or_default();
                    format!("`{text}` is no regular expression: {}", last.trim_start_matches("error: "))
                })
            }
            _ => Err("a value is taken by one of `json`, `header` and `regex`".to_owned()),
        }
    }

    /// The value in an answer; none if it is not there, is no text, number or truth value, or is too long.
    pub fn from<'h>(
        &self,
        header: &dyn Fn(&str) -> Option<&'h [u8]>,
        body: &[u8],
        document: &mut Document,
    ) -> Option<String> {
        let value = match self {
            Taking::Json(pointer) => {
                let document = document.get_or_insert_with(|| serde_json::from_slice(body).ok()).as_ref()?;
                match document.pointer(pointer)? {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    Value::Bool(is) => is.to_string(),
                    _ => return None,
                }
            }
            Taking::Header(name) => String::from_utf8_lossy(header(name)?).into_owned(),
            Taking::Regex(regex) => {
                let found = regex.captures(body)?;
                let part = found.get(1).or_else(|| found.get(0))?;
                String::from_utf8_lossy(part.as_bytes()).into_owned()
            }
        };
        (value.len() <= VALUE_BYTES_MAX).then_some(value)
    }
}
