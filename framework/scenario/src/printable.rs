//! Text from a file or a command line on its way to a terminal: it cannot move the cursor or hide what follows.

/// Most characters of a source line that are shown.
const SHOWN_MAX: usize = 160;

/// `text` with its control characters and marks of writing direction written out, `\n` or `\u{1b}`.
pub fn printable(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// As [`printable`], but lines stay lines.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

fn shown(c: char) -> String {
    // U+200E…, U+202A… and U+2066… turn the writing direction (Unicode Annex 9)
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || turns { c.escape_default().to_string() } else { c.to_string() }
}

/// The start of a long text.
pub(crate) fn shortened(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The part of a source line around a mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    /// Characters before the mark.
    pub(crate) indent: usize,
    /// Characters of the mark, at least 1.
    pub(crate) width: usize,
}

impl Excerpt {
    /// `line` around `width` characters at `column`, from 1.
    pub(crate) fn new(line: &str, column: usize, width: usize) -> Self {
        let (line, at) = (line.chars().collect::<Vec<char>>(), column.saturating_sub(1));
        let from = at.saturating_sub(SHOWN_MAX / 2).min(line.len().saturating_sub(SHOWN_MAX));
        let to = (from + SHOWN_MAX).min(line.len());
        let part = |from: usize, to: usize| line[from.min(to)..to].iter().map(|c| shown(*c)).collect::<String>();
        let (start, end) = (at.clamp(from, to), (at + width).clamp(from, to));
        let ahead = if from > 0 { "…" } else { "" };
        let before = format!("{ahead}{}", part(from, start));
        let marked = part(start, end);
        let after = format!("{}{}", part(end, to), if to < line.len() { "…" } else { "" });
        Excerpt {
            indent: before.chars().count(),
            width: marked.chars().count().max(1),
            text: format!("{before}{marked}{after}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_written_out() {
        assert_eq!(printable("a\x1b[2J\r\nb\u{202e}µ"), "a\\u{1b}[2J\\r\\nb\\u{202e}µ");
        assert_eq!(printable_lines("a\x07\nb"), "a\\u{7}\nb");
    }

    #[test]
    fn a_mark_stays_under_what_it_marks() {
        let excerpt = Excerpt::new("x = \x1b\"ab\"", 6, 4);
        assert_eq!(excerpt, Excerpt { text: "x = \\u{1b}\"ab\"".to_owned(), indent: 10, width: 4 });
        let end = Excerpt::new("ab", 3, 1);
        assert_eq!(end, Excerpt { text: "ab".to_owned(), indent: 2, width: 1 });
    }

    #[test]
    fn a_long_line_is_cut_around_its_mark() {
        let line = format!("{}here{}", "a".repeat(5000), "b".repeat(5000));
        let excerpt = Excerpt::new(&line, 5001, 4);
        let marked: String = excerpt.text.chars().skip(excerpt.indent).take(excerpt.width).collect();
        assert_eq!(marked, "here");
        assert_eq!(excerpt.text.chars().count(), SHOWN_MAX + 2);
        let all = Excerpt::new(&line, 1, 9000);
        assert_eq!((all.indent, all.width, all.text.chars().count()), (0, SHOWN_MAX, SHOWN_MAX + 1));
        assert_eq!(shortened(&line).chars().count(), SHOWN_MAX + 1);
    }
}
