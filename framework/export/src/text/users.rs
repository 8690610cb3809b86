//! The table of users by state in a printed report: how many there were, and how many the model has in the long run.

use super::grid::Grid;
use crate::summary::{Occupancy, Summary};

/// The table, if there are users.
pub(super) fn grid(summary: &Summary) -> Option<Grid> {
    let rows = Occupancy::of(summary);
    if rows.is_empty() {
        return None;
    }
    let mut grid = Grid::new(&["users of", "state", "in the mean", "by the model"]);
    let many = |users: f64| if users >= 100.0 { format!("{users:.0}") } else { format!("{users:.2}") };
    for row in rows {
        let expected = row.expected.map_or_else(|| "-".to_owned(), many);
        grid.row(vec![row.actor, row.state, many(row.seen), expected]);
    }
    Some(grid)
}
