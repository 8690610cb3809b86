//! A report for people: the verdict first, then what the paper claims, then the tables.

use std::fmt::Write as _;

use rehearsal_export::{Grid, Severity};
use rehearsal_scenario::printable;
use rehearsal_stats::standards::names::Name;
use rehearsal_stats::standards::rfc5481::Quantiles;
use rehearsal_stats::{Described, Held};

use super::machines;
use super::network::{self, Datagrams};
use super::number::{decimals, fixed, p_value};
use super::tables::{Coefficient, Figure, NodeRow, Related, Relation};
use super::{Analysis, claims::Judged};

/// All analyses, one below the other.
pub fn of(analyses: &[Analysis]) -> String {
    let texts: Vec<String> = analyses.iter().map(one).collect();
    texts.join("\n")
}

fn one(analysis: &Analysis) -> String {
    let mut text = format!("{}  {}\n", analysis.status.word(), headline(analysis));
    for doubt in &analysis.doubts {
        let word = severity(doubt.severity);
        let (n, all) = (doubt.repetitions, analysis.bundles.len());
        let of = if all > 1 { format!(" ({n} of {all} repetitions)") } else { String::new() };
        line(&mut text, &format!("  {word:<8}  {}{of}: {}", doubt.code, printable(&doubt.text)));
    }
    for note in &analysis.notes {
        line(&mut text, &format!("  note      {}", printable(note)));
    }
    if !analysis.tags.is_empty() {
        line(&mut text, &format!("  tags      {}", printable(&crate::tags::told(&analysis.tags))));
    }
    if let Some(comparison) = &analysis.comparison {
        let _ = write!(text, "\n{}", comparison.text());
    }
    if !analysis.claims.is_empty() {
        line(&mut text, "\nwhat the paper claims of this scenario");
        analysis.claims.iter().for_each(|claim| line(&mut text, &told(claim)));
    }
    let _ = write!(text, "\n{}", figures(analysis));
    if let Some(pooled) = &analysis.pooled {
        line(&mut text, &pooled.text());
    }
    if !analysis.wire.is_empty() {
        let _ = write!(text, "\n{}", wire(analysis));
        line(&mut text, &format!("assumed {}", network::ASSUMED));
    }
    if let Some(datagrams) = &analysis.datagrams {
        line(&mut text, &format!("\n{}", transfer(datagrams)));
        variation(datagrams).iter().for_each(|told| line(&mut text, told));
    }
    text.push_str(&analysis.users.text());
    let available = analysis.availability.text();
    if !available.is_empty() {
        let gap = if analysis.datagrams.is_some() { "" } else { "\n" };
        line(&mut text, &format!("{gap}{}", available.join("\n")));
    }
    if !analysis.names.is_empty() {
        line(&mut text, &format!("\n{}", names(&analysis.names)));
    }
    if analysis.nodes.iter().any(|row| row.cpu_percent.is_some() || row.memory_bytes.is_some()) {
        let _ = write!(text, "\n{}", resources(&analysis.nodes));
    }
    let machines = machines::text(&analysis.machines, analysis.measuring.as_ref());
    if !machines.is_empty() {
        let _ = write!(text, "\n{machines}");
    }
    if !analysis.nodes.is_empty() {
        line(&mut text, "\nCPU load against rate, second by second");
        if analysis.nodes.iter().any(|row| row.all.known().or(row.steady.known()).is_some()) {
            let _ = write!(text, "{}", correlations(analysis));
        }
        footnotes(&mut text, &analysis.nodes);
    }
    text
}

/// What is reported.
pub fn headline(analysis: &Analysis) -> String {
    let n = analysis.bundles.len();
    let repetitions = if n == 1 { "1 repetition".to_owned() } else { format!("{n} repetitions") };
    format!("{} {}: {repetitions}", analysis.experiment, analysis.engine)
}

/// As it is printed.
pub const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Degraded => "degraded",
        Severity::Invalid => "invalid",
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn told(claim: &Judged) -> String {
    format!("  {:<14}  {} ({})\n                  {}", claim.held.words(), claim.text, claim.source, claim.because)
}

