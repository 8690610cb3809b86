//! A check for people: a row for each point, then every try.

use std::fmt::Write as _;

use rehearsal_export::Grid;

use super::{Check, Errors};

/// For people.
pub fn text(check: &Check) -> String {
    let b = check.bounds;
    let mut text = format!(
        "dry runs with {}, errors against real runs\nbounds: rate {} %, CPU {} points, p50 {} %, p99 {} %; at overload rate {} %\n\n",
        check.calibration, b.rate_percent, b.cpu_points, b.p50_percent, b.p99_percent, check.knee_percent
    );
    let heads = ["median errors", "1/s", "", "through the gate", "rate, %", "CPU receiver, points", "sender"];
    let times = ["service p50, %", "p99", "response p50, %", "p99"];
    let mut grid = Grid::new(&[&heads[..], &times[..]].concat());
    for point in &check.points {
        let passed = format!("{} of {}", point.passed, point.tries.len());
        let mut row = vec![point.point.clone(), format!("{:.0}", point.offered), point.verdict.to_owned(), passed];
        row.extend(cells(&point.errors));
        grid.row(row);
    }
    let _ = write!(text, "{grid}\nevery try\n");
    let heads =
        ["", "try", "rate, %", "CPU receiver, points", "sender", "service p50, %", "p99", "response p50, %", "p99", ""];
    let mut grid = Grid::new(&heads);
    for point in &check.points {
        for (number, tried) in (1..).zip(&point.tries) {
            let mut row = vec![point.point.clone(), number.to_string()];
            row.extend(cells(&tried.errors));
            row.push(if tried.objections.is_empty() { "passed".to_owned() } else { tried.objections.join("; ") });
            grid.row(row);
        }
    }
    let _ = write!(text, "{grid}");
    text
}

fn cells(errors: &Errors) -> [String; 7] {
    let Errors {
        rate_percent,
        receiver_cpu_points,
        sender_cpu_points,
        service_p50_percent,
        service_p99_percent,
        response_p50_percent,
        response_p99_percent,
    } = *errors;
    let all = [
        rate_percent,
        receiver_cpu_points,
        sender_cpu_points,
        service_p50_percent,
        service_p99_percent,
        response_p50_percent,
        response_p99_percent,
    ];
    all.map(|error| error.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1}")))
}
