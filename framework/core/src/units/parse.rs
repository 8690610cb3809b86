//! Reading quantities, and the errors that say what to write instead.

use std::str::FromStr;

use thiserror::Error;

use super::{BitRate, ByteRange, ByteSize, Fraction, Rate};
use crate::time::Span;

/// Why a text is no quantity.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum UnitError {
    /// A number without a unit.
    #[error("`{text}` has no unit; write for instance {example}")]
    Bare {
        /// What stood there.
        text: String,
        /// What could stand there.
        example: String,
    },
    /// A unit of something else.
    #[error("`{unit}` is no unit of {what}; use {known}, for instance {example}")]
    Unit {
        /// The unit that stood there.
        unit: String,
        /// What was wanted.
        what: &'static str,
        /// The units that are understood.
        known: &'static str,
        /// What could stand there.
        example: &'static str,
    },
    /// No number at all.
    #[error("`{text}` is not {what}; write for instance {example}")]
    Shape {
        /// What stood there.
        text: String,
        /// What was wanted.
        what: &'static str,
        /// What could stand there.
        example: &'static str,
    },
    /// Negative, zero where that makes no sense, or too large.
    #[error("`{text}` is out of range: {bounds}")]
    Range {
        /// What stood there.
        text: String,
        /// What is allowed.
        bounds: &'static str,
    },
}

/// What a quantity is called and how it is written.
struct Quantity {
    what: &'static str,
    known: &'static str,
    example: &'static str,
    /// Unit and how many base units it is.
    units: &'static [(&'static str, u64)],
}

const SPAN: Quantity = Quantity {
    what: "a duration",
    known: "ns, us, ms, s, min, h",
    example: "`10s`",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};

const SIZE: Quantity = Quantity {
    what: "a size",
    known: "B, kB, MB, GB, KiB, MiB, GiB",
    example: "`1000B`",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
};

const BIT_RATE: Quantity = Quantity {
    what: "a bit rate",
    known: "bit/s, kbit/s, Mbit/s, Gbit/s",
    example: "`100Mbit/s`",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
    ],
};

impl Quantity {
    /// Reads `1.5ms` as whole base units, exactly (nine decimals at most), or fails in words.
    fn read(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let shape = || UnitError::Shape { text: trimmed.to_owned(), what: self.what, example: self.example };
        if trimmed.starts_with('-') {
            return Err(UnitError::Range { text: trimmed.to_owned(), bounds: "it cannot be negative" });
        }
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
        if number.is_empty() {
            return Err(shape());
        }
        if unit.is_empty() {
            let example =
                format!("`{}{}`", trimmed, self.example.trim_start_matches(['`', '0', '1', '5']).trim_end_matches('`'));
            return Err(UnitError::Bare { text: trimmed.to_owned(), example });
        }
        let Some(&(_, scale)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(UnitError::Unit {
                unit: unit.to_owned(),
                what: self.what,
                known: self.known,
                example: self.example,
            });
        };
        scaled(&number, scale)
            .ok_or_else(shape)?
            .ok_or(UnitError::Range { text: trimmed.to_owned(), bounds: "it is too large" })
    }
}

/// `number × scale` in whole units, rounded down: outer `None` if it is no number, inner `None` if it overflows.
fn scaled(number: &str, scale: u64) -> Option<Option<u64>> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if decimals.len() > 9 || (number.contains('.') && decimals.is_empty()) {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u128 = if decimals.is_empty() { 0 } else { decimals.parse().ok()? };
    let ten = 10_u128.pow(decimals.len() as u32);
    let total = whole.checked_mul(u128::from(scale)).and_then(|w| w.checked_add(fraction * u128::from(scale) / ten));
    Some(total.and_then(|t| u64::try_from(t).ok()))
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SPAN.read(text).map(Span::from_nanos)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.read(text).map(ByteSize)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match BIT_RATE.read(text)? {
            0 => Err(UnitError::Range { text: text.trim().to_owned(), bounds: "it must be above zero" }),
            bits => Ok(BitRate(bits)),
        }
    }
}

