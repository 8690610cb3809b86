//! The class of a packet: its differentiated services code point.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A differentiated services code point, 0 to 63 (RFC 2474), written as its name or its number.
///
/// ```
/// use rehearsal_core::dscp::Dscp;
/// assert_eq!("EF".parse(), Ok(Dscp::EF));
/// assert_eq!("AF41".parse::<Dscp>().map(Dscp::number), Ok(34));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Dscp(u8);

/// Names and numbers. Source: the IANA registry "Differentiated Services Field Codepoints" (RFC 2474 CS, RFC 2597 AF,
/// RFC 3246 EF, RFC 5865 VA, RFC 8622 LE).
const NAMES: [(&str, u8); 24] = [
    ("DF", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("CS0", 0),
];

/// Why something is no code point.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no DSCP; write a name such as \"EF\", \"AF41\" or \"CS1\", or a number from 0 to 63")]
pub struct DscpError(String);

impl Dscp {
    /// Default forwarding: what carries no mark.
    pub const DF: Dscp = Dscp(0);
    /// Expedited forwarding. Source: RFC 3246.
    pub const EF: Dscp = Dscp(46);

    /// The code point of that number.
    ///
    /// # Errors
    /// If it does not fit six bits.
    pub fn new(number: u64) -> Result<Self, DscpError> {
        let fits = u8::try_from(number).ok().filter(|n| *n < 64);
        fits.map(Dscp).ok_or_else(|| DscpError(number.to_string()))
    }

    /// Its number, 0 to 63.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is default forwarding.
    pub fn is_default(&self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Dscp {
    type Err = DscpError;
    fn from_str(text: &str) -> Result<Self, DscpError> {
        let word = text.trim();
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, number)| Dscp(*number));
        let numbered = || word.parse().ok().and_then(|number| Dscp::new(number).ok());
        named.or_else(numbered).ok_or_else(|| DscpError(text.to_owned()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Dscp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct DscpVisitor;

impl Visitor<'_> for DscpVisitor {
    type Value = Dscp;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DSCP such as \"EF\", or a number from 0 to 63")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Dscp, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Dscp, E> {
        Dscp::new(number).map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Dscp, E> {
        let number = u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
        self.visit_u64(number)
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DscpVisitor).map_err(D::Error::custom)
    }
}

impl JsonSchema for Dscp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dscp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 63 }, { "type": "string", "examples": ["EF"] }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_mean_the_same() {
        for (text, number) in [("EF", 46), ("ef", 46), ("46", 46), ("CS0", 0), ("DF", 0), ("AF13", 14), ("63", 63)] {
            assert_eq!(text.parse::<Dscp>().map(Dscp::number), Ok(number), "{text}");
        }
        for text in ["64", "AF14", "-1", "", "EF2"] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
        for number in 0..64 {
            let dscp = Dscp::new(number).expect("six bits");
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
        }
    }
}
