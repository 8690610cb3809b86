//! Figures as OpenMetrics text: each family with its type, unit and help, then its samples, and `# EOF`.

use std::fmt::Write as _;

use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;

use super::board::{BOUNDS_NS, Buckets, Figures, Row};

/// A counter's value.
type Of = fn(&Tally) -> u64;

/// Counters: family, unit, help, value.
const COUNTERS: [(&str, &str, &str, Of); 13] = [
    ("rehearsal_exchanges_generated", "", "Exchanges that came due.", |t| t.generated),
    ("rehearsal_attempts", "", "Attempts that left.", |t| t.attempts),
    ("rehearsal_attempts_rejected", "", "Attempts that were rejected.", |t| t.rejected),
    ("rehearsal_attempts_unacknowledged", "", "Attempts without an answer.", |t| t.unacknowledged),
    ("rehearsal_slots_skipped", "", "Slots of the schedule that were given up.", |t| t.skipped),
    ("rehearsal_deadlines_missed", "", "Successes that took longer than the limit.", |t| t.deadline_missed),
    ("rehearsal_requests_received", "", "Requests that came in.", |t| t.received),
    ("rehearsal_requests_served", "", "Requests that were answered with success.", |t| t.served),
    ("rehearsal_requests_turned_away", "", "Requests that found no room.", |t| t.turned_away),
    ("rehearsal_datagrams_sent", "", "Datagrams that left.", |t| t.datagrams_sent),
    ("rehearsal_datagrams_received", "", "Datagrams that came in.", |t| t.datagrams_received),
    ("rehearsal_sent_bytes", "bytes", "Payload that left.", |t| t.bytes_sent),
    ("rehearsal_received_bytes", "bytes", "Payload that came in.", |t| t.bytes_received),
];

/// How exchanges ended.
const OUTCOMES: [(&str, Of); 5] = [
    ("success", |t| t.success),
    ("invalid", |t| t.invalid),
    ("failed", |t| t.failed),
    ("lost", |t| t.lost),
    ("aborted", |t| t.aborted),
];

/// What a histogram's values are.
const fn help(metric: Metric) -> &'static str {
    match metric {
        Metric::Response => "From the intended time to the answer, of successes.",
        Metric::Service => "From the sending to the answer, of successes.",
        Metric::Lag => "Late by the generator's own fault, of attempts that left.",
        Metric::Blocked => "Waiting because in_flight was full, of attempts that left.",
        Metric::Handling => "From arrival to answer, of requests served.",
        Metric::OneWay => "From the sending to the arrival, of datagrams, by the two hosts' clocks.",
        _ => "As the series of a result tell it.",
    }
}

/// The page.
pub(super) fn of(figures: &Figures) -> String {
    let mut page = Page::default();
    page.family("rehearsal_run", "info", "", "The run.");
    let about: Vec<(&str, &str)> = figures.about.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    page.sample("rehearsal_run_info", &about, 1);
    page.family("rehearsal_run_seconds", "gauge", "seconds", "Seconds of traffic that are complete.");
    page.sample("rehearsal_run_seconds", &[], figures.seconds);
    if let Some(planned) = figures.planned {
        page.family("rehearsal_run_planned_seconds", "gauge", "seconds", "Seconds that traffic shall run.");
        page.sample("rehearsal_run_planned_seconds", &[], planned);
    }
    page.family("rehearsal_exchanges", "counter", "", "Exchanges that were settled.");
    for ((node, actor), row) in &figures.groups {
        for (outcome, of) in OUTCOMES {
            let labels = [("node", node.as_str()), ("actor", actor.as_str()), ("outcome", outcome)];
            page.sample("rehearsal_exchanges_total", &labels, of(&row.tally));
        }
    }
    for (name, unit, help, of) in COUNTERS {
        page.family(name, "counter", unit, help);
        let total = format!("{name}_total");
        page.each(figures, |page, labels, row| page.sample(&total, labels, of(&row.tally)));
    }
    page.family("rehearsal_queue_exchanges", "gauge", "", "Exchanges that wait for in_flight.");
    page.each(figures, |page, labels, row| page.sample("rehearsal_queue_exchanges", labels, row.queue_length));
    for metric in Metric::ALL {
        let name = format!("rehearsal_{}_seconds", metric.name().replace('-', "_"));
        page.family(&name, "histogram", "seconds", help(metric));
        page.each(figures, |page, labels, row| {
            if let Some(buckets) = row.times.get(&metric) {
                page.buckets(&name, labels, buckets);
            }
        });
    }
    hosts(&mut page, figures);
    page.family("rehearsal_untold", "gauge", "", "Actors and nodes beyond what this page holds.");
    page.sample("rehearsal_untold", &[], figures.untold);
    page.family("rehearsal_scrapes_refused", "counter", "", "Connections to this page that found no place.");
    page.sample("rehearsal_scrapes_refused_total", &[], figures.refused);
    page.0 + "# EOF\n"
}

