//! `[verdict]`: limits of the verdict that hold for this experiment in place of the usual ones. Each key is named like the
//! reason that it limits.

use std::fmt;

use rehearsal_core::time::Span;
use rehearsal_core::units::Fraction;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::StrDeserializer;
use serde::de::{Error, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::draft::Entry;
use crate::error::Problems;

/// What is written where a run shall never have that doubt.
const NEVER: &str = "never";

/// A bound, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound<T> {
    /// No value is beyond it.
    Never,
    /// Values beyond this are.
    At(T),
}

/// The bounds of one limit; one that is left out keeps its usual value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "T: Deserialize<'de>"))]
#[schemars(rename = "Bounds{T}")]
pub struct Bounds<T> {
    /// Beyond it a reader is told; the verdict stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Bound<T>>,
    /// Beyond it the run is DEGRADED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Bound<T>>,
    /// Beyond it the run is INVALID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<Bound<T>>,
}

/// How grave a run's doubt is beyond a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// A reader is told.
    Note,
    /// The run is DEGRADED.
    Degraded,
    /// The run is INVALID.
    Invalid,
}

/// A bound that an experiment sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetBound {
    /// Which limit, by its key.
    pub limit: &'static str,
    /// What follows beyond it.
    pub gravity: Gravity,
    /// The bound in per cent, ns or values, whatever the limit is in; `None`: never.
    pub value: Option<f64>,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $down:literal;)*) => {
        /// `[verdict]`: what a run's numbers must keep to be trusted.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct VerdictTable {
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $name: Option<Bounds<$type>>,)*
        }

        impl VerdictTable {
            /// The keys that there are.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Every bound that is set, in the order of the keys.
            pub fn set(&self) -> Vec<SetBound> {
                let mut all = Vec::new();
                $(all.extend(self.$name.iter().flat_map(|bounds| written(stringify!($name), bounds)));)*
                all
            }

            /// Notes bounds that come in the wrong order.
            pub(crate) fn check(entry: &Entry<VerdictTable>, problems: &mut Problems<'_>) {
                $(if let Some(bounds) = &entry.table.$name {
                    ordered(stringify!($name), &written(stringify!($name), bounds), $down, entry, problems);
                })*
            }
        }
    };
}

limits! {
    /// Lag p99 of senders, in per cent of the gap between two sends of a stream. Usually DEGRADED above 10 %, INVALID above
    /// 50 %.
    generator_late: Fraction, false;
    /// Lag p99 of senders that is never held against them, whatever the gap. Usually 1 ms and 5 ms.
    generator_late_min: Span, false;
    /// Exchanges that left, in per cent of those that should have. Usually DEGRADED below 99 %, INVALID below 95 %.
    rate_missed: Fraction, true;
    /// Slots of schedules that were given up. Usually INVALID above 1 %.
    skipped: Fraction, false;
    /// Time that its CPU quota held back a node with senders. Usually DEGRADED above 1 %, INVALID above 5 %.
    throttled: Fraction, false;
    /// Time that the hypervisor took from a host. Usually DEGRADED above 1 %, INVALID above 5 %.
    stolen: Fraction, false;
    /// CPU of the machine that others than the run used. Usually a note above 10 %, DEGRADED above 25 %.
    contended: Fraction, false;
    /// Traffic longer than planned. Usually INVALID above 5 %.
    stretched: Fraction, false;
    /// Uncertainty of the hosts' clock offsets. Usually DEGRADED above 1 ms.
    clock_unknown: Span, false;
    /// By how much a host's wall clock was set at once, either way; a step below 5 ms is never told. Usually a note above
    /// 20 ms.
    clock_stepped: Span, false;
    /// Values behind a p99. Usually a note below 1000.
    few_samples: u64, true;
    /// The time that was measured. Usually a note below 10 s.
    short_run: Span, true;
    /// By how much the first three measured seconds alone raise the response time's p50 or p99. Usually a note above 10 %,
    /// DEGRADED above 25 %.
    warmup_included: Fraction, false;
    /// What the kernel dropped because a socket's buffer was full. Usually a note above 0 %, DEGRADED above 0.1 %.
    buffers_exhausted: Fraction, false;
    /// File descriptors in use, of those that a process may have. Usually DEGRADED above 95 %.
    descriptors_exhausted: Fraction, false;
    /// Ephemeral ports in use, of their range. Usually DEGRADED above 95 %.
    ports_exhausted: Fraction, false;
}

/// A quantity as the number that limits are kept in.
trait Number: Copy {
    fn number(self) -> f64;
}

impl Number for Fraction {
    fn number(self) -> f64 {
        // a decimal share times a hundred is a decimal again
        (self.percent() * 1e9).round() / 1e9
    }
}

impl Number for Span {
    fn number(self) -> f64 {
        self.as_nanos() as f64
    }
}

impl Number for u64 {
    fn number(self) -> f64 {
        self as f64
    }
}

/// The bounds that are written, the lightest first.
fn written<T: Number>(limit: &'static str, bounds: &Bounds<T>) -> Vec<SetBound> {
    let all = [(Gravity::Note, bounds.note), (Gravity::Degraded, bounds.degraded), (Gravity::Invalid, bounds.invalid)];
    let value = |bound: Bound<T>| match bound {
        Bound::Never => None,
        Bound::At(value) => Some(value.number()),
    };
    all.into_iter().filter_map(|(gravity, bound)| Some(SetBound { limit, gravity, value: value(bound?) })).collect()
}

/// A graver bound is not nearer than a lighter one. `down`: less is worse.
fn ordered(name: &str, bounds: &[SetBound], down: bool, entry: &Entry<VerdictTable>, problems: &mut Problems<'_>) {
    let values: Vec<f64> = bounds.iter().filter_map(|bound| bound.value).collect();
    let wrong = values.windows(2).any(|pair| if down { pair[1] > pair[0] } else { pair[1] < pair[0] });
    if wrong {
        let (word, order) = if down { ("below", "smaller") } else { ("above", "larger") };
        let reason = format!("`{name}` is INVALID or DEGRADED before it is anything lighter");
        let help = format!("it counts {word} each bound: the graver, the {order}");
        problems.rule(entry.keys.at(name), reason, Some(&help));
    }
}

impl<T: Serialize> Serialize for Bound<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Bound::Never => serializer.serialize_str(NEVER),
            Bound::At(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bound<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BoundVisitor(std::marker::PhantomData))
    }
}

/// Reads `never`, or hands on what there is to the quantity, whose own errors say what to write.
struct BoundVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundVisitor<T> {
    type Value = Bound<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a bound, or `{NEVER}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.trim() {
            NEVER => Ok(Bound::Never),
            _ => T::deserialize(StrDeserializer::new(text)).map(Bound::At),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Bound::At)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Bound::At)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Bound::At)
    }
}

impl<T: JsonSchema> JsonSchema for Bound<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Bound{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [value, { "const": NEVER }] })
    }
}
