//! Text with places that are filled in for each request: `{seq}`, `{member}`, `{time}` and `{uuid}`, and once for each group:
//! `{node}` and `{actor}`. `{{word}}` stands for `{word}`, and everything else for itself, other braces too.

use bytes::BytesMut;

/// `1700000000.123`: ten digits of seconds until the year 2286.
const TIME_CHARS: usize = 14;
/// Eight, four, four, four and twelve digits, and the dashes between them.
const UUID_CHARS: usize = 36;

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Seq,
    Member,
    Node,
    Actor,
    Time,
    Uuid,
}

/// What can be filled in.
const PLACES: [(&str, Part); 6] = [
    ("seq", Part::Seq),
    ("member", Part::Member),
    ("node", Part::Node),
    ("actor", Part::Actor),
    ("time", Part::Time),
    ("uuid", Part::Uuid),
];
/// Longest word in braces that is taken for one. Assumed: longer than any name that somebody would expect to work.
const WORD_MAX: usize = 32;

/// What is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The request's number within its instance, from 0.
    pub seq: u64,
    /// The instance, from 0; it is written from 1.
    pub member: u32,
    /// Unix time, ns.
    pub epoch_ns: u64,
}

impl Template {
    /// Reads a text. Any text is one: a word that nothing is known of stands for itself, braces and all.
    pub fn read(text: &str) -> Template {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(Braced { at, end, word, twice }) = Braced::first(rest) {
            plain += &rest[..at];
            let known = PLACES.iter().find(|(name, _)| *name == word).filter(|_| !twice);
            match known {
                Some((_, part)) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain).into()));
                    }
                    parts.push(part.clone());
                }
                None => plain = plain + "{" + word + "}",
            }
            rest = &rest[end..];
        }
        plain += rest;
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Template(parts)
    }

    /// Whether every word in braces can be filled in.
    ///
    /// # Errors
    /// Names the first that cannot.
    pub fn check(text: &str) -> Result<(), String> {
        let mut rest = text;
        while let Some(Braced { end, word, twice, .. }) = Braced::first(rest) {
            if !twice && PLACES.iter().all(|(name, _)| *name != word) {
                let known = PLACES.map(|(name, _)| format!("{{{name}}}")).join(", ");
                return Err(format!(
                    "`{{{word}}}` is nothing that could be filled in; there are {known}, and `{{{{{word}}}}}` is sent as `{{{word}}}`"
                ));
            }
            rest = &rest[end..];
        }
        Ok(())
    }

    /// The same with the names of who sends it.
    pub fn of(mut self, node: &str, actor: &str) -> Template {
        for part in &mut self.0 {
            match part {
                Part::Node => *part = Part::Text(node.into()),
                Part::Actor => *part = Part::Text(actor.into()),
                _ => {}
            }
        }
        let mut joined: Vec<Part> = Vec::new();
        for part in self.0 {
            match (joined.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(text)) => *before = format!("{before}{text}").into(),
                (_, part) => joined.push(part),
            }
        }
        Template(joined)
    }

    /// The text, if nothing is to be filled in.
    pub fn plain(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Bytes of the text that is filled in, whatever the time.
    pub fn length(&self, seq: u64, member: u32) -> usize {
        let of = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Seq => digits(seq),
            Part::Member => digits(u64::from(member) + 1),
            // of nobody
            Part::Node | Part::Actor => 0,
            Part::Time => TIME_CHARS,
            Part::Uuid => UUID_CHARS,
        };
        self.0.iter().map(of).sum()
    }

    /// Appends the text, filled in.
    pub fn render(&self, item: Item, out: &mut BytesMut) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Seq => decimal(item.seq, digits(item.seq), out),
                Part::Member => {
                    let number = u64::from(item.member) + 1;
                    decimal(number, digits(number), out);
                }
                Part::Node | Part::Actor => {}
                Part::Time => {
                    let millis = item.epoch_ns / 1_000_000;
                    decimal(millis / 1000, TIME_CHARS - 4, out);
                    out.extend_from_slice(b".");
                    decimal(millis % 1000, 3, out);
                }
                Part::Uuid => uuid(item, out),
            }
        }
    }
}

/// A word in braces, once or twice.
struct Braced<'a> {
    at: usize,
    end: usize,
    word: &'a str,
    twice: bool,
}

