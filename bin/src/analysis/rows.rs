//! A report for spreadsheets: one number per line, as `experiment,engine,part,row,number,value,unit`.

use std::fmt::Write as _;

use rehearsal_stats::Described;

use super::tables::{Coefficient, Related};
use super::{Analysis, machines};

const HEAD: &str = "experiment,engine,part,row,number,value,unit\n";

/// All analyses below one head. The first line of each tells its verdict.
pub fn of(analyses: &[Analysis]) -> String {
    let mut text = HEAD.to_owned();
    for analysis in analyses {
        let mut rows = Rows { text: &mut text, analysis };
        rows.push("verdict", "", "status", analysis.status.word(), "");
        rows.push("verdict", "", "repetitions", &analysis.bundles.len().to_string(), "");
        rows.push("verdict", "", "left out", &analysis.left_out.to_string(), "");
        for doubt in &analysis.doubts {
            rows.push("doubt", doubt.code, "repetitions", &doubt.repetitions.to_string(), "");
        }
        for claim in &analysis.claims {
            rows.push("claim", &claim.id, "held", claim.held.words(), "");
        }
        for figure in &analysis.figures {
            rows.described("figure", figure.name, "", &figure.described, figure.unit);
        }
        if let Some(pooled) = &analysis.pooled {
            for stat in ["p50", "p99", "p999"] {
                if let Some(ns) = pooled.percentiles.stat(stat) {
                    rows.real("together", pooled.metric, stat, ns, "ns");
                }
            }
        }
        rows.network();
        rows.users();
        rows.nodes();
        for (part, row, number, value, unit) in machines::numbers(&analysis.machines, analysis.measuring.as_ref()) {
            rows.real(part, &row, number, value, unit);
        }
        rows.paper();
    }
    text
}

struct Rows<'a> {
    text: &'a mut String,
    analysis: &'a Analysis,
}

