//! What a benchmark leaves: a table for people, and a JSON file that says on which machine and how.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::figures::{Figures, plain};
use super::lab::Lab;

/// A figure that is aimed at.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Goal {
    fn met(self, value: f64) -> bool {
        match self {
            Goal::AtLeast(bound) => value >= bound,
            Goal::AtMost(bound) => value <= bound,
        }
    }

    fn text(self, value: f64) -> String {
        let (sign, bound) = match self {
            Goal::AtLeast(bound) => ("≥", bound),
            Goal::AtMost(bound) => ("≤", bound),
        };
        format!("goal {sign} {}: {}", plain(bound), if self.met(value) { "met" } else { "MISSED" })
    }
}

/// A report in the making.
pub struct Report {
    name: &'static str,
    rows: Vec<Vec<String>>,
    lines: Vec<String>,
    json: Map<String, Value>,
}

impl Report {
    /// A report with nothing in it.
    pub fn new(name: &'static str) -> Self {
        let heading = ["", "median", "min", "max", "unit", ""].map(str::to_owned).to_vec();
        Report { name, rows: vec![heading], lines: Vec::new(), json: Map::new() }
    }

    /// Adds a row; `key` is its name in the file.
    pub fn row(&mut self, key: &str, label: &str, figures: &Figures, unit: &str, goal: Option<Goal>) {
        let judged = goal.map(|goal| goal.text(figures.median)).unwrap_or_default();
        let [median, min, max] = [figures.median, figures.min, figures.max].map(plain);
        self.rows.push(vec![label.to_owned(), median, min, max, unit.to_owned(), judged]);
        let met = goal.map(|goal| goal.met(figures.median));
        self.json.insert(key.to_owned(), json!({ "unit": unit, "figures": figures, "goal": goal, "met": met }));
    }

    /// Adds a sentence under the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    /// Adds something to the file alone.
    pub fn attach(&mut self, key: &str, value: Value) {
        self.json.insert(key.to_owned(), value);
    }

    /// What the file will hold of results.
    #[cfg(test)]
    pub fn json(&self) -> &Map<String, Value> {
        &self.json
    }

    /// Prints the report and writes its file.
    pub fn finish(self, lab: &Lab) -> Result<()> {
        println!("\nbench {}: {}", self.name, lab.machine.line());
        if !lab.machine.pinned {
            println!("nothing is pinned: there is one core, or no taskset (util-linux)");
        }
        print!("{}", grid(&self.rows));
        for line in &self.lines {
            println!("{line}");
        }
        let file = lab.folder.join(self.name).with_extension("json");
        let json = json!({
            "bench": self.name,
            "machine": lab.machine,
            "commands": lab.commands,
            "results": self.json,
            "notes": self.lines,
        });
        fs::write(&file, serde_json::to_string_pretty(&json)? + "\n")
            .with_context(|| format!("writing {}", file.display()))?;
        println!("written: {}", file.display());
        Ok(())
    }
}

/// Columns as wide as their widest cell; the first and the last two to the left, numbers to the right.
fn grid(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match (column, width(column)) {
            (1..=3, width) => format!("{cell:>width$}"),
            (_, width) => format!("{cell:<width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_its_goal() {
        assert_eq!(Goal::AtLeast(0.7).text(0.7), "goal ≥ 0.700: met");
        assert_eq!(Goal::AtLeast(0.97).text(0.96), "goal ≥ 0.970: MISSED");
        assert_eq!(Goal::AtMost(0.0).text(0.0), "goal ≤ 0: met");
        assert_eq!(Goal::AtMost(10.0).text(10.5), "goal ≤ 10.0: MISSED");
    }

    #[test]
    fn columns_line_up() {
        let mut report = Report::new("test");
        report.row("a", "sender", &Figures::of([12_345.0]), "1/s", None);
        report.row("b", "ratio", &Figures::of([0.5, 0.9]), "", Some(Goal::AtLeast(0.7)));
        let text = grid(&report.rows);
        let ends: Vec<_> = text.lines().map(|line| line.chars().take(22).collect::<String>()).collect();
        assert_eq!(ends, ["        median     min", "sender  12,345  12,345", "ratio    0.700   0.500"]);
        assert_eq!(report.json["b"]["met"], true);
        assert_eq!(report.json["a"]["figures"]["rounds"][0], 12_345.0);
    }
}