impl<'a> Braced<'a> {
    fn first(text: &'a str) -> Option<Self> {
        text.match_indices('{').find_map(|(at, _)| Braced::at(text, at))
    }

    fn at(text: &'a str, at: usize) -> Option<Self> {
        let twice = text[at + 1..].starts_with('{');
        let from = at + 1 + usize::from(twice);
        let rest = &text[from..];
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        let word = &rest[..length];
        let close = if twice { "}}" } else { "}" };
        let good = word.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()) && length <= WORD_MAX;
        (good && rest[length..].starts_with(close)).then(|| Braced {
            at,
            end: from + length + close.len(),
            word,
            twice,
        })
    }
}

/// Decimal digits of a number.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Appends the last `width` decimal digits.
fn decimal(mut number: u64, width: usize, out: &mut BytesMut) {
    let start = out.len();
    out.resize(start + width, b'0');
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// RFC 9562 §5.8, a UUID of one's own making: the same for the same instance and number, other for any other.
fn uuid(item: Item, out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let one = spread(item.seq ^ u64::from(item.member).rotate_right(32));
    let two = spread(one ^ 0x9E37_79B9_7F4A_7C15);
    // every number has another upper half: the version takes four of its bits, which the lower half keeps
    let bits = u128::from(one) << 64 | u128::from(two);
    let bits = bits & !(0xF << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    for digit in (0..32).rev() {
        if matches!(digit, 23 | 19 | 15 | 11) {
            out.extend_from_slice(b"-");
        }
        out.extend_from_slice(&[HEX[(bits >> (4 * digit)) as usize & 0xF]]);
    }
}

/// A permutation of the 64-bit numbers (the finaliser of splitmix64).
fn spread(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn filled(text: &str, seq: u64, member: u32) -> String {
        let (template, mut out) = (Template::read(text), BytesMut::new());
        template.render(Item { seq, member, epoch_ns: 1_700_000_000_123_456_789 }, &mut out);
        assert_eq!(out.len(), template.length(seq, member), "{text}");
        String::from_utf8(out.to_vec()).expect("text")
    }

    #[test]
    fn places_are_filled_in_and_the_rest_stands() {
        assert_eq!(filled(r#"{"id":{seq},"of":"{member}"}"#, 10, 0), r#"{"id":10,"of":"1"}"#);
        assert_eq!(filled("/x?t={time}&{other}{", 0, 9), "/x?t=1700000000.123&{other}{");
        assert_eq!(filled(r#"{{seq}}{"a":{{seq}}}{{seq}"#, 7, 9), r#"{seq}{"a":{seq}}{7"#);
        assert_eq!(filled("", 0, 0), "");
        assert_eq!(filled("{seq}", u64::MAX, 0), u64::MAX.to_string());
        assert_eq!(Template::read("as it is").plain(), Some("as it is"));
        assert_eq!(Template::read("{seq}").plain(), None);
    }

    #[test]
    fn words_that_mean_nothing_are_named_and_names_are_put_in() {
        for good in
            ["", "{}", "{\"a\":{\"b\":1}}", "{{bad}}", "{seq}{member}{node}{actor}{time}{uuid}", "a{b c}", "{1}"]
        {
            assert_eq!(Template::check(good), Ok(()), "{good}");
        }
        let why = Template::check("{\"id\":{seq},\"x\":{bad}}").expect_err("it names a word");
        assert!(why.starts_with("`{bad}` is nothing") && why.ends_with("`{{bad}}` is sent as `{bad}`"), "{why}");
        let text = Template::read("/{node}/{actor}/{seq}").of("camera-2", "main");
        assert_eq!(text.length(10, 0), "/camera-2/main/10".len());
        assert_eq!(Template::read("a{node}b").of("n", "m").plain(), Some("anb"));
    }

    #[test]
    fn each_request_has_a_uuid_of_its_own_and_keeps_it() {
        let mut seen = BTreeSet::new();
        for member in 0..10 {
            for seq in 0..1000 {
                assert!(seen.insert(filled("{uuid}", seq, member)), "{member}, {seq}");
            }
        }
        let one = filled("{uuid}", 7, 3);
        assert_eq!(one, filled("{uuid}", 7, 3));
        let fields: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(fields, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'8', "the version");
        assert!(b"89ab".contains(&one.as_bytes()[19]), "the variant");
    }
}
