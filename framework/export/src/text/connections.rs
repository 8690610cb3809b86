//! The table of connections in a printed report: those that were encrypted, and those that requests shared.

use rehearsal_core::plan::Carrier;
use rehearsal_core::run::ConnectionEnd;

use super::grid::Grid;

/// The table, if there is anything to tell.
pub(super) fn grid(connections: &[ConnectionEnd]) -> Option<Grid> {
    let told = |row: &&ConnectionEnd| !row.tls.is_empty() || matches!(row.carrier, Carrier::Http2 | Carrier::Http3);
    let told: Vec<&ConnectionEnd> = connections.iter().filter(told).collect();
    if told.is_empty() {
        return None;
    }
    let mut grid = Grid::new(&["connections", "opened", "full handshakes", "resumed", "TLS", "suite", "protocol"]);
    for row in told {
        let known = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let counts = [row.opened, row.full, row.resumed].map(|count| count.to_string());
        let mut cells = vec![format!("{} -> {}", row.from, row.to)];
        cells.extend(counts);
        cells.extend([&row.tls, &row.cipher, &row.alpn].map(|text| known(text)));
        grid.row(cells);
    }
    Some(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_clear_one_by_one_is_left_out() {
        let ends = ConnectionEnd { from: "a".into(), to: "b".into(), opened: 3, ..ConnectionEnd::default() };
        assert!(grid(std::slice::from_ref(&ends)).is_none());
        let encrypted = ConnectionEnd { full: 1, resumed: 2, tls: "TLS 1.3".into(), alpn: "h2".into(), ..ends };
        let text = grid(&[encrypted]).expect("one is told").to_string();
        let cells: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells, ["a", "->", "b", "3", "1", "2", "TLS", "1.3", "-", "h2"], "{text}");
    }
}
