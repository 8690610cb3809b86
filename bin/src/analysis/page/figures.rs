//! The plots of a page, each with its caption; a plot without points is left out.

use super::super::Analysis;
use super::super::plots::{Plots, Points};
use super::super::tables::Related;
use super::chart::{Axis, Chart, Mark, Shape, escape};

/// Rate over time.
pub fn throughput(plots: &Plots) -> String {
    let several = plots.received.len().max(plots.sent.len()) > 1;
    let shape = || if several { Shape::Thin } else { Shape::Line };
    let mut marks = Vec::new();
    for (name, colour, curves) in [("senders", 1, &plots.sent), ("receivers", 0, &plots.received)] {
        for (at, points) in curves.iter().enumerate() {
            let name = if at == 0 { name.to_owned() } else { String::new() };
            marks.push(Mark { name, shape: shape(), colour, points: points.clone() });
        }
    }
    let Some((seconds, rate)) = extent(&marks) else { return String::new() };
    let chart = Chart {
        title: "Rate over time".to_owned(),
        x: Axis::linear("time since the start of traffic, s", 0.0, seconds),
        y: Axis::linear("requests/s", 0.0, rate),
        marks,
    };
    let each = match plots.seconds_per_point {
        1 => "one point per second".to_owned(),
        n => format!("one point per {n} s, their mean"),
    };
    let curves = if several { ", one curve for each repetition" } else { "" };
    figure(
        "Throughput over time",
        &chart,
        &format!(
            "Requests that receivers served and senders saw succeed; {each}{curves}, without the last, partial second."
        ),
    )
}

