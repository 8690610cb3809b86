//! The sheet on paper: the same words and tables as text and as Markdown.

use std::fmt::Write as _;

use rehearsal_export::Grid;

use super::arithmetic::Bounds;
use super::sheet::{Basis, Booked, Experiment, Link, Node, Sheet};

/// How it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Columns of text.
    Text,
    /// Markdown with tables.
    Markdown,
}

/// Writes blocks one below the other.
pub(super) struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Page { style, text: String::new() }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn heading(&mut self, level: usize, text: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = match self.style {
            Style::Text => writeln!(self.text, "{gap}{text}"),
            Style::Markdown => writeln!(self.text, "{gap}{} {text}\n", "#".repeat(level)),
        };
    }

    pub(super) fn items(&mut self, items: impl IntoIterator<Item = String>) {
        let mark = if self.style == Style::Text { "  " } else { "- " };
        for item in items {
            let _ = writeln!(self.text, "{mark}{item}");
        }
    }

    pub(super) fn table(&mut self, heads: &[&str], rows: Vec<Vec<String>>) {
        if self.style == Style::Text {
            let mut grid = Grid::new(heads);
            rows.into_iter().for_each(|row| grid.row(row));
            for line in grid.to_string().lines() {
                let _ = writeln!(self.text, "  {line}");
            }
            return;
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        self.text += &line(heads.iter().map(|head| (*head).to_owned()).collect());
        self.text += &format!("|{}\n", "---|".repeat(heads.len()));
        for row in rows {
            self.text += &line(row.into_iter().map(|cell| cell.replace('|', "\\|")).collect());
        }
    }
}

/// The whole sheet.
pub fn write(sheet: &Sheet, style: Style) -> String {
    let mut page = Page::new(style);
    booking(&mut page, sheet);
    for experiment in &sheet.experiments {
        one(&mut page, experiment);
    }
    page.heading(2, "assumptions");
    page.items(sheet.assumptions.iter().map(|a| format!("{} [{}]", a.what, a.source)));
    if !sheet.notes.is_empty() {
        page.heading(2, "notes");
        page.items(sheet.notes.iter().cloned());
    }
    page.finish()
}

fn booking(page: &mut Page, sheet: &Sheet) {
    let of = &sheet.booking;
    let count = sheet.experiments.len();
    let what = if count == 1 { "1 experiment".to_owned() } else { format!("{count} experiments") };
    let runs = if of.runs == 1 { "1 run".to_owned() } else { format!("{} runs", of.runs) };
    page.heading(1, &format!("booking sheet: {what}, {runs}, at {}", sheet.facility));
    let window = format!("{} h", plain(of.window_h.expected));
    let mut lines = vec![
        format!("book      {} nodes for {window} = {} node-hours", of.nodes, plain(of.node_h.expected)),
        format!(
            "time      {} ({} to {}); {} of it traffic; a window of {} h holds the worst",
            lasting(of.total_h.expected),
            lasting(of.total_h.low),
            lasting(of.total_h.high),
            lasting(of.traffic_h.expected),
            plain(of.window_h.high)
        ),
        format!("machines  {}", machines(&of.machines)),
        format!(
            "asked     {} vCPU and {} of memory at most at one time, without the control node",
            of.vcpu_requested,
            memory(of.memory_requested_bytes)
        ),
        format!("hours     {} vCPU-hours, {} GiB-hours", plain(of.vcpu_h.expected), plain(of.gib_h.expected)),
        format!(
            "volume    {} requests, {} of payload ({} to {}), {} on the wire",
            millions(of.requests),
            bytes(of.payload_bytes.expected),
            bytes(of.payload_bytes.low),
            bytes(of.payload_bytes.high),
            bytes(of.wire_bytes)
        ),
    ];
    lines.extend(
        of.published_payload_bytes.map(|published| format!("          {} by published figures", bytes(published))),
    );
    lines.push(format!("busiest   {}: {} Mbit/s on average", of.busiest, speed(of.busiest_mbps)));
    lines.push(format!("data      {} of bundles", bytes(of.bundle_bytes)));
    lines.push(match &of.cost {
        Some(cost) => format!(
            "cost      {:.2} {} ({:.2} to {:.2})",
            cost.amount.expected, cost.currency, cost.amount.low, cost.amount.high
        ),
        None => "cost      the facility has no tariff".to_owned(),
    });
    page.items(lines);
}

