//! The sweep as one table: a row for each dry run, parameters first, then what came out.

use rehearsal_export::{NamedColumn, Values};

use super::file::quantity_of;
use super::journal::{Entry, STATISTICS, TIMES};
use super::points::Point;

/// A row: its point, repetition and result.
pub struct Row<'a> {
    /// Number of the point, from 0.
    pub point: usize,
    /// Its parameters.
    pub values: &'a Point,
    /// The repetition, from 1.
    pub repetition: u32,
    /// What came out.
    pub entry: &'a Entry,
}

/// The columns of all rows.
pub fn columns(paths: &[&str], rows: &[Row<'_>]) -> Vec<NamedColumn> {
    let named = |name: String, values| NamedColumn { name, values };
    let ints = |of: &dyn Fn(&Row<'_>) -> Option<i64>| Values::Int(rows.iter().map(of).collect());
    let reals = |of: &dyn Fn(&Row<'_>) -> Option<f64>| Values::Real(rows.iter().map(of).collect());
    let texts = |of: &dyn Fn(&Row<'_>) -> String| Values::Text(rows.iter().map(|row| Some(of(row))).collect());
    let mut all = vec![
        named("point".to_owned(), ints(&|row| Some(row.point as i64))),
        named("repetition".to_owned(), ints(&|row| Some(i64::from(row.repetition)))),
    ];
    all.extend(paths.iter().enumerate().map(|(at, path)| parameter(path, at, rows)));
    all.push(named("status".to_owned(), texts(&|row| row.entry.status.clone())));
    all.push(named("reasons".to_owned(), texts(&|row| row.entry.reasons.join(" "))));
    all.push(named("thresholds_held".to_owned(), ints(&|row| Some(row.entry.thresholds.0 as i64))));
    all.push(named("thresholds".to_owned(), ints(&|row| Some(row.entry.thresholds.1 as i64))));
    all.push(named("seconds".to_owned(), reals(&|row| Some(row.entry.seconds))));
    let Some(first) = rows.first() else { return all };
    for name in first.entry.counts.keys() {
        all.push(named(name.clone(), ints(&|row| row.entry.counts.get(name).map(|n| *n as i64))));
    }
    for name in first.entry.rates.keys() {
        all.push(named(format!("{name}_per_second"), reals(&|row| row.entry.rates.get(name).copied())));
    }
    for time in TIMES.iter().flat_map(|metric| STATISTICS.map(|statistic| format!("{metric}_{statistic}"))) {
        all.push(named(format!("{time}_ms"), reals(&|row| row.entry.times.get(&time).copied())));
    }
    all.push(named("events".to_owned(), ints(&|row| Some(row.entry.events as i64))));
    all.push(named("fingerprint".to_owned(), texts(&|row| row.entry.fingerprint.clone())));
    all.push(named("schedule_digest".to_owned(), texts(&|row| row.entry.schedule.clone())));
    all
}

/// A parameter's column: numbers where all values are numbers with one unit, which is then part of the name.
fn parameter(path: &str, at: usize, rows: &[Row<'_>]) -> NamedColumn {
    let numbers: Option<Vec<_>> = rows.iter().map(|row| quantity_of(&row.values[at])).collect();
    let numbers = numbers.filter(|all| all.windows(2).all(|w| w[0].unit == w[1].unit));
    let Some(numbers) = numbers else {
        let text = |row: &Row<'_>| Some(row.values[at].trim_matches('"').to_owned());
        return NamedColumn { name: path.to_owned(), values: Values::Text(rows.iter().map(text).collect()) };
    };
    let unit = numbers.first().map(|n| n.unit.as_str()).filter(|unit| !unit.is_empty());
    let name = unit.map_or(path.to_owned(), |unit| format!("{path} [{unit}]"));
    NamedColumn { name, values: Values::Real(numbers.into_iter().map(|n| Some(n.number)).collect()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn parameters_are_numbers_with_a_unit_or_text() {
        let entry = Entry {
            key: String::new(),
            status: "VALID".to_owned(),
            reasons: vec!["a".to_owned(), "b".to_owned()],
            thresholds: (1, 2),
            seconds: 1.0,
            counts: BTreeMap::from([("success".to_owned(), 7)]),
            rates: BTreeMap::new(),
            times: BTreeMap::from([("response_p99".to_owned(), 2.5)]),
            events: 3,
            fingerprint: "f".to_owned(),
            schedule: "s".to_owned(),
        };
        let points: Vec<Point> = [["4", "\"5ms\"", "\"udp\""], ["8", "\"20ms\"", "\"http1\""]]
            .map(|p| p.map(str::to_owned).to_vec())
            .to_vec();
        let row = |(point, values)| Row { point, values, repetition: 1, entry: &entry };
        let rows: Vec<Row<'_>> = points.iter().enumerate().map(row).collect();
        let all = columns(&["n", "delay", "carrier"], &rows);
        let of = |name: &str| all.iter().find(|c| c.name == name).map(|c| c.values.clone());
        assert_eq!(of("n"), Some(Values::Real(vec![Some(4.0), Some(8.0)])));
        assert_eq!(of("delay [ms]"), Some(Values::Real(vec![Some(5.0), Some(20.0)])));
        assert_eq!(of("carrier"), Some(Values::Text(vec![Some("udp".to_owned()), Some("http1".to_owned())])));
        assert_eq!(of("response_p99_ms"), Some(Values::Real(vec![Some(2.5); 2])));
        assert_eq!(of("handling_p50_ms"), Some(Values::Real(vec![None; 2])));
        assert_eq!(of("reasons"), Some(Values::Text(vec![Some("a b".to_owned()); 2])));
    }
}
