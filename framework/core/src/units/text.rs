//! Writing quantities as they are read, and their serde and JSON Schema forms: always text, never a bare number.

use std::fmt::{self, Display};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BitRate, ByteRange, ByteSize, Fraction, Rate, UnitError};
use crate::time::Span;

/// Writes `value` in the largest unit that keeps it whole.
fn whole(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (name, scale) =
        units.iter().find(|(_, scale)| value != 0 && value.is_multiple_of(*scale)).unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{name}", value / scale)
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0s");
        }
        let units = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
            ("ns", 1),
        ];
        whole(f, self.as_nanos(), &units)
    }
}

impl Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("KiB", 1 << 10),
            ("kB", 1_000),
            ("B", 1),
        ];
        whole(f, self.0, &units)
    }
}

impl Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        whole(f, self.0, &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)])
    }
}

impl Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}..{}", self.min, self.max) }
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = self.per.to_string();
        // `1s` is written `/s`; `10s` keeps its number
        let per = per.strip_prefix('1').filter(|unit| !unit.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(&per);
        write!(f, "{}/{per}", self.events)
    }
}

impl Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())
    }
}

struct TextVisitor<T> {
    example: &'static str,
    marker: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text with a unit, such as {}", self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        // reading the bare number gives the message that names the unit to add
        match number.to_string().parse::<T>() {
            Err(why) => Err(E::custom(why)),
            Ok(_) => Err(E::invalid_type(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        match number.to_string().parse::<T>() {
            Err(why) => Err(E::custom(why)),
            Ok(_) => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }
}

macro_rules! as_text {
    ($($type:ty, $name:literal, $example:literal, $pattern:literal;)*) => {
        $(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }
            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_any(TextVisitor { example: $example, marker: std::marker::PhantomData })
                }
            }
            impl JsonSchema for $type {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    $name.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "string", "pattern": $pattern, "examples": [$example] })
                }
            }
        )*
    };
}

as_text! {
    Span, "Duration", "10s", r"^[0-9][0-9_.]* ?(ns|us|µs|ms|s|min|m|h)$";
    ByteSize, "Size", "150kB", r"^[0-9][0-9_.]* ?(B|[kKMG]B|[KMG]iB)$";
    ByteRange, "SizeRange", "100kB..200kB", r"^[0-9][0-9_.]* ?(B|[kKMG]B|[KMG]iB)(\.\.[0-9][0-9_.]* ?(B|[kKMG]B|[KMG]iB))?$";
    BitRate, "BitRate", "1Gbit/s", r"^[0-9][0-9_.]* ?[kMG]?(bit/s|bps)$";
    Rate, "Rate", "25/s", r"^[0-9][0-9_.]* ?(rps|/[0-9_.]*(ns|us|µs|ms|s|min|m|h))$";
    Fraction, "Share", "1%", r"^[0-9][0-9.]* ?%$";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["10s", "1500us", "2h", "7ns"] {
            assert_eq!(text.parse::<Span>().expect(text).to_string(), text);
        }
        for text in ["150kB", "512MiB", "1001B"] {
            assert_eq!(text.parse::<ByteSize>().expect(text).to_string(), text);
        }
        for text in ["25/s", "30/min", "1/20ms", "1/10s"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        assert_eq!("100kB..200kB".parse::<ByteRange>().expect("range").to_string(), "100kB..200kB");
        assert_eq!("1Gbit/s".parse::<BitRate>().expect("rate").to_string(), "1Gbit/s");
        assert_eq!("0.1%".parse::<Fraction>().expect("share").to_string(), "0.1%");
    }
}