fn hosts(page: &mut Page, figures: &Figures) {
    page.family(
        "rehearsal_node_cpu_ratio",
        "gauge",
        "ratio",
        "CPU time of the last second as a share of the cores allowed.",
    );
    for (node, (cpu, _)) in &figures.hosts {
        if let Some(cpu) = cpu {
            page.sample("rehearsal_node_cpu_ratio", &[("node", node.as_str())], cpu);
        }
    }
    page.family("rehearsal_node_memory_bytes", "gauge", "bytes", "Resident memory.");
    for (node, (_, memory)) in &figures.hosts {
        if let Some(memory) = memory {
            page.sample("rehearsal_node_memory_bytes", &[("node", node.as_str())], memory);
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn each(&mut self, figures: &Figures, tell: impl Fn(&mut Page, &[(&str, &str)], &Row)) {
        for ((node, actor), row) in &figures.groups {
            tell(self, &[("node", node), ("actor", actor)], row);
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn buckets(&mut self, name: &str, labels: &[(&str, &str)], buckets: &Buckets) {
        let bucket = format!("{name}_bucket");
        let mut sum = 0;
        let bounds = BOUNDS_NS.iter().map(|ns| bound(*ns as f64 / 1e9)).chain(["+Inf".to_owned()]);
        for (count, bound) in buckets.counts.iter().zip(bounds) {
            sum += count;
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, sum);
        }
        self.sample(&format!("{name}_sum"), labels, buckets.sum_seconds);
        self.sample(&format!("{name}_count"), labels, sum);
    }
}

/// A bound in its canonical form: `2.5e-05`, `0.01`, `1.0`. Source: OpenMetrics 1.0, canonical numbers.
fn bound(seconds: f64) -> String {
    let text = format!("{seconds:?}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

/// A label's value. Source: OpenMetrics 1.0, escaping.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_page_tells_each_family_once_and_ends() {
        let buckets = Buckets { counts: [1; BOUNDS_NS.len() + 1], sum_seconds: 2.5 };
        let tally = Tally { success: 7, bytes_sent: 1000, ..Tally::default() };
        let row = Row { tally, times: BTreeMap::from([(Metric::Response, buckets)]), ..Row::default() };
        let figures = Figures {
            about: BTreeMap::from([("tag_why".to_owned(), "a \"b\"\\\n".to_owned())]),
            groups: BTreeMap::from([(("camera".to_owned(), "main".to_owned()), row)]),
            ..Figures::default()
        };
        let page = of(&figures);
        for line in [
            r#"rehearsal_run_info{tag_why="a \"b\"\\\n"} 1"#,
            r#"rehearsal_exchanges_total{node="camera",actor="main",outcome="success"} 7"#,
            r#"rehearsal_sent_bytes_total{node="camera",actor="main"} 1000"#,
            r#"rehearsal_response_seconds_bucket{node="camera",actor="main",le="1e-05"} 1"#,
            r#"rehearsal_response_seconds_bucket{node="camera",actor="main",le="1.0"} 16"#,
            r#"rehearsal_response_seconds_bucket{node="camera",actor="main",le="+Inf"} 20"#,
            r#"rehearsal_response_seconds_count{node="camera",actor="main"} 20"#,
            "# UNIT rehearsal_sent_bytes bytes",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is not in\n{page}");
        }
        let types: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = types.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(types.len(), once.len());
        assert!(page.ends_with("\n# EOF\n"));
    }
}
