//! Numbers with three digits and their unit.

use rehearsal_core::messages::Metric;

use crate::threshold::Threshold;

/// A time, from nanoseconds to seconds.
pub(crate) fn nanos(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// A length of time in seconds, to the millisecond.
pub(crate) fn seconds(s: f64) -> String {
    let text = format!("{s:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// A rate.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", digits(per_second))
}

/// A measured value in the unit of its threshold.
pub(crate) fn of(threshold: &Threshold, value: f64) -> String {
    let is_time = Metric::ALL.iter().any(|m| m.name() == threshold.metric);
    match threshold.stat.as_str() {
        "ratio" => format!("{} %", digits(value * 100.0)),
        "rate" => rate(value),
        "count" => format!("{value:.0}"),
        _ if is_time => nanos(value),
        _ => digits(value),
    }
}

/// At least three significant digits, no more after the point than that takes.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_that_suits_them() {
        let table = [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1500.0, "1.50 µs"),
            (20_400_000.0, "20.4 ms"),
            (1.27e9, "1.27 s"),
            (3.6e12, "3600 s"),
        ];
        for (ns, text) in table {
            assert_eq!(nanos(ns), text);
        }
        assert_eq!((seconds(60.0), seconds(1.25), rate(25.0)), ("60 s".into(), "1.25 s".into(), "25.0/s".into()));
    }
}
