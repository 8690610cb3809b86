//! What machines did while they ran an experiment, which errors their kernels counted, and what measuring took.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rehearsal_core::messages::{ClockSource, Scope};
use rehearsal_export::{Bundle, Grid, NodeResources};
use rehearsal_scenario::printable;
use serde::Serialize;

use super::NODES_MAX;
use super::number::fixed;
use super::page::chart::escape;

/// A machine, a process that several nodes share, or a node whose quota or kernel has something to tell. Means are over
/// repetitions; what is unknown is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineRow {
    /// Its name, or the node's.
    pub name: String,
    /// What it is.
    pub scope: Scope,
    /// Mean share of all cores of the machine that was in use, %; of a machine, by everybody.
    pub cpu_host_percent: Option<f64>,
    /// The highest in a second, %.
    pub cpu_host_percent_max: Option<f64>,
    /// Mean clock, GHz.
    pub cpu_ghz: Option<f64>,
    /// Where that is from.
    pub clock_source: Option<ClockSource>,
    /// Mean of cores in use times their clock, GHz.
    pub cpu_used_ghz: Option<f64>,
    /// Mean share of the time that the hypervisor took, %.
    pub steal_percent: Option<f64>,
    /// Share of the time that a CPU quota held it back, %.
    pub throttled_percent: Option<f64>,
    /// Highest memory in use, %.
    pub memory_percent_max: Option<f64>,
    /// Most open files.
    pub open_files_max: Option<u64>,
    /// Errors of all repetitions, those that are not zero.
    pub errors: BTreeMap<&'static str, u64>,
}

/// What measuring took, over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// CPU, per cent of a core.
    pub cpu_percent: f64,
    /// Mean time to complete a second, ms.
    pub wall_ms: f64,
    /// The longest, ms.
    pub wall_ms_max: f64,
}

/// Machines and shared processes first, then nodes that were held back or have errors of their own.
pub fn of(bundles: &[Bundle]) -> Vec<MachineRow> {
    let mut all = BTreeMap::<(std::cmp::Reverse<Scope>, &str), Vec<&NodeResources>>::new();
    for resources in bundles.iter().flat_map(|bundle| bundle.summary.machines.iter().chain(&bundle.summary.nodes)) {
        all.entry((std::cmp::Reverse(resources.scope), &resources.node)).or_default().push(resources);
    }
    let rows = all.into_iter().map(|((scope, name), seen)| row(name, scope.0, &seen));
    let (machines, nodes): (Vec<_>, Vec<_>) = rows.partition(|row| row.scope != Scope::Node);
    let telling =
        |row: &MachineRow| row.throttled_percent.is_some_and(|percent| percent > 0.0) || !row.errors.is_empty();
    machines.into_iter().take(NODES_MAX).chain(nodes.into_iter().filter(telling).take(NODES_MAX)).collect()
}