impl FromStr for ByteRange {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some((low, high)) = text.split_once("..") else {
            return text.parse().map(|size| ByteRange { min: size, max: size });
        };
        let (min, max) = (low.parse()?, high.parse()?);
        if min > max {
            return Err(UnitError::Range { text: text.trim().to_owned(), bounds: "the smaller size comes first" });
        }
        Ok(ByteRange { min, max })
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WHAT: &str = "a rate";
        const EXAMPLE: &str = "`25/s`";
        let trimmed = text.trim();
        let shape = || UnitError::Shape { text: trimmed.to_owned(), what: WHAT, example: EXAMPLE };
        let spelled = trimmed.strip_suffix("rps").map(|n| (n, "s")).or_else(|| trimmed.split_once('/'));
        let Some((count, per)) = spelled else {
            let bare = !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || c == '.');
            let example = format!("`{trimmed}/s`");
            return Err(if bare { UnitError::Bare { text: trimmed.to_owned(), example } } else { shape() });
        };
        let range = || UnitError::Range {
            text: trimmed.to_owned(),
            bounds: "it must be above zero and at most 10^9 per second",
        };
        if count.trim().starts_with('-') {
            return Err(range());
        }
        let per: Span =
            if per.starts_with(|c: char| c.is_ascii_digit()) { per.parse()? } else { format!("1{per}").parse()? };
        // a count with decimals is made whole by stretching both sides of the fraction
        let decimals = count.trim().split_once('.').map_or(0, |(_, d)| d.len() as u32);
        let stretch = 10_u64.checked_pow(decimals).ok_or_else(shape)?;
        let events = scaled(count.trim(), stretch).ok_or_else(shape)?.ok_or_else(range)?;
        let per = Span::from_nanos(per.as_nanos().checked_mul(stretch).ok_or_else(range)?);
        Rate::new(events, per).map_err(|_| range())
    }
}

impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let trimmed = text.trim();
        let Some(number) = trimmed.strip_suffix('%') else {
            let bare = trimmed.parse::<f64>().is_ok();
            let text = trimmed.to_owned();
            return Err(if bare {
                UnitError::Bare { example: format!("`{text}%`"), text }
            } else {
                UnitError::Shape { text, what: "a share", example: "`1%`" }
            });
        };
        let percent: f64 = number.trim().parse().map_err(|_| UnitError::Shape {
            text: trimmed.to_owned(),
            what: "a share",
            example: "`1%`",
        })?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(UnitError::Range { text: trimmed.to_owned(), bounds: "a share lies between 0% and 100%" });
        }
        Ok(Fraction(percent / 100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!("10s".parse(), Ok(Span::from_secs(10)));
        assert_eq!("1.5ms".parse(), Ok(Span::from_nanos(1_500_000)));
        assert_eq!("2min".parse(), Ok(Span::from_secs(120)));
        assert_eq!("150kB".parse(), Ok(ByteSize(150_000)));
        assert_eq!("512MiB".parse(), Ok(ByteSize(512 << 20)));
        assert_eq!("1Gbit/s".parse(), Ok(BitRate(1_000_000_000)));
        assert_eq!("100kB..200kB".parse(), Ok(ByteRange { min: ByteSize(100_000), max: ByteSize(200_000) }));
        assert_eq!("250/s".parse(), Ok(Rate::per_second(250)));
        assert_eq!("100rps".parse(), Ok(Rate::per_second(100)));
        assert_eq!("0.1/s".parse::<Rate>().map(Rate::gap), Ok(Span::from_secs(10)));
        assert_eq!("30/min".parse::<Rate>().map(Rate::gap), Ok(Span::from_secs(2)));
        assert_eq!("1/20ms".parse::<Rate>().map(Rate::gap), Ok(Span::from_millis(20)));
        assert_eq!("1%".parse(), Ok(Fraction(0.01)));
    }

    #[test]
    fn errors_say_what_to_write() {
        let span = |t: &str| t.parse::<Span>().expect_err(t).to_string();
        assert_eq!(span("10"), "`10` has no unit; write for instance `10s`");
        assert_eq!(
            span("10 parsec"),
            "`parsec` is no unit of a duration; use ns, us, ms, s, min, h, for instance `10s`"
        );
        assert_eq!(span("-3s"), "`-3s` is out of range: it cannot be negative");
        assert_eq!(span("soon"), "`soon` is not a duration; write for instance `10s`");
        assert_eq!("25".parse::<Rate>().expect_err("bare").to_string(), "`25` has no unit; write for instance `25/s`");
        assert_eq!(
            "100".parse::<ByteSize>().expect_err("bare").to_string(),
            "`100` has no unit; write for instance `100B`"
        );
        assert!("0/s".parse::<Rate>().is_err());
        assert!("-1/s".parse::<Rate>().is_err());
        assert!("0bit/s".parse::<BitRate>().is_err());
        assert!("200kB..100kB".parse::<ByteRange>().is_err());
        assert!("101%".parse::<Fraction>().is_err());
        assert!("99999999999h".parse::<Span>().is_err());
    }

    #[test]
    fn a_rate_of_thirty_does_not_drift() {
        let rate = Rate::per_second(30);
        assert_eq!(rate.offset(30), Span::from_secs(1));
        assert_eq!(rate.offset(30 * 86_400), Span::from_secs(86_400));
    }
}
