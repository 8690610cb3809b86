//! A table of text: the first column to the left, the others to the right.

use std::fmt;

/// A table that is being filled.
#[derive(Clone, Debug)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these heads.
    pub fn new(heads: &[&str]) -> Self {
        Grid { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    /// Adds a row; it has as many cells as there are heads.
    ///
    /// # Panics
    /// When it has not.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row has one cell for each head");
        self.rows.push(cells);
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let chars = |row: &Vec<String>, at: usize| row[at].chars().count();
        let widths: Vec<usize> =
            (0..columns).map(|at| self.rows.iter().map(|row| chars(row, at)).max().unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[at] - cell.chars().count());
                line += &if at == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
