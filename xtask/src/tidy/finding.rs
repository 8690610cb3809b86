//! One broken rule at one place.

use std::fmt;

/// One broken rule at one place; ordered by file, then line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path below the repository's top folder, with forward slashes.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl Finding {
    /// A finding at `line` (from 1) of `file`.
    pub fn new(file: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, instead } = self;
        write!(f, "{file}:{line}: {what}; {instead}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_place_fault_and_remedy() {
        let finding = Finding::new("bin/src/a.rs", 7, "`dbg!` left behind", "remove it");
        assert_eq!(finding.to_string(), "bin/src/a.rs:7: `dbg!` left behind; remove it");
    }
}