/// Times by percentile.
pub fn spectrum(plots: &Plots) -> String {
    let at = |share: f64| -(1.0 - share).max(1e-9).log10();
    let shapes = [Shape::Line, Shape::Dashes, Shape::Line, Shape::Dashes, Shape::Line];
    let curve = |((name, points), (colour, shape)): (&(&str, Points), (usize, Shape))| {
        // a logarithmic axis begins above nothing
        let points = points.iter().map(|(share, ns)| (at(*share), ns.max(1e3))).collect();
        Mark { name: (*name).to_owned(), shape, colour, points }
    };
    let marks: Vec<Mark> = plots.spectrum.iter().zip(shapes.into_iter().enumerate()).map(curve).collect();
    let Some((decades, ns)) = extent(&marks) else { return String::new() };
    let low = marks.iter().flat_map(|mark| &mark.points).map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    let shares =
        [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")];
    let ticks = shares.into_iter().filter(|(share, _)| at(*share) <= decades * 1.001);
    let chart = Chart {
        title: "Times by percentile".to_owned(),
        x: Axis::with_ticks(
            "percentile, %",
            0.0,
            decades,
            ticks.map(|(share, text)| (at(share), text.to_owned())).collect(),
        ),
        y: Axis::log("time", low, ns, nanos),
        marks,
    };
    let text = "Response counts from when a request was meant to leave, service from when it left; handling is the receiver's, \
                lag the generator's own delay. All repetitions merged exactly, measured seconds only; logarithmic, and no \
                further than the number of values reaches.";
    figure("Latency spectrum", &chart, text)
}

/// CPU load against rate, with the line through the seconds without ramps.
pub fn cloud(plots: &Plots, analysis: &Analysis) -> String {
    let mut marks = vec![
        Mark { name: "ramps".to_owned(), shape: Shape::Rings, colour: 1, points: plots.ramps.clone() },
        Mark { name: "without ramps".to_owned(), shape: Shape::Dots, colour: 0, points: plots.steady.clone() },
    ];
    marks.retain(|mark| !mark.points.is_empty());
    let (Some((rate, cpu)), Some((least_rate, least_cpu))) = (extent(&marks), least(&marks)) else {
        return String::new();
    };
    let receiver = analysis.nodes.first();
    let line = receiver.and_then(|row| match &row.steady {
        Related::Known(relation) => Some(relation),
        Related::Unknown { .. } => None,
    });
    let mut fitted = String::new();
    if let Some(relation) = line {
        let n = relation.lines.len() as f64;
        let mean = |of: fn(&rehearsal_stats::Line) -> f64| relation.lines.iter().map(of).sum::<f64>() / n;
        let (slope, intercept) = (mean(|l| l.slope), mean(|l| l.intercept));
        let ends = |points: &Points| {
            points.iter().map(|(rate, _)| *rate).fold((f64::INFINITY, 0.0), |(a, b), x| (a.min(x), f64::max(b, x)))
        };
        let (from, to) = ends(&plots.steady);
        let points = [from, to].map(|x| (x, intercept + slope * x)).to_vec();
        marks.push(Mark { name: "least squares".to_owned(), shape: Shape::Line, colour: 4, points });
        fitted = format!(" The line is CPU = {intercept:.2} + {slope:.4} · rate, R² = {:.3}", mean(|l| l.r_squared));
        fitted += if relation.lines.len() > 1 { ", the mean of the repetitions' lines." } else { "." };
    }
    let thinned =
        if plots.cloud_step > 1 { format!(" Every {}th second is drawn.", plots.cloud_step) } else { String::new() };
    let node = receiver.map_or("receiver", |row| row.node.as_str());
    let chart = Chart {
        title: format!("CPU load of {node} against its rate"),
        x: Axis::linear("requests/s", least_rate, rate),
        y: Axis::linear("CPU load, %", least_cpu, cpu),
        marks,
    };
    figure(
        &format!("CPU load against rate, {}", escape(node)),
        &chart,
        &format!("One point per second; CPU load is of the cores that the node is allowed.{fitted}{thinned}"),
    )
}

/// Delays of sending actors over time, and their spread.
pub fn delays(plots: &Plots) -> String {
    let curve = |at: usize, name: String, shape, points: &Points| {
        let points = points.iter().map(|(x, ns)| (*x, ns.max(1e3))).collect();
        Mark { name, shape, colour: at % 5, points }
    };
    let told = plots.delays.iter().take(5).enumerate();
    let over_time: Vec<Mark> = told
        .clone()
        .flat_map(|(at, row)| {
            let [median, high] = &row.over_time;
            [curve(at, row.name.clone(), Shape::Line, median), curve(at, String::new(), Shape::Dashes, high)]
        })
        .collect();
    let least_ns =
        |marks: &[Mark]| marks.iter().flat_map(|mark| &mark.points).fold(f64::INFINITY, |low, (_, ns)| low.min(*ns));
    let Some((seconds, ns)) = extent(&over_time) else { return String::new() };
    let chart = Chart {
        title: "Delay over time".to_owned(),
        x: Axis::linear("time since the start of traffic, s", 0.0, seconds),
        y: Axis::log("delay", least_ns(&over_time), ns, nanos),
        marks: over_time,
    };
    let text = "Median, and dashed the 99th percentile, of each sending actor in the first repetition: of requests the response, of \
                datagrams the time on the way.";
    let first = figure("Delay over time, by class", &chart, text);
    let share = |point: &(f64, f64)| (point.1.max(1e3), point.0 * 100.0);
    let spread = told.map(|(at, row)| {
        let points = row.spectrum.iter().map(share).collect();
        Mark { name: row.name.clone(), shape: Shape::Line, colour: at % 5, points }
    });
    let spread: Vec<Mark> = spread.collect();
    let (Some((most, _)), Some((low, _))) = (extent(&spread), least(&spread)) else { return first };
    let chart = Chart {
        title: "Distribution of delay".to_owned(),
        x: Axis::log("delay", low, most, nanos),
        y: Axis::linear("values below, %", 0.0, 100.0),
        marks: spread,
    };
    first + &figure("Distribution of delay, by class", &chart, "All repetitions merged exactly, measured seconds only.")
}

/// Variance of rates over blocks of time, where there is one.
pub fn variance_time(analysis: &Analysis) -> String {
    let told = analysis.users.memory.iter().filter(|row| row.repetition == 1);
    let log = |value: f64| value.max(1e-12).log10();
    let marks: Vec<Mark> = told
        .filter_map(|row| row.found.as_ref().map(|found| (row, found)))
        .enumerate()
        .map(|(colour, (row, found))| {
            let points = found.points.iter().map(|(length, share)| (log(*length as f64), log(*share))).collect();
            Mark { name: format!("{}s", row.role.word()), shape: Shape::Line, colour, points }
        })
        .collect();
    let (Some((longest, _)), Some((_, lowest))) = (extent(&marks), least(&marks)) else { return String::new() };
    let power = |at: i32| (f64::from(at), format!("10^{at}"));
    let mut chart = Chart {
        title: "Variance of the rate by block length".to_owned(),
        x: Axis::with_ticks("block length, s", 0.0, longest, (0..=longest as i32).map(power).collect()),
        y: Axis::with_ticks(
            "variance of block means",
            lowest.min(-1.0),
            0.0,
            (lowest.floor() as i32..=0).map(power).collect(),
        ),
        marks,
    };
    let fall = (-lowest).min(longest);
    chart.marks.push(Mark {
        name: "no memory".to_owned(),
        shape: Shape::Dashes,
        colour: 4,
        points: vec![(0.0, 0.0), (fall, -fall)],
    });
    let text = "Over that of single seconds, both axes logarithmic, in the first repetition. Independent seconds fall with 1 / m, as the \
                dashed line; what falls more slowly has a long memory.";
    figure("Variance over time", &chart, text)
}

/// Memory over time.
pub fn memory(plots: &Plots) -> String {
    let mark = |(at, (node, points)): (usize, &(String, Points))| {
        let shape = if at < 5 { Shape::Line } else { Shape::Dashes };
        Mark { name: if at < 6 { node.clone() } else { String::new() }, shape, colour: at % 5, points: points.clone() }
    };
    let marks: Vec<Mark> = plots.memory.iter().take(10).enumerate().map(mark).collect();
    let Some((seconds, megabytes)) = extent(&marks) else { return String::new() };
    let chart = Chart {
        title: "Memory over time".to_owned(),
        x: Axis::linear("time since the start of traffic, s", 0.0, seconds),
        y: Axis::linear("resident memory, MB", 0.0, megabytes),
        marks,
    };
    figure("Memory over time", &chart, "Of each node, in the first repetition.")
}

/// The largest coordinates; `None` if there is no point.
fn extent(marks: &[Mark]) -> Option<(f64, f64)> {
    let points = marks.iter().flat_map(|mark| &mark.points);
    points.copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// The smallest coordinates; `None` if there is no point.
fn least(marks: &[Mark]) -> Option<(f64, f64)> {
    let points = marks.iter().flat_map(|mark| &mark.points);
    points.copied().reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
}

fn figure(heading: &str, chart: &Chart, caption: &str) -> String {
    format!("<h3>{heading}</h3><figure>{}<figcaption>{}</figcaption></figure>\n", chart.svg(), escape(caption))
}

fn nanos(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => format!("{} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{} ms", ns / 1e6),
        ns => format!("{} s", ns / 1e9),
    }
}
