//! Just enough of Rust's lexical grammar to look at code without its comments, strings and tests.
//!
//! Everything blanked becomes spaces of the same length, so that offsets and line numbers stay true.

use std::iter;
use std::ops::Range;

/// The code of `text`: comments and the contents of string and character literals are blanked.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let word = word_len(&bytes[at..]);
        match literal_len(&text[at..], word) {
            Some(len) => {
                blank(&mut out[at..at + len]);
                at += len;
            }
            None => at += word.max(char_len(&text[at..])),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the items marked `#[cfg(test)]` stand in `code`, in order and apart; a file marked as a whole is one range.
pub fn test_items(code: &str) -> Vec<Range<usize>> {
    if code.contains("#![cfg(test)]") {
        return everything(code);
    }
    let mut starts: Vec<usize> = ["#[cfg(test)]", "#[cfg(all(test,"]
        .iter()
        .flat_map(|marker| code.match_indices(marker))
        .map(|(at, _)| at)
        .collect();
    starts.sort_unstable();
    let mut items: Vec<Range<usize>> = Vec::new();
    for start in starts {
        if items.last().is_none_or(|last| last.end <= start) {
            items.push(start..item_end(code, start));
        }
    }
    items
}

/// All of `code` as one range.
pub fn everything(code: &str) -> Vec<Range<usize>> {
    iter::once(0..code.len()).collect()
}

/// `code` with `items` blanked.
pub fn without(code: &str, items: &[Range<usize>]) -> String {
    let mut out = code.as_bytes().to_vec();
    for item in items {
        blank(&mut out[item.clone()]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where the item that starts at `from` ends: past its `;`, or past the `}` that closes its block.
pub fn item_end(code: &str, from: usize) -> usize {
    let mut nested = 0_usize;
    let mut braces = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' if nested == 0 => braces += 1,
            b'}' if nested == 0 && braces <= 1 => return at + braces,
            b'}' if nested == 0 => braces -= 1,
            b';' if nested == 0 && braces == 0 => return at + 1,
            b'(' | b'[' if braces == 0 => nested += 1,
            b')' | b']' if braces == 0 && nested > 0 => nested -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The line, counted from 1, of the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset].iter().filter(|b| **b == b'\n').count()
}

/// The offsets of `needle` in `code`, as whole words where its ends are word characters.
pub fn find<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(needle).map(|(at, _)| at).filter(|&at| {
        let (bytes, end) = (code.as_bytes(), at + needle.len());
        let before = at > 0 && is_word(bytes[at - 1]) && is_word(bytes[at]);
        let after = end < bytes.len() && is_word(bytes[end - 1]) && is_word(bytes[end]);
        !before && !after
    })
}

/// Whether `byte` may stand in an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|b| **b != b'\n') {
        *byte = b' ';
    }
}

fn word_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| is_word(**b)).count()
}

fn char_len(rest: &str) -> usize {
    rest.chars().next().map_or(1, char::len_utf8)
}

/// The length of the comment or literal at the start of `rest`, whose first `word` bytes are a word.
fn literal_len(rest: &str, word: usize) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_len(rest));
    }
    let body = &rest[word..];
    let len = match &rest[..word] {
        "" | "b" | "c" if body.starts_with('"') => quoted_len(body),
        "" | "b" if body.starts_with('\'') => char_literal_len(body)?,
        "r" | "br" | "cr" => raw_len(body)?,
        _ => return None,
    };
    Some(word + len)
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `None` where the quote opens a lifetime or a label.
fn char_literal_len(rest: &str) -> Option<usize> {
    let inner = &rest[1..];
    if inner.starts_with('\\') {
        let close = inner.char_indices().skip(2).find(|(_, c)| *c == '\'');
        return close.map(|(at, _)| at + 2);
    }
    let len = char_len(inner);
    inner.get(len..).filter(|after| after.starts_with('\'')).map(|_| len + 2)
}

/// `None` where the hashes open a raw identifier.
fn raw_len(rest: &str) -> Option<usize> {
    let hashes = rest.bytes().take_while(|b| *b == b'#').count();
    let body = rest[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(hashes + 1 + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y") g"#, "f(      ) g"),
            (r##"f(r#"x"y"#) g"##, "f(        ) g"),
            ("f(b\"x\", 'y', '\\'', '\\u{1}') g", "f(    ,    ,     ,        ) g"),
            ("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}"),
            ("let r#type = 1;", "let r#type = 1;"),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn wide_characters_keep_offsets() {
        let text = "// µ → ∞\nlet x = 'µ'; y";
        let code = code(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.find('y'), text.find('y'));
        assert_eq!(line_of(&code, code.len()), 2);
    }

    #[test]
    fn only_the_marked_item_is_a_test() {
        let code =
            "#[cfg(test)]\nuse a::{b, c};\nfn d([u8; 2]) {}\n#[cfg(test)]\nmod tests { fn e() { {} } }\nfn f() {}";
        let live = without(code, &test_items(code));
        assert!(!live.contains("mod tests") && !live.contains("fn e"), "{live}");
        assert!(live.contains("fn d") && live.contains("fn f"), "{live}");
        assert_eq!(live.len(), code.len());
        let marked = "#![cfg(test)]\nfn a() {}";
        assert_eq!(test_items(marked), everything(marked));
    }

    #[test]
    fn words_are_found_whole() {
        let code = "HashMap MyHashMap HashMaps x.unwrap() x.unwrap_or(1)";
        assert_eq!(find(code, "HashMap").collect::<Vec<_>>(), [0]);
        assert_eq!(find(code, ".unwrap()").count(), 1);
    }
}