fn figures(analysis: &Analysis) -> Grid {
    let paper = analysis.paper_rate.as_ref();
    let level = analysis.figures.first().map_or(0.95, |f| f.described.level);
    let interval = format!("{:.0} % interval", level * 100.0);
    let mut heads = vec!["over repetitions", "n", "mean", "deviation", &interval, "least", "most"];
    if paper.is_some() {
        heads.push("paper");
    }
    let mut grid = Grid::new(&heads);
    for figure in &analysis.figures {
        let d = &figure.described;
        let places = decimals(d);
        let mut row = vec![name(figure), d.n.to_string(), fixed(d.mean, places)];
        row.extend([or_dash(d.sd, places), half(d, places), fixed(d.min, places), fixed(d.max, places)]);
        if let Some(rate) = paper {
            let own = figure.name == "rate of receivers";
            row.push(if own { format!("{:.2} ± {:.2}", rate.mean, rate.half_width) } else { String::new() });
        }
        grid.row(row);
    }
    grid
}

fn wire(analysis: &Analysis) -> Grid {
    let heads = [
        "on the wire",
        "",
        "carrier",
        "messages/s",
        "payload, B",
        "headers, B",
        "payload, Mbit/s",
        "wire, Mbit/s",
        "packets/s",
    ];
    let mut grid = Grid::new(&heads);
    for row in &analysis.wire {
        let what = if row.what == "all" { "" } else { row.what };
        let mut cells = vec![printable(&row.sender), what.to_owned(), row.carrier.to_owned()];
        cells.extend([fixed(row.sent_per_second, 1), fixed(row.payload_bytes, 0), fixed(row.header_bytes, 0)]);
        cells.extend([fixed(row.payload_mbit_per_second, 3), fixed(row.wire_mbit_per_second, 3)]);
        cells.push(fixed(row.frames_per_second, 1));
        grid.row(cells);
    }
    grid
}

/// Variation in the words of RFC 5481 and RFC 3550; one line for each that can be told.
pub fn variation(d: &Datagrams) -> Vec<String> {
    let rows = [("PDV (RFC 5481)", &d.pdv), ("IPDV (RFC 5481)", &d.ipdv), ("jitter (RFC 3550)", &d.jitter)];
    let ms = |ns: i64| format!("{:.3} ms", ns as f64 / 1e6);
    let told = |(name, quantiles): (&str, &Option<Quantiles>)| {
        let q = quantiles.as_ref()?;
        let (p50, p95, p99, p999, max) = (ms(q.p50_ns), ms(q.p95_ns), ms(q.p99_ns), ms(q.p999_ns), ms(q.max_ns));
        Some(format!("{name}: p50 {p50}, p95 {p95}, p99 {p99}, p99.9 {p999}, largest {max}, of {}", q.count))
    };
    rows.into_iter().filter_map(told).collect()
}

/// What laboratories call the counters beside which ours stand.
pub fn names(names: &[Name]) -> String {
    let told = names.iter().map(|name| format!("{} beside {} ({})", name.ours, name.theirs, name.document));
    let told: Vec<String> = told.collect();
    format!("counters of the network: {}; configs/guides/standards.md says what lies between", told.join(", "))
}

/// Datagrams in the words of Y.1540 and Y.1541.
pub fn transfer(d: &Datagrams) -> String {
    let ms = |ns: Option<f64>| ns.map_or_else(|| "unknown".to_owned(), |ns| format!("{:.3} ms", ns / 1e6));
    let classes = |held| {
        let classes = d.classes_that(held).join(", ");
        if classes.is_empty() { "none".to_owned() } else { classes }
    };
    format!(
        "datagrams (ITU-T Y.1540): IPTD {} mean, {} least; IPDV {}; IPLR {:.2e} of {}\n\
         classes of Y.1541 met: {}; not met: {}; cannot be told: {}",
        ms(d.transfer.iptd_mean_ns),
        ms(d.transfer.iptd_min_ns),
        ms(d.ipdv_ns),
        d.iplr,
        d.transfer.transmitted,
        classes(Held::Holds),
        classes(Held::DoesNot),
        classes(Held::CannotBeTold)
    )
}

fn name(figure: &Figure) -> String {
    if figure.unit.is_empty() { figure.name.to_owned() } else { format!("{}, {}", figure.name, figure.unit) }
}

fn half(d: &Described, places: usize) -> String {
    d.half_width.map_or_else(|| "-".to_owned(), |half| format!("± {}", fixed(half, places)))
}