fn one(page: &mut Page, of: &Experiment) {
    page.heading(2, &format!("{} ({})", of.name, of.file));
    let time = &of.time;
    let around = format!("{} + {} s around each", plain(time.setup_s), plain(time.teardown_s));
    let mut lines = vec![format!(
        "{} × {} s, {around}: {}; because {}",
        time.repetitions,
        three(time.run_s),
        lasting(time.total_s.expected / 3600.0),
        reason(time.basis, &time.because)
    )];
    lines
        .extend(time.bound_s.map(|bound| {
            format!("no run takes longer than {}: then every attempt timed out", lasting(bound / 3600.0))
        }));
    let published = of.volume.published_bytes.map(|b| format!("; published: {}", bytes(b))).unwrap_or_default();
    lines.push(format!(
        "a run: {} requests, {} of payload, {} on the wire{published}",
        millions(of.volume.requests),
        bytes(of.volume.payload_bytes.expected),
        bytes(of.volume.wire_bytes)
    ));
    let kept = if of.data.recorded_requests > 0.0 {
        format!(" with {} single attempts", millions(of.data.recorded_requests))
    } else {
        String::new()
    };
    lines.push(format!(
        "bundles: {}{kept}; a capture of everything would take {}",
        bytes(of.data.bundle_bytes),
        bytes(of.data.capture_bytes)
    ));
    page.items(lines);
    let heads = ["node", "count", "asked", "booked", "in Mbit/s", "out Mbit/s", "of its interface"];
    page.heading(3, "nodes");
    page.table(&heads, of.nodes.iter().map(node).collect());
    page.heading(3, "links");
    let heads =
        ["from -> to", "requests/s", "payload Mbit/s", "wire Mbit/s", "peak Mbit/s", "answers Mbit/s", "of the link"];
    page.table(&heads, of.links.iter().map(link).collect());
    if !of.warnings.is_empty() {
        page.heading(3, "warnings");
        page.items(of.warnings.iter().map(|w| format!("{}: {}", w.code, w.text)));
    }
}

