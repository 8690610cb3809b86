//! A comparison for people and for spreadsheets.

use std::fmt::Write as _;

use rehearsal_export::Grid;
use rehearsal_scenario::printable;

use super::{Comparison, Head, Row};
use crate::analysis::number::fixed;
use crate::analysis::quoted;

/// For people; `seconds` adds those one by one.
pub fn text(c: &Comparison, seconds: bool) -> String {
    let mut text = format!("{}  {}\n", verdict(c), printable(&c.experiment));
    for head in [&c.simulated, &c.emulated] {
        line(&mut text, &format!("  {:<9}  {}", head.engine, told(head)));
    }
    for note in &c.notes {
        line(&mut text, &format!("  note       {}", printable(note)));
    }
    let mut grid = Grid::new(&["node", "figure", "simulated", "emulated", "error", "bound", ""]);
    for row in &c.rows {
        grid.row(cells(row));
    }
    let _ = write!(text, "\n{grid}");
    let known = || c.seconds.iter().filter_map(|second| second.inside);
    if known().count() > 0 {
        let inside = known().filter(|inside| *inside).count();
        line(&mut text, &format!("\n{inside} of {} seconds of nodes are inside, rate and CPU load", known().count()));
    }
    if seconds {
        let _ = write!(text, "\n{}", by_second(c));
    }
    text
}

fn verdict(c: &Comparison) -> String {
    match (c.judged, c.outside) {
        (0, _) => "NOT JUDGED".to_owned(),
        (all, 0) => format!("INSIDE  {all} of {all} figures"),
        (all, outside) => format!("OUTSIDE  {outside} of {all} figures"),
    }
}

fn told(head: &Head) -> String {
    let n = head.bundles.len();
    let first = head.bundles.first().map_or("", String::as_str);
    let more = if n > 1 { format!(" and {} more", n - 1) } else { String::new() };
    let by = head.calibration.as_ref().map(|title| format!(", calibrated by {title}")).unwrap_or_default();
    printable(&format!("{}, {first}{more}{by}", head.status.word()))
}

fn cells(row: &Row) -> Vec<String> {
    let value = |value: Option<f64>| match (value, row.unit) {
        (None, _) => "unknown".to_owned(),
        (Some(ns), "ns") => format!("{} ms", fixed(ns / 1e6, 3)),
        (Some(value), unit) => format!("{} {unit}", fixed(value, 2)),
    };
    let error = row.error.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1} {}", row.error_unit));
    let bound = row.bound.map_or_else(String::new, |bound| format!("± {bound} {}", row.error_unit));
    let inside = match row.inside {
        None => "",
        Some(true) => "inside",
        Some(false) => "OUTSIDE",
    };
    let (node, figure) = (printable(&row.node), row.figure.clone());
    vec![node, figure, value(row.simulated), value(row.emulated), error, bound, inside.to_owned()]
}

fn by_second(c: &Comparison) -> Grid {
    let heads =
        ["node", "second", "rate simulated", "emulated", "error, %", "CPU simulated, %", "emulated", "points", ""];
    let mut grid = Grid::new(&heads);
    for second in &c.seconds {
        let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| fixed(value, 1));
        let mut row = vec![printable(&second.node), second.second.to_string()];
        row.extend([second.rate_simulated, second.rate_emulated, second.rate_error_percent].map(cell));
        row.extend([second.cpu_simulated, second.cpu_emulated, second.cpu_error_points].map(cell));
        row.push(if second.inside == Some(false) { "OUTSIDE".to_owned() } else { String::new() });
        grid.row(row);
    }
    grid
}

/// For spreadsheets: figures of the whole run have no second.
pub fn csv(c: &Comparison) -> String {
    let mut text = "experiment,node,second,figure,unit,simulated,emulated,error,error_unit,bound,inside\n".to_owned();
    let cell = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let word = |inside: Option<bool>| inside.map(|inside| inside.to_string()).unwrap_or_default();
    let mut push = |cells: [String; 11]| line(&mut text, &cells.map(|cell| quoted(&cell)).join(","));
    for row in &c.rows {
        let Row { node, figure, unit, simulated, emulated, error, error_unit, bound, inside } = row.clone();
        let unknown = [cell(simulated), cell(emulated), cell(error)];
        let [s, e, error] = unknown;
        let (experiment, unit, error_unit) = (c.experiment.clone(), unit.to_owned(), error_unit.to_owned());
        push([experiment, node, String::new(), figure, unit, s, e, error, error_unit, cell(bound), word(inside)]);
    }
    for second in &c.seconds {
        let rate = (second.rate_simulated, second.rate_emulated, second.rate_error_percent);
        let cpu = (second.cpu_simulated, second.cpu_emulated, second.cpu_error_points);
        let pairs =
            [("rate", "1/s", rate, "%", c.bounds.rate_percent), ("cpu", "%", cpu, "points", c.bounds.cpu_points)];
        for (figure, unit, (s, e, error), error_unit, bound) in pairs {
            let inside = error.map(|error: f64| error.abs() <= bound);
            let [experiment, node] = [&c.experiment, &second.node].map(String::clone);
            let [figure, unit, error_unit] = [figure, unit, error_unit].map(str::to_owned);
            let (at, bound) = (second.second.to_string(), bound.to_string());
            push([experiment, node, at, figure, unit, cell(s), cell(e), cell(error), error_unit, bound, word(inside)]);
        }
    }
    text
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