fn row(name: &str, scope: Scope, seen: &[&NodeResources]) -> MachineRow {
    let mean = |of: fn(&NodeResources) -> Option<f64>| {
        let known: Vec<f64> = seen.iter().filter_map(|resources| of(resources)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let most = |of: fn(&NodeResources) -> Option<f64>| seen.iter().filter_map(|r| of(r)).max_by(f64::total_cmp);
    let mut errors = BTreeMap::new();
    for (what, count) in seen.iter().flat_map(|resources| resources.sums.errors()) {
        let sum: &mut u64 = errors.entry(what).or_default();
        *sum = sum.saturating_add(count);
    }
    MachineRow {
        name: name.to_owned(),
        scope,
        cpu_host_percent: mean(|r| r.cpu_host_percent_mean),
        cpu_host_percent_max: most(|r| r.cpu_host_percent_max),
        cpu_ghz: mean(|r| r.cpu_ghz_mean),
        clock_source: seen.iter().find_map(|r| r.clock_source),
        cpu_used_ghz: mean(|r| r.cpu_used_ghz_mean),
        steal_percent: mean(|r| r.steal_percent_mean),
        throttled_percent: mean(|r| r.throttled_percent),
        memory_percent_max: most(|r| r.memory_percent_max),
        open_files_max: seen.iter().filter_map(|r| r.open_files_max).max(),
        errors,
    }
}

/// What measuring took; `None` if no repetition tells.
pub fn cost(bundles: &[Bundle]) -> Option<Cost> {
    let told: Vec<_> = bundles.iter().filter_map(|bundle| bundle.summary.measuring).collect();
    let known: Vec<f64> = told.iter().filter_map(|measuring| measuring.cpu_ns_per_second).collect();
    let samples: u64 = told.iter().map(|measuring| measuring.samples).sum();
    let wall_ns: f64 = told.iter().map(|measuring| measuring.wall_ns as f64).sum();
    (!known.is_empty() && samples > 0).then(|| Cost {
        cpu_percent: known.iter().sum::<f64>() / known.len() as f64 / 1e7,
        wall_ms: wall_ns / samples as f64 / 1e6,
        wall_ms_max: told.iter().map(|measuring| measuring.wall_ns_max).max().unwrap_or(0) as f64 / 1e6,
    })
}

const HEADS: [&str; 10] = [
    "machines",
    "",
    "CPU busy, %",
    "highest",
    "clock, GHz",
    "in use, GHz",
    "stolen, %",
    "held back, %",
    "memory, %",
    "open files",
];

impl MachineRow {
    fn cells(&self) -> [String; 10] {
        let real = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| fixed(value, 1));
        let clock = self.cpu_ghz.map_or_else(|| "-".to_owned(), |ghz| fixed(ghz, 2));
        [
            printable(&self.name),
            word(self.scope).to_owned(),
            real(self.cpu_host_percent),
            real(self.cpu_host_percent_max),
            clock,
            self.cpu_used_ghz.map_or_else(|| "-".to_owned(), |ghz| fixed(ghz, 2)),
            real(self.steal_percent),
            real(self.throttled_percent),
            real(self.memory_percent_max),
            self.open_files_max.map_or_else(|| "-".to_owned(), |files| files.to_string()),
        ]
    }

    fn told(&self) -> Option<String> {
        let errors: Vec<String> = self.errors.iter().map(|(what, count)| format!("{what} {count}")).collect();
        (!errors.is_empty()).then(|| format!("{}: {}", self.name, errors.join(", ")))
    }
}

/// As it is printed.
pub const fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Node => "node",
        Scope::Process => "process",
        Scope::Machine => "machine",
    }
}

/// Where clocks are from, in words.
fn source(rows: &[MachineRow]) -> Option<&'static str> {
    rows.iter().find_map(|row| row.clock_source).map(|source| match source {
        ClockSource::Cpufreq => "the clock is scaling_cur_freq of cpufreq",
        ClockSource::Cpuinfo => "the clock is `cpu MHz` of /proc/cpuinfo",
    })
}

impl Cost {
    fn told(&self) -> String {
        format!(
            "measuring took {:.2} % of a core; a second was complete after {:.1} ms, {:.1} ms at most",
            self.cpu_percent, self.wall_ms, self.wall_ms_max
        )
    }
}

/// Sentences below the table.
fn sentences(rows: &[MachineRow], cost: Option<&Cost>) -> Vec<String> {
    let errors = rows.iter().filter_map(MachineRow::told).map(|told| format!("the kernel counted at {told}"));
    source(rows).map(str::to_owned).into_iter().chain(errors).chain(cost.map(Cost::told)).collect()
}

/// For people; empty if nothing is known.
pub fn text(rows: &[MachineRow], cost: Option<&Cost>) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        let mut grid = Grid::new(&HEADS);
        rows.iter().for_each(|row| grid.row(row.cells().to_vec()));
        let _ = write!(text, "{grid}");
    }
    for sentence in sentences(rows, cost) {
        let _ = writeln!(text, "{}", printable(&sentence));
    }
    text
}

