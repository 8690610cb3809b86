//! Where a sweep saturates: what got through against what was offered, along each parameter that changes the load.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rehearsal_stats::Knee;
use rehearsal_stats::knee::{ACHIEVED_SHARE, knee};
use rehearsal_stats::ndarray::Array1;
use serde::Serialize;

use super::file::quantity_of;
use super::table::Row;

/// Lines that are printed; the file has all.
const LINES_MAX: usize = 12;

/// One line through the points: a parameter, with all others at one value.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The parameter.
    pub parameter: String,
    /// Its unit.
    pub unit: String,
    /// The others.
    pub others: BTreeMap<String, String>,
    /// Its values, what was offered and what got through per second, means over repetitions.
    pub points: Vec<Load>,
    /// Where it saturates, by what was offered.
    pub knee: Knee,
    /// The parameter's value there, if that lies between two.
    pub at: Option<f64>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// The parameter's value.
    pub value: f64,
    /// Came due, 1/s.
    pub offered_per_second: f64,
    /// Succeeded, or arrived, 1/s.
    pub achieved_per_second: f64,
}

/// Every line along which the load changes; a parameter that is no number, or changes no load, has none.
pub fn lines(paths: &[&str], rows: &[Row<'_>]) -> Vec<Line> {
    let mut all = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let mut groups: BTreeMap<Vec<&str>, Vec<&Row<'_>>> = BTreeMap::new();
        for row in rows {
            let others = row.values.iter().enumerate().filter(|(other, _)| *other != at);
            groups.entry(others.map(|(_, value)| value.as_str()).collect()).or_default().push(row);
        }
        for (others, rows) in groups {
            let names = paths.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, path)| (*path).to_owned());
            let others = names.zip(others.into_iter().map(|value| value.trim_matches('"').to_owned())).collect();
            all.extend(line((at, *path), others, &rows));
        }
    }
    all
}

fn line((at, path): (usize, &str), others: BTreeMap<String, String>, rows: &[&Row<'_>]) -> Option<Line> {
    let mut unit = None;
    // by the bits of a value above zero, which are in its order
    let mut sums: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
    for row in rows {
        let value = quantity_of(&row.values[at]).filter(|value| value.number > 0.0)?;
        if unit.get_or_insert_with(|| value.unit.clone()) != &value.unit {
            return None;
        }
        let rate = |name: &str| row.entry.counts.get(name).map(|count| *count as f64 / row.entry.seconds);
        let sum = sums.entry(value.number.to_bits()).or_default();
        *sum = (sum.0 + rate("generated")?, sum.1 + rate("success")?, sum.2 + 1.0);
    }
    let points: Vec<Load> = sums
        .into_iter()
        .map(|(bits, (offered, achieved, runs))| Load {
            value: f64::from_bits(bits),
            offered_per_second: offered / runs,
            achieved_per_second: achieved / runs,
        })
        .collect();
    let rises = points.windows(2).all(|pair| pair[1].offered_per_second > pair[0].offered_per_second);
    let offered: Array1<f64> = points.iter().map(|point| point.offered_per_second).collect();
    let achieved: Array1<f64> = points.iter().map(|point| point.achieved_per_second).collect();
    let knee = knee(offered.view(), achieved.view(), ACHIEVED_SHARE).ok().filter(|_| rises)?;
    let value = match knee {
        Knee::Between { estimate, .. } => points.windows(2).find_map(|pair| {
            let [low, high] = [pair[0], pair[1]];
            let share = (estimate - low.offered_per_second) / (high.offered_per_second - low.offered_per_second);
            (0.0..=1.0).contains(&share).then_some(low.value + share * (high.value - low.value))
        }),
        _ => None,
    };
    Some(Line { parameter: path.to_owned(), unit: unit.unwrap_or_default(), others, points, knee, at: value })
}

/// For people; empty if there is none.
pub fn told(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines.iter().take(LINES_MAX) {
        let Line { parameter, unit, points, .. } = line;
        let others: Vec<String> = line.others.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let with = if others.is_empty() { String::new() } else { format!(", {}", others.join(", ")) };
        let percent = ACHIEVED_SHARE * 100.0;
        let _ = match line.knee {
            Knee::NotReached { highest } => writeln!(
                text,
                "no knee along {parameter}{with}: {percent:.0} % and more get through up to {highest:.1}/s offered"
            ),
            Knee::BelowAll { lowest, ceiling } => writeln!(
                text,
                "knee along {parameter}{with}: below all of its values; of {lowest:.1}/s offered less than {percent:.0} % get \
                 through, at most {ceiling:.1}/s of any"
            ),
            Knee::Between { below, above, estimate, ceiling } => {
                let value = |offered: f64| {
                    points
                        .iter()
                        .find(|point| point.offered_per_second == offered)
                        .map_or(f64::NAN, |point| point.value)
                };
                writeln!(
                    text,
                    "knee along {parameter}{with}: between {}{unit} and {}{unit}, about {:.0}{unit}, where {percent:.0} % of \
                     {estimate:.1}/s offered get through; at most {ceiling:.1}/s do",
                    value(below),
                    value(above),
                    line.at.unwrap_or(f64::NAN),
                )
            }
        };
    }
    if lines.len() > LINES_MAX {
        let _ = writeln!(text, "and {} more lines", lines.len() - LINES_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::journal::Entry;
    use super::*;

    fn entry(generated: u64, success: u64) -> Entry {
        Entry {
            key: String::new(),
            status: "VALID".to_owned(),
            reasons: Vec::new(),
            thresholds: (0, 0),
            seconds: 10.0,
            counts: BTreeMap::from([("generated".to_owned(), generated), ("success".to_owned(), success)]),
            rates: BTreeMap::new(),
            times: BTreeMap::new(),
            events: 0,
            fingerprint: String::new(),
            schedule: String::new(),
        }
    }

    #[test]
    fn a_line_has_its_knee_in_the_parameters_own_unit() {
        // shares 1, 1, 0.92, 0.675: 98 % is a quarter of the way from 200 to 300 users
        let through = [(100_u64, 1000_u64), (200, 2000), (300, 2760), (400, 2700)];
        let entries: Vec<Entry> = through.iter().map(|(users, success)| entry(users * 10, *success)).collect();
        let values: Vec<Vec<String>> =
            through.iter().map(|(users, _)| vec![users.to_string(), "\"udp\"".to_owned()]).collect();
        let rows: Vec<Row<'_>> = entries
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(point, (entry, values))| Row { point, values, repetition: 1, entry })
            .collect();
        let lines = lines(&["users", "carrier"], &rows);
        let [line] = &lines[..] else { panic!("a carrier is no load: {lines:?}") };
        assert_eq!((line.parameter.as_str(), line.others["carrier"].as_str(), line.points.len()), ("users", "udp", 4));
        assert!(line.at.is_some_and(|at| (at - 225.0).abs() < 1e-9), "{line:?}");
        let text = told(&lines);
        assert!(text.contains("between 200 and 300, about 225, where 98 % of 225.0/s"), "{text}");
    }
}