impl Rows<'_> {
    fn users(&mut self) {
        let users = &self.analysis.users;
        for row in &users.states {
            let name = format!("{} {}", row.actor, row.state);
            self.real("users", &name, "in the mean", row.seen, "users");
            row.expected.into_iter().for_each(|expected| self.real("users", &name, "by the model", expected, "users"));
        }
        for row in &users.delays {
            for stat in ["p50", "p95", "p99", "max"] {
                let name = format!("{} {}", row.metric, stat);
                row.percentiles.stat(stat).into_iter().for_each(|ns| self.real("delay", &row.sender, &name, ns, "ns"));
            }
        }
        for row in &users.voice {
            let name = format!("{} {}", row.sender, row.module);
            self.real("speech", &name, "lost", row.lost * 100.0, "%");
            if let Some(told) = &row.told {
                self.real("speech", &name, "mouth to ear", told.mouth_to_ear_ms, "ms");
                self.real("speech", &name, "rating", told.rating, "");
                self.real("speech", &name, "opinion score", told.opinion_score, "");
            }
        }
        for row in &users.memory {
            let Some(interval) = &row.interval else { continue };
            let name = format!("{}s, repetition {}", row.role.word(), row.repetition);
            for (number, value) in [("Hurst", interval.hurst), ("lower", interval.lower), ("upper", interval.upper)] {
                self.real("memory", &name, number, value, "");
            }
        }
    }

    fn network(&mut self) {
        for row in &self.analysis.wire {
            let numbers = [("sent", row.sent_per_second, "1/s"), ("payload", row.payload_mbit_per_second, "Mbit/s")];
            let wire = [("wire", row.wire_mbit_per_second, "Mbit/s"), ("frames", row.frames_per_second, "1/s")];
            let each =
                [("payload of each", row.payload_bytes, "bytes"), ("headers of each", row.header_bytes, "bytes")];
            for (name, value, unit) in numbers.into_iter().chain(wire).chain(each) {
                let name = if row.what == "answers" { format!("answers {name}") } else { name.to_owned() };
                self.real("wire", &row.sender, &name, value, unit);
            }
        }
        if let Some(minutes) = self.analysis.availability.transfer {
            self.push("availability", "Y.1540", "minutes", &minutes.intervals.to_string(), "");
            self.push("availability", "Y.1540", "available", &minutes.available.to_string(), "");
        }
        for service in &self.analysis.availability.services {
            self.real("availability", &service.sender, "no survival time", service.unforgiving.availability, "ratio");
            self.real("availability", &service.sender, "one interval", service.one_interval.availability, "ratio");
        }
        let Some(d) = &self.analysis.datagrams else { return };
        let delays = [("mean", d.transfer.iptd_mean_ns), ("least", d.transfer.iptd_min_ns), ("variation", d.ipdv_ns)];
        for (name, value) in delays {
            if let Some(value) = value {
                self.real("datagrams", "Y.1540", name, value, "ns");
            }
        }
        self.real("datagrams", "Y.1540", "iplr", d.iplr, "ratio");
        let variations =
            [("RFC 5481", "pdv", &d.pdv), ("RFC 5481", "ipdv", &d.ipdv), ("RFC 3550", "jitter", &d.jitter)];
        for (source, name, quantiles) in variations {
            let Some(q) = quantiles else { continue };
            self.push("datagrams", source, &format!("{name} n"), &q.count.to_string(), "");
            let stats =
                [("p50", q.p50_ns), ("p95", q.p95_ns), ("p99", q.p99_ns), ("p999", q.p999_ns), ("max", q.max_ns)];
            for (stat, ns) in stats {
                self.push("datagrams", source, &format!("{name} {stat}"), &ns.to_string(), "ns");
            }
        }
        for row in &d.classes {
            self.push("datagrams", "Y.1541", &format!("class {}", row.class), row.held.words(), "");
        }
    }

    fn nodes(&mut self) {
        for row in &self.analysis.nodes {
            let loads = [("cpu", row.cpu_percent, "%"), ("memory", row.memory_bytes, "bytes")];
            for (name, described, unit) in loads {
                if let Some(described) = described {
                    self.described("node", &row.node, &format!("{name} "), &described, unit);
                }
            }
            if let Some(spread) = row.memory_spread {
                self.real("node", &row.node, "memory spread", spread, "ratio");
            }
            for (part, related) in [("correlation, all", &row.all), ("correlation, no ramps", &row.steady)] {
                self.related(part, &row.node, related);
            }
        }
    }

    fn related(&mut self, part: &str, node: &str, related: &Related) {
        let Related::Known(relation) = related else { return };
        self.push(part, node, "n", &relation.n.to_string(), "");
        self.coefficient(part, node, "pearson", &relation.pearson);
        self.coefficient(part, node, "spearman", &relation.spearman);
        for (line, repetition) in relation.lines.iter().zip(1..) {
            let mut number = |name: &str, value: f64, unit: &str| {
                self.real(part, node, &format!("line {repetition} {name}"), value, unit);
            };
            number("slope", line.slope, "% s");
            number("intercept", line.intercept, "%");
            number("r squared", line.r_squared, "");
            number("durbin-watson", line.residuals.durbin_watson, "");
        }
    }

    fn coefficient(&mut self, part: &str, node: &str, name: &str, c: &Coefficient) {
        let numbers = [("", Some(c.r)), (" lower", Some(c.interval.lower)), (" upper", Some(c.interval.upper))];
        let sure = [(" effective n", Some(c.effective_n)), (" p", Some(c.p)), (" p effective", c.p_effective)];
        for (what, value) in numbers.into_iter().chain(sure) {
            if let Some(value) = value {
                self.real(part, node, &format!("{name}{what}"), value, "");
            }
        }
        self.push(part, node, &format!("{name} block"), &c.interval.block.to_string(), "s");
    }

    fn paper(&mut self) {
        if let Some(rate) = &self.analysis.paper_rate {
            for (name, value) in [("mean", rate.mean), ("deviation", rate.sd), ("half width", rate.half_width)] {
                self.real("paper", "rate of receivers", name, value, "1/s");
            }
        }
        if let Some(c) = &self.analysis.paper_correlation {
            for (name, value) in [("pearson", c.pearson), ("spearman", c.spearman), ("n", c.n as f64)] {
                self.real("paper", "correlation", name, value, "");
            }
        }
    }

    fn described(&mut self, part: &str, row: &str, prefix: &str, d: &Described, unit: &str) {
        self.push(part, row, &format!("{prefix}n"), &d.n.to_string(), "");
        let numbers = [("mean", Some(d.mean)), ("deviation", d.sd), ("half width", d.half_width)];
        for (name, value) in numbers.into_iter().chain([("least", Some(d.min)), ("most", Some(d.max))]) {
            if let Some(value) = value {
                self.real(part, row, &format!("{prefix}{name}"), value, unit);
            }
        }
    }

    fn real(&mut self, part: &str, row: &str, number: &str, value: f64, unit: &str) {
        self.push(part, row, number, &value.to_string(), unit);
    }

    fn push(&mut self, part: &str, row: &str, number: &str, value: &str, unit: &str) {
        let cells = [&self.analysis.experiment, self.analysis.engine, part, row, number, value, unit];
        let cells: Vec<String> = cells.into_iter().map(quoted).collect();
        let _ = writeln!(self.text, "{}", cells.join(","));
    }
}

/// A cell, in quotes if it needs them.
pub fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