/// For a page.
pub fn html(page: &mut String, rows: &[MachineRow], cost: Option<&Cost>) {
    if rows.is_empty() && cost.is_none() {
        return;
    }
    page.push_str("<h3>Machines</h3>");
    if !rows.is_empty() {
        page.push_str("<div class=\"wide\"><table><tr>");
        for (at, head) in HEADS.iter().enumerate() {
            let class = if at == 1 { " class=\"text\"" } else { "" };
            let _ = write!(page, "<th{class}>{head}</th>");
        }
        page.push_str("</tr>");
        for row in rows {
            page.push_str("<tr>");
            for (at, cell) in row.cells().iter().enumerate() {
                let class = if at == 1 { " class=\"text\"" } else { "" };
                let _ = write!(page, "<td{class}>{}</td>", escape(cell));
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>");
    }
    let sentences: Vec<String> =
        sentences(rows, cost).iter().map(|sentence| format!("{}.", escape(sentence))).collect();
    let _ = writeln!(page, "<p class=\"caption\">{}</p>", sentences.join(" "));
}

/// Numbers for spreadsheets: part, row, number, value, unit.
pub fn numbers(
    rows: &[MachineRow],
    cost: Option<&Cost>,
) -> Vec<(&'static str, String, &'static str, f64, &'static str)> {
    let mut all = Vec::new();
    for row in rows {
        let part = word(row.scope);
        let mut real = |number, value: Option<f64>, unit| {
            if let Some(value) = value {
                all.push((part, row.name.clone(), number, value, unit));
            }
        };
        real("cpu of machine", row.cpu_host_percent, "%");
        real("cpu of machine, highest", row.cpu_host_percent_max, "%");
        real("clock", row.cpu_ghz, "GHz");
        real("clock in use", row.cpu_used_ghz, "GHz");
        real("stolen", row.steal_percent, "%");
        real("held back", row.throttled_percent, "%");
        real("memory, highest", row.memory_percent_max, "%");
        real("open files, most", row.open_files_max.map(|files| files as f64), "");
        row.errors.iter().for_each(|(what, count)| real(what, Some(*count as f64), ""));
    }
    if let Some(cost) = cost {
        let mut real = |number, value, unit| all.push(("measuring", String::new(), number, value, unit));
        real("cpu", cost.cpu_percent, "% of a core");
        real("time", cost.wall_ms, "ms");
        real("time, most", cost.wall_ms_max, "ms");
    }
    all
}

#[cfg(test)]
mod tests {
    use rehearsal_export::Sums;

    use super::*;

    fn seen(scope: Scope, steal: Option<f64>, errors: Option<u64>) -> NodeResources {
        let sums = Sums { udp_receive_buffer_errors: errors, ..Sums::default() };
        NodeResources { scope, steal_percent_mean: steal, sums, ..NodeResources::default() }
    }

    #[test]
    fn repetitions_are_averaged_and_errors_added() {
        let all = [seen(Scope::Machine, Some(1.0), Some(2)), seen(Scope::Machine, Some(2.0), None)];
        let row = row("lab", Scope::Machine, &all.iter().collect::<Vec<_>>());
        assert_eq!((row.steal_percent, row.throttled_percent), (Some(1.5), None));
        assert_eq!(row.errors, BTreeMap::from([("UDP receive buffer full", 2)]));
        let cost = Cost { cpu_percent: 0.31, wall_ms: 2.0, wall_ms_max: 4.25 };
        let text = text(std::slice::from_ref(&row), Some(&cost));
        for told in
            ["stolen, %", "1.5", "counted at lab: UDP receive buffer full 2", "0.31 % of a core", "4.2 ms at most"]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
        let numbers = numbers(&[row], Some(&cost));
        assert!(numbers.contains(&("machine", "lab".to_owned(), "stolen", 1.5, "%")), "{numbers:?}");
        assert!(!numbers.iter().any(|number| number.2 == "held back"), "unknown is no number");
    }

    #[test]
    fn a_page_is_as_safe_as_its_names() {
        let mut page = String::new();
        html(&mut page, &[row("<b>", Scope::Machine, &[&seen(Scope::Machine, None, Some(1))])], None);
        assert!(page.contains("&lt;b&gt;: UDP receive buffer full 1.") && !page.contains("<b>"), "{page}");
        assert_eq!(page.matches("<td").count(), page.matches("</td>").count());
    }

    #[test]
    fn nothing_is_told_where_nothing_is_known() {
        let mut page = String::new();
        html(&mut page, &[], None);
        assert_eq!((text(&[], None), page, of(&[]).len(), cost(&[])), (String::new(), String::new(), 0, None));
    }
}
