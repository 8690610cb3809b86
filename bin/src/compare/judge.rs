//! The error of each figure, and whether it is inside of its bound.

use serde::Serialize;

use super::Bounds;
use super::side::{METRICS, NodeSide, Side, Times};

/// One figure of one node on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The node instance.
    pub node: String,
    /// `rate`, `cpu`, `lost`, or a time and its percentile such as `response p99`.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// Of the dry run.
    pub simulated: Option<f64>,
    /// Of the real run.
    pub emulated: Option<f64>,
    /// Dry run less real run, in `error_unit`.
    pub error: Option<f64>,
    /// `%` of the real one, or `points`.
    pub error_unit: &'static str,
    /// The largest error that is inside, either way; `None` if none is stated.
    pub bound: Option<f64>,
    /// Whether it is; `None` if it was not judged.
    pub inside: Option<bool>,
}

/// One second of one node on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecondRow {
    /// The node instance.
    pub node: String,
    /// Since the start of traffic.
    pub second: usize,
    /// Rate of the dry run, 1/s.
    pub rate_simulated: Option<f64>,
    /// Rate of the real run, 1/s.
    pub rate_emulated: Option<f64>,
    /// Error of the rate, % of the real one.
    pub rate_error_percent: Option<f64>,
    /// CPU load of the dry run, %.
    pub cpu_simulated: Option<f64>,
    /// CPU load of the real run, %.
    pub cpu_emulated: Option<f64>,
    /// Error of the CPU load, points.
    pub cpu_error_points: Option<f64>,
    /// Whether both are inside of the bounds, as far as they are known; `None` if neither is.
    pub inside: Option<bool>,
}

/// How a figure's error is told.
#[derive(Clone, Copy)]
enum Error {
    Percent,
    Points,
}

impl Error {
    /// The dry run less the real run; unknown where the real one is 0 and a share of it is asked for.
    fn of(self, simulated: Option<f64>, emulated: Option<f64>) -> Option<f64> {
        let (simulated, emulated) = (simulated?, emulated?);
        match self {
            Error::Points => Some(simulated - emulated),
            Error::Percent if simulated == emulated => Some(0.0),
            Error::Percent if emulated == 0.0 => None,
            Error::Percent => Some((simulated - emulated) * 100.0 / emulated),
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Error::Percent => "%",
            Error::Points => "points",
        }
    }
}

/// Every figure and every second of the nodes that both sides have.
pub fn all(simulated: &Side, emulated: &Side, bounds: Bounds) -> (Vec<Row>, Vec<SecondRow>) {
    let (mut rows, mut seconds) = (Vec::new(), Vec::new());
    for one in &simulated.nodes {
        let Some(other) = emulated.get(&one.node) else { continue };
        figures(one, other, bounds, &mut rows);
        let both = one.seconds.iter().filter_map(|(at, s)| Some((*at, *s, *other.seconds.get(at)?)));
        seconds.extend(both.map(|(at, s, e)| second(&one.node, at, s, e, bounds)));
    }
    (rows, seconds)
}

fn figures(one: &NodeSide, other: &NodeSide, bounds: Bounds, rows: &mut Vec<Row>) {
    let mut row = |figure: &str, unit, pair: [Option<f64>; 2], error: Error, bound: Option<f64>| {
        let [simulated, emulated] = pair;
        let found = error.of(simulated, emulated);
        // a real 0 that the dry run does not share has no share, and is outside all the same
        let missed = matches!((simulated, emulated), (Some(s), Some(e)) if s != e) && found.is_none();
        rows.push(Row {
            node: one.node.clone(),
            figure: figure.to_owned(),
            unit,
            simulated,
            emulated,
            error: found,
            error_unit: error.unit(),
            bound,
            inside: bound.and_then(|bound| found.map(|error| error.abs() <= bound).or(missed.then_some(false))),
        });
    };
    row("rate", "1/s", [one.rate, other.rate], Error::Percent, Some(bounds.rate_percent));
    row("cpu", "%", [one.cpu_percent, other.cpu_percent], Error::Points, Some(bounds.cpu_points));
    if one.lost_percent.is_some() || other.lost_percent.is_some() {
        row("lost", "%", [one.lost_percent, other.lost_percent], Error::Points, None);
    }
    for metric in METRICS {
        let (s, e) = (one.times.get(metric), other.times.get(metric));
        if s.is_none() && e.is_none() {
            continue;
        }
        // what a receiver takes without an analyzer is nothing in a dry run: its cost is that of receiving
        let judged = |bound| (metric != "handling").then_some(bound);
        let stats: [Stat; 4] = [
            ("p50", |t| t.p50, judged(bounds.p50_percent)),
            ("p90", |t| t.p90, None),
            ("p95", |t| t.p95, None),
            ("p99", |t| t.p99, judged(bounds.p99_percent)),
        ];
        for (name, of, bound) in stats {
            row(&format!("{metric} {name}"), "ns", [s.map(of), e.map(of)], Error::Percent, bound);
        }
    }
}

