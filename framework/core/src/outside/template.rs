//! Text with places that are filled in for each request: `{seq}`, `{member}`, `{time}` and `{uuid}`. Everything else stands
//! for itself, other braces too.

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
    Time,
    Uuid,
}

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
    /// Reads a text. Any text is one.
    pub fn read(text: &str) -> Template {
        const PLACES: [(&str, Part); 4] =
            [("{seq}", Part::Seq), ("{member}", Part::Member), ("{time}", Part::Time), ("{uuid}", Part::Uuid)];
        let (mut parts, mut rest) = (Vec::new(), text);
        loop {
            let next =
                PLACES.iter().filter_map(|(word, part)| Some((rest.find(word)?, word, part))).min_by_key(|n| n.0);
            let Some((at, word, part)) = next else { break };
            if at > 0 {
                parts.push(Part::Text(rest[..at].into()));
            }
            parts.push(part.clone());
            rest = &rest[at + word.len()..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Template(parts)
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
        assert_eq!(filled("", 0, 0), "");
        assert_eq!(filled("{seq}", u64::MAX, 0), u64::MAX.to_string());
        assert_eq!(Template::read("as it is").plain(), Some("as it is"));
        assert_eq!(Template::read("{seq}").plain(), None);
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
