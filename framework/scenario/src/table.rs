//! Aligned columns of text, and numbers for people.

use rehearsal_core::time::Span;

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

/// A duration in its largest sensible unit, `14.4 s`: hours and minutes from two on or where they come out even, smaller
/// ones with three decimals at most.
pub(crate) fn duration(span: Span) -> String {
    const SECOND: u64 = 1_000_000_000;
    let ns = span.as_nanos();
    let long = [("h", 3600 * SECOND), ("min", 60 * SECOND)].into_iter().find(|(_, scale)| {
        let tenths = ns.is_multiple_of(scale / 10);
        ns >= *scale && (ns.is_multiple_of(*scale) || (ns >= 2 * scale && tenths))
    });
    let short = [("s", SECOND), ("ms", 1_000_000), ("us", 1_000)].into_iter().find(|(_, scale)| ns >= *scale);
    match long.or(short) {
        None if ns == 0 => "0 s".to_owned(),
        None => format!("{ns} ns"),
        Some((unit, scale)) => {
            let text = format!("{:.3}", ns as f64 / scale as f64);
            format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
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
    fn durations_have_their_largest_sensible_unit() {
        let of = |ms| duration(Span::from_millis(ms));
        assert_eq!([14_400, 10_000, 90_000, 150_000].map(of), ["14.4 s", "10 s", "90 s", "2.5 min"]);
        assert_eq!([60_000, 130_000, 3_600_000, 0].map(of), ["1 min", "130 s", "1 h", "0 s"]);
        assert_eq!([1_234_567, 250_000, 999].map(|n| duration(Span::from_nanos(n))), ["1.235 ms", "250 us", "999 ns"]);
    }

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!([7, 790, 790_800, 1_000_000].map(grouped), ["7", "790", "790,800", "1,000,000"]);
    }
}