fn node(of: &Node) -> Vec<String> {
    let asked = match (of.requested.vcpu, of.requested.memory_bytes) {
        (None, None) => "-".to_owned(),
        (vcpu, bytes) => {
            let parts = [vcpu.map(|v| format!("{v} vCPU")), bytes.map(memory)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    };
    vec![
        if of.role == "control" { format!("{} (control)", of.name) } else { of.name.clone() },
        of.count.to_string(),
        asked,
        of.booked.as_ref().map_or("none is large enough".to_owned(), machine),
        format!("{:.2}", of.in_mbps),
        format!("{:.2}", of.out_mbps),
        of.utilisation.map_or("-".to_owned(), percent),
    ]
}

fn link(of: &Link) -> Vec<String> {
    vec![
        format!("{} -> {}", of.from, of.to),
        format!("{:.1}", of.requests_per_second),
        format!("{:.2}", of.payload_mbps),
        format!("{:.2}", of.wire_mbps),
        format!("{:.2}", of.peak_mbps),
        format!("{:.2}", of.answers_mbps),
        match of.utilisation {
            None => "no rate".to_owned(),
            Some(share) if of.capacity_is_lowest => format!("{} of the trace's lowest", percent(share)),
            Some(share) => percent(share),
        },
    ]
}

fn machine(of: &Booked) -> String {
    let name = of.machine.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{name}{} vCPU, {}", of.vcpu, memory(of.memory_bytes))
}

/// Equal machines are counted.
fn machines(all: &[Booked]) -> String {
    let mut counted: Vec<(usize, String)> = Vec::new();
    for one in all.iter().map(machine) {
        match counted.last_mut() {
            Some((count, last)) if *last == one => *count += 1,
            _ => counted.push((1, one)),
        }
    }
    let told: Vec<String> = counted.into_iter().map(|(count, what)| format!("{count} × ({what})")).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn reason(basis: Basis, because: &str) -> String {
    match basis {
        Basis::Duration | Basis::Schedule | Basis::Given => because.to_owned(),
        Basis::Published => format!("published: {because}"),
        Basis::DryRun => format!("of {because}"),
    }
}

fn three(of: Bounds) -> String {
    if of.low == of.high { plain(of.expected) } else { format!("{:.0} ({:.0} to {:.0})", of.expected, of.low, of.high) }
}

/// Below an hour in minutes.
fn lasting(hours: f64) -> String {
    if hours < 1.0 { format!("{:.1} min", hours * 60.0) } else { format!("{hours:.1} h") }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Without decimals where there are none.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whole above a hundred, with three digits that matter below.
fn speed(mbps: f64) -> String {
    let places = (2.0 - mbps.log10().floor()).clamp(0.0, 6.0);
    if mbps > 0.0 { format!("{mbps:.*}", places as usize) } else { "0".to_owned() }
}

fn millions(count: f64) -> String {
    if count >= 1e6 { format!("{:.2} million", count / 1e6) } else { format!("{count:.0}") }
}

fn memory(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0 => "0 B".to_owned(),
        b if b.is_multiple_of(1_000_000_000) => format!("{} GB", b / 1_000_000_000),
        b if b >= MIB << 10 => format!("{} GiB", plain(b as f64 / (MIB << 10) as f64)),
        b => format!("{} MiB", plain(b as f64 / MIB as f64)),
    }
}

pub(super) fn bytes(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let fit = units.into_iter().find(|(scale, _)| bytes >= *scale);
    fit.map_or(format!("{bytes:.0} B"), |(scale, unit)| format!("{:.2} {unit}", bytes / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(bytes(1.5e12), "1.50 TB");
        assert_eq!([36.33, 1.0, 0.0153].map(lasting), ["36.3 h", "1.0 h", "0.9 min"]);
        assert_eq!(
            (bytes(999.0), millions(39_804_000.0), plain(37.0)),
            ("999 B".into(), "39.80 million".into(), "37".into())
        );
        assert_eq!(
            (memory(512 << 20), memory(5 << 30), memory(64_000_000_000)),
            ("512 MiB".into(), "5 GiB".into(), "64 GB".into())
        );
    }

    #[test]
    fn no_traffic_is_rounded_to_none() {
        assert_eq!(
            [0.0, 0.01234, 0.94, 12.34, 940.2, 1e-9].map(speed),
            ["0", "0.0123", "0.940", "12.3", "940", "0.000000"]
        );
    }

    #[test]
    fn equal_machines_are_counted() {
        let of = |vcpu| Booked { machine: None, vcpu, memory_bytes: 1 << 30, disk_bytes: 0, nic_mbps: 1.0 };
        assert_eq!(machines(&[of(4.0), of(4.0), of(1.0)]), "2 × (4 vCPU, 1 GiB), 1 × (1 vCPU, 1 GiB)");
    }

    #[test]
    fn tables_are_set_in_either_style() {
        let rows = || vec![vec!["a|b".to_owned(), "1".to_owned()]];
        let set = |style| {
            let mut page = Page::new(style);
            page.heading(2, "t");
            page.table(&["x", "y"], rows());
            page.finish()
        };
        assert_eq!(set(Style::Text), "t\n  x    y\n  a|b  1\n");
        assert_eq!(set(Style::Markdown), "## t\n\n| x | y |\n|---|---|\n| a\\|b | 1 |\n");
    }
}
