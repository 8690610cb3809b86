//! What is sent to a target outside, and what it must answer: the key `request` of a sender whose `to` is a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{MqttVersion, Qos};
use crate::units::ByteSize;

/// Longest answer that is waited for, bytes. Assumed: as the largest body that is sent.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What requests to a target outside look like: the key `request` of a sender whose `to` is a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestSpec {
    /// The method; without it GET where there is nothing to send, and POST where there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query, unless the URL has them; of `mqtt://` a `/` and the topic. `{seq}`, `{member}`, `{node}`, `{actor}`,
    /// `{time}` and `{uuid}` are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers beside `host` and `content-length`, which follow from the rest. Filled in like the path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What a `client` sends; other kinds have a payload of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodySpec>,
    /// Which answers are a success, instead of those with 2xx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// How messages go to the broker of `mqtt://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<MqttRequest>,
}

impl RequestSpec {
    /// What ends an exchange of bare bytes, if it is said.
    pub fn answer(&self) -> Option<AnswerSpec> {
        self.expect.as_ref()?.answer
    }

    /// Whether a datagram has an answer.
    pub fn is_answered(&self) -> bool {
        self.answer().is_some_and(|answer| answer != AnswerSpec::Nothing)
    }
}

/// A body: one of `file`, `text`, `template` and `generator`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BodySpec {
    /// The bytes of a file, relative to the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// This text, the same each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// This text with `{seq}` (the request's number within its instance, from 0), `{member}` (the instance, from 1), `{node}`
    /// and `{actor}` (their names), `{time}` (Unix seconds with three decimals) and `{uuid}` (RFC 9562, version 8, of the
    /// instance and the number) filled in. `{{word}}` is sent as `{word}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Bytes that differ from request to request, `bytes` of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// How many bytes a generator makes; 1 kB if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
}

/// What a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// A JSON object with the instance, the number and letters to fill it up.
    Json,
    /// Bytes that look random, and are the same for the same number.
    Random,
}

/// Which answers are a success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The codes that are; without any, 2xx. Any other is what it usually is, but for a success: that is a failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    /// Text that the body must hold within its first 64 KiB; without it the answer is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
    /// What ends an exchange over `udp://`, `tcp://` and `tls://`: `"nothing"` (it is a success when it has left; without a
    /// word the rule of `udp://`), `"line"` (a line; that of the others), `"echo"` (the same bytes), `"any"` (a datagram, or
    /// whatever comes first), or a size such as `"12B"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerSpec>,
}

/// What ends an exchange of bare bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum AnswerSpec {
    /// It was sent.
    Nothing,
    /// The same bytes came back.
    Echo,
    /// Bytes up to a line feed came.
    Line,
    /// Something came.
    Any,
    /// So many bytes came.
    Bytes(ByteSize),
}

impl TryFrom<String> for AnswerSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.as_str() {
            "nothing" => AnswerSpec::Nothing,
            "echo" => AnswerSpec::Echo,
            "line" => AnswerSpec::Line,
            "any" => AnswerSpec::Any,
            size => {
                let wrong = || {
                    format!("`{size}` is no answer: write `nothing`, `echo`, `line`, `any`, or a size such as `12B`")
                };
                let bytes: ByteSize = size.parse().map_err(|_| wrong())?;
                if !(1..=ANSWER_BYTES_MAX).contains(&bytes.0) {
                    return Err(format!("an answer has 1B to {} bytes", ByteSize(ANSWER_BYTES_MAX)));
                }
                AnswerSpec::Bytes(bytes)
            }
        })
    }
}

impl From<AnswerSpec> for String {
    fn from(answer: AnswerSpec) -> String {
        match answer {
            AnswerSpec::Nothing => "nothing".to_owned(),
            AnswerSpec::Echo => "echo".to_owned(),
            AnswerSpec::Line => "line".to_owned(),
            AnswerSpec::Any => "any".to_owned(),
            AnswerSpec::Bytes(bytes) => bytes.to_string(),
        }
    }
}

/// How messages go to a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MqttRequest {
    /// How sure the delivery is: above 0 the broker's PUBACK or PUBCOMP is the outcome, at 0 it is that it was sent.
    #[schemars(range(max = 2))]
    pub qos: Qos,
    /// Which version of the protocol is spoken.
    pub version: MqttVersion,
    /// Whom the broker knows the client as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file with the user's password in its first line, relative to the experiment. It is read where the node runs, and
    /// stands in no bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_words_or_sizes() {
        let of = |text: &str| AnswerSpec::try_from(text.to_owned());
        for text in ["nothing", "echo", "line", "any", "12B"] {
            assert_eq!(of(text).map(String::from), Ok(text.to_owned()));
        }
        assert!(of("0B").is_err_and(|why| why.contains("1B to 16MiB")));
        assert!(of("12").is_err_and(|why| why.contains("a size such as `12B`")));
    }
}
