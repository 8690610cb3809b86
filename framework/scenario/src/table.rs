//! Aligned columns of text.

/// Rows of cells, set in columns as wide as their widest cell.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The rows, each behind two spaces, with two spaces between columns. A column without any text is left out.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
                line.push_str(&format!("  {cell:width$}"));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A number with its digits in groups of three, `790,800`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_vanish() {
        let mut columns = Columns::default();
        columns.row(["a".into(), String::new(), "long".into()]);
        columns.row(["bcd".into(), String::new(), "x".into()]);
        assert_eq!(columns.render(), "  a    long\n  bcd  x\n");
    }

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!([7, 790, 790_800, 1_000_000].map(grouped), ["7", "790", "790,800", "1,000,000"]);
    }
}