/// A percentile: its name, where it stands, and the largest error that is inside.
type Stat = (&'static str, fn(&Times) -> f64, Option<f64>);
/// Rate and CPU load.
type Load = (Option<f64>, Option<f64>);

fn second(node: &str, second: usize, simulated: Load, emulated: Load, bounds: Bounds) -> SecondRow {
    let rate = Error::Percent.of(simulated.0, emulated.0);
    let cpu = Error::Points.of(simulated.1, emulated.1);
    let inside = [rate.map(|e| e.abs() <= bounds.rate_percent), cpu.map(|e| e.abs() <= bounds.cpu_points)];
    SecondRow {
        node: node.to_owned(),
        second,
        rate_simulated: simulated.0,
        rate_emulated: emulated.0,
        rate_error_percent: rate,
        cpu_simulated: simulated.1,
        cpu_emulated: emulated.1,
        cpu_error_points: cpu,
        inside: inside.into_iter().flatten().reduce(|a, b| a && b),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::nodes::Role;

    fn node(rate: f64, cpu: Option<f64>, p50: f64) -> NodeSide {
        let times = Times { count: 9, p50, p90: p50, p95: p50, p99: p50 };
        NodeSide {
            node: "n".to_owned(),
            role: Role::Sender,
            repetitions: 1,
            rate: Some(rate),
            cpu_percent: cpu,
            sleeps: None,
            lost_percent: Some(0.0),
            times: BTreeMap::from([("response", times), ("handling", times)]),
            seconds: BTreeMap::from([(1, (Some(rate), cpu)), (2, (Some(rate), None))]),
        }
    }

    fn judged(one: NodeSide, other: NodeSide) -> (Vec<Row>, Vec<SecondRow>) {
        let side = |node| Side { nodes: vec![node], left_out: 0 };
        all(&side(one), &side(other), Bounds::default())
    }

    fn verdicts(rows: &[Row]) -> Vec<(&str, bool)> {
        rows.iter().filter_map(|row| Some((row.figure.as_str(), row.inside?))).collect()
    }

    #[test]
    fn errors_are_judged_by_their_own_bounds() {
        // 2 % exactly, 5 points exactly, 15 % exactly: all are still inside
        let (rows, seconds) = judged(node(102.0, Some(55.0), 115.0), node(100.0, Some(50.0), 100.0));
        let inside = [("rate", true), ("cpu", true), ("response p50", true), ("response p99", true)];
        assert_eq!(verdicts(&rows), inside);
        assert_eq!(seconds.iter().map(|s| s.inside).collect::<Vec<_>>(), [Some(true), Some(true)]);
        let (rows, seconds) = judged(node(97.9, Some(44.9), 131.0), node(100.0, Some(50.0), 100.0));
        assert!(verdicts(&rows).iter().all(|(_, inside)| !inside), "{rows:?}");
        assert_eq!(rows[0].error.map(|e| (e * 10.0).round()), Some(-21.0), "the dry run less the real one");
        assert!(seconds.iter().all(|s| s.inside == Some(false)));
    }

    #[test]
    fn what_one_side_does_not_know_is_not_judged() {
        let (rows, _) = judged(node(100.0, None, 100.0), node(100.0, Some(50.0), 100.0));
        assert!(!verdicts(&rows).iter().any(|(figure, _)| *figure == "cpu"));
        assert!(!verdicts(&rows).iter().any(|(figure, _)| figure.starts_with("handling")));
    }

    #[test]
    fn nothing_in_the_real_run_is_no_excuse() {
        let (rows, _) = judged(node(5.0, None, 1.0), node(0.0, None, 1.0));
        assert_eq!((rows[0].error, rows[0].inside), (None, Some(false)));
        let (rows, _) = judged(node(0.0, None, 1.0), node(0.0, None, 1.0));
        assert_eq!((rows[0].error, rows[0].inside), (Some(0.0), Some(true)));
    }
}