fn or_dash(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| fixed(value, places))
}

fn resources(nodes: &[NodeRow]) -> Grid {
    let mut grid = Grid::new(&["without ramps", "", "CPU load, %", "memory, MB", "memory varies by, %"]);
    for row in nodes {
        grid.row(vec![
            row.node.clone(),
            row.role.word().to_owned(),
            or_dash(row.cpu_percent.map(|d| d.mean), 1),
            or_dash(row.memory_bytes.map(|d| d.mean / 1e6), 1),
            or_dash(row.memory_spread.map(|share| share * 100.0), 1),
        ]);
    }
    grid
}

fn correlations(analysis: &Analysis) -> Grid {
    let heads =
        ["node", "seconds", "n", "effective n", "Pearson r", "interval", "Spearman ρ", "interval", "p", "R²", "slope"];
    let mut grid = Grid::new(&heads);
    for row in &analysis.nodes {
        for (which, related) in [("all", &row.all), ("no ramps", &row.steady)] {
            if let Some(relation) = related.known() {
                grid.row(correlation(&row.node, which, relation));
            }
        }
    }
    if let Some(paper) = &analysis.paper_correlation {
        let mut row = vec!["paper".to_owned(), "receiver, all".to_owned(), paper.n.to_string(), String::new()];
        row.extend([format!("{:.3}", paper.pearson), String::new(), format!("{:.3}", paper.spearman), String::new()]);
        row.extend([format!("< {}", paper.p_max), String::new(), String::new()]);
        grid.row(row);
    }
    grid
}

fn correlation(node: &str, which: &str, relation: &Relation) -> Vec<String> {
    let mut row = vec![node.to_owned(), which.to_owned()];
    let lines = relation.lines.len() as f64;
    let mean = |of: fn(&rehearsal_stats::Line) -> f64| relation.lines.iter().map(of).sum::<f64>() / lines;
    row.extend([relation.n.to_string(), format!("{:.0}", relation.pearson.effective_n)]);
    for coefficient in [&relation.pearson, &relation.spearman] {
        row.extend([format!("{:.3}", coefficient.r), interval(coefficient)]);
    }
    row.extend([
        p_value(relation.pearson.p),
        format!("{:.3}", mean(|l| l.r_squared)),
        format!("{:.3}", mean(|l| l.slope)),
    ]);
    row
}

fn interval(coefficient: &Coefficient) -> String {
    format!("{:.3} … {:.3}", coefficient.interval.lower, coefficient.interval.upper)
}

/// How intervals came about, what the residuals object to, and why something is missing.
fn footnotes(text: &mut String, nodes: &[NodeRow]) {
    let known = || nodes.iter().flat_map(|row| [&row.all, &row.steady]).filter_map(Related::known);
    if let Some(first) = known().next() {
        let i = first.pearson.interval;
        let (low, high) = known().fold((usize::MAX, 0), |(low, high), r| {
            (low.min(r.pearson.interval.block), high.max(r.pearson.interval.block))
        });
        let blocks = if low == high { low.to_string() } else { format!("{low} to {high}") };
        let level = i.level * 100.0;
        line(
            text,
            &format!(
                "intervals: {level:.0} %, moving block bootstrap, blocks of {blocks} s, {} replicates, seed {}; \
             p: t test of one repetition, the largest of them, that neglects autocorrelation; \
             slope: % of CPU per request/s",
                i.replicates, i.seed
            ),
        );
        let objecting =
            known().flat_map(|r| &r.lines).filter(|l| !l.residuals.independent() || !l.residuals.equally_wide());
        match objecting.count() {
            0 => {}
            n => line(
                text,
                &format!(
                    "residuals of {n} lines are not independent or not equally wide: their plain errors are too small"
                ),
            ),
        }
    }
    let mut whys = Vec::new();
    for (which, pick) in [("all", (|row| &row.all) as fn(&NodeRow) -> &Related), ("no ramps", |row| &row.steady)] {
        for row in nodes {
            if let Related::Unknown { why, .. } = pick(row) {
                whys.push((which, why, &row.node));
            }
        }
    }
    for same in whys.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (which, why, first) = same[0];
        let more = if same.len() > 1 { format!(" and {} more", same.len() - 1) } else { String::new() };
        line(text, &format!("{first}{more}, {which}: {why}"));
    }
}
