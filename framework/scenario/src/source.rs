//! Where text came from: the experiment file and each `--set`, side by side in one range of offsets.

use std::fmt;
use std::ops::Range;

use crate::printable::{printable, shortened};

/// The texts that an experiment is read from. A span of the first is an offset into the file; the later ones follow on.
#[derive(Debug)]
pub(crate) struct Sources {
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    name: String,
    is_file: bool,
    start: usize,
    text: String,
}

/// A place in one of the texts, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or the `--set` as it was typed.
    pub source: String,
    /// Whether the source is a file, which has lines worth numbering.
    pub is_file: bool,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line's text, without tabs.
    pub text: String,
    /// How many characters are meant, at least 1.
    pub width: usize,
    /// Offset over all texts, for the order of errors.
    pub(crate) offset: usize,
}

impl Sources {
    /// The file alone.
    pub(crate) fn new(path: &str, text: String) -> Self {
        Sources { segments: vec![Segment { name: path.to_owned(), is_file: true, start: 0, text }] }
    }

    /// Adds a `--set` and gives the offset at which its text begins.
    pub(crate) fn add_set(&mut self, text: &str) -> usize {
        let start = self.segments.last().map_or(0, |last| last.start + last.text.len() + 1);
        let name = format!("--set {text}");
        self.segments.push(Segment { name, is_file: false, start, text: text.to_owned() });
        start
    }

    /// Adds a further file and gives the offset at which its text begins.
    pub(crate) fn add_file(&mut self, name: &str, text: &str) -> usize {
        let start = self.segments.last().map_or(0, |last| last.start + last.text.len() + 1);
        self.segments.push(Segment { name: name.to_owned(), is_file: true, start, text: text.to_owned() });
        start
    }

    /// The file's text.
    pub(crate) fn file(&self) -> &str {
        &self.segments[0].text
    }

    /// Shows a span. One that reaches over a line's end is cut there.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let at = self.segments.partition_point(|s| s.start <= span.start).saturating_sub(1);
        let segment = &self.segments[at];
        let start = floor_boundary(&segment.text, span.start - segment.start);
        let end = floor_boundary(&segment.text, span.end.saturating_sub(segment.start)).max(start);
        let line_start = segment.text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line_end = segment.text[start..].find('\n').map_or(segment.text.len(), |n| start + n);
        Place {
            source: segment.name.clone(),
            is_file: segment.is_file,
            line: segment.text[..start].matches('\n').count() + 1,
            column: segment.text[line_start..start].chars().count() + 1,
            text: segment.text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
            width: segment.text[start..end.min(line_end)].chars().count().max(1),
            offset: span.start,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_file {
            write!(f, "{}:{}:{}", printable(&self.source), self.line, self.column)
        } else {
            f.write_str(&shortened(&self.source))
        }
    }
}

/// The nearest character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_columns_in_characters() {
        let mut sources = Sources::new("a.toml", "x = 1\nµµ = \"z\"\n".to_owned());
        let at = sources.file().find('z').expect("z stands there");
        let place = sources.place(&(at..at + 1));
        assert_eq!((place.line, place.column, place.width), (2, 7, 1));
        assert_eq!(place.to_string(), "a.toml:2:7");
        let start = sources.add_set("a.b=8");
        let place = sources.place(&(start + 2..start + 3));
        assert_eq!((place.line, place.column, place.text.as_str()), (1, 3, "a.b=8"));
        assert_eq!(place.to_string(), "--set a.b=8");
    }

    #[test]
    fn a_span_is_cut_at_the_end_of_its_line_and_of_the_text() {
        let sources = Sources::new("a.toml", "abc\ndef".to_owned());
        assert_eq!(sources.place(&(1..6)).width, 2);
        let end = sources.place(&(99..120));
        assert_eq!((end.line, end.column, end.width), (2, 4, 1));
    }
}
