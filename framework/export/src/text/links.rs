//! The table of links in a printed report: those that were imposed, and those that lost something.

use rehearsal_core::plan::Impose;
use rehearsal_core::units::BitRate;

use super::grid::Grid;
use super::quantity::nanos;
use crate::summary::LinkSummary;

/// The table, if there is anything to tell.
pub(super) fn grid(links: &[LinkSummary]) -> Option<Grid> {
    let told = |link: &&LinkSummary| link.imposed != Impose::None || link.lost + link.full > 0;
    let told: Vec<&LinkSummary> = links.iter().filter(told).collect();
    if told.is_empty() {
        return None;
    }
    let mut grid =
        Grid::new(&["link", "offered", "delivered", "lost", "queue full", "rate", "delay p50", "p99", "max"]);
    for link in told {
        let by = match link.imposed {
            Impose::None => "",
            Impose::Userspace => ", imposed by senders",
            Impose::Kernel => ", imposed by the kernel",
        };
        let delay =
            |stat: &str| link.delay.as_ref().and_then(|delay| delay.stat(stat)).map_or_else(|| "-".to_owned(), nanos);
        let mut row = vec![format!("{} -> {}{by}", link.from, link.to)];
        row.extend([link.offered, link.delivered, link.lost, link.full].map(|count| count.to_string()));
        // to three digits: a rate is no more exact
        let step = 10_f64.powi((link.bits_per_second.max(1.0).log10().floor() as i32 - 2).max(0));
        row.push(BitRate(((link.bits_per_second / step).round() * step) as u64).to_string());
        row.extend(["p50", "p99", "max"].map(delay));
        grid.row(row);
    }
    Some(grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentiles::Percentiles;

    #[test]
    fn quiet_simulated_links_are_left_out() {
        let quiet = LinkSummary { from: "a".to_owned(), to: "b".to_owned(), offered: 5, ..LinkSummary::default() };
        assert!(grid(std::slice::from_ref(&quiet)).is_none());
        let delay =
            Percentiles { p50_ns: 5_000_000, p99_ns: Some(6_000_000), max_ns: 7_000_000, ..Percentiles::default() };
        let imposed = LinkSummary {
            imposed: Impose::Userspace,
            delivered: 5,
            bits_per_second: 1_234_567.0,
            delay: Some(delay),
            ..quiet.clone()
        };
        let text = grid(&[quiet, imposed]).expect("one is told").to_string();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").filter(|c| !c.is_empty()).collect()).collect();
        let cells: Vec<String> = rows[1].iter().map(|cell| cell.trim().to_owned()).collect();
        let expected =
            ["a -> b, imposed by senders", "5", "5", "0", "0", "1230kbit/s", "5.00 ms", "6.00 ms", "7.00 ms"];
        assert_eq!(cells, expected, "{text}");
    }
}
