//! Text with places, and what is put there.

use bytes::{BufMut, BytesMut};

use crate::outside::template::{Item, Template};

/// A text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// With `{member}`, `{time}` and `{uuid}` in it.
    Fixed(Template),
    /// A value that answers give, by its row in the names.
    Value(usize),
    /// A column of the user's row.
    Column(usize),
    User,
    Seq,
}

/// Where a text goes, which tells how values are written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As it is.
    Plain,
    /// Into a path or query: percent-encoded but for unreserved characters (RFC 3986 §2.3).
    Path,
    /// Into a header: control characters become spaces.
    Header,
    /// Into a string or in place of a number of JSON (RFC 8259 §7).
    Json,
}

/// What is put into places.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Values that answers gave, by their rows in the names.
    pub known: &'a [Option<Box<str>>],
    /// Bytes that they are taken to have where they are not known.
    pub assumed: &'a [u32],
    /// The user's row.
    pub row: Option<&'a [Box<str>]>,
    /// The user's number over all instances, from 0; it is written from 1.
    pub user: u64,
    /// How often it was here before.
    pub count: u32,
    /// The instance, from 0.
    pub member: u32,
    /// A number that no other request of the instance has.
    pub unique: u64,
    /// Unix time, ns.
    pub epoch_ns: u64,
}

impl Values<'_> {
    /// Of nobody.
    pub const NOBODY: Values<'static> =
        Values { known: &[], assumed: &[], row: None, user: 0, count: 0, member: 0, unique: 0, epoch_ns: 0 };
}

/// The names in braces of a text, in order, with where they begin and end, braces included.
pub fn places(text: &str) -> impl Iterator<Item = (&str, std::ops::Range<usize>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find('{')?;
            from = start + 1;
            let rest = &text[from..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?;
            if is_name(&rest[..end]) && rest[end..].starts_with('}') {
                let name = &rest[..end];
                from += end + 1;
                return Some((name, start..from));
            }
        }
    })
}

/// Whether a word can be the name of a value: a letter, then letters, digits, `_` and `-`.
pub fn is_name(word: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(good)
}

/// Places that need nobody to tell what goes there.
pub const USUAL: [&str; 5] = ["user", "seq", "member", "time", "uuid"];

impl Text {
    /// Reads a text. A column goes before a value of the same name, and that before what is there always.
    ///
    /// # Errors
    /// A name in braces that means nothing.
    pub fn read(text: &str, names: &[String], columns: &[String]) -> Result<Text, String> {
        let (mut parts, mut from) = (Vec::new(), 0);
        for (name, place) in places(text) {
            let find = |all: &[String]| all.iter().position(|known| known == name);
            let part = match (find(columns), find(names)) {
                (Some(column), _) => Part::Column(column),
                (None, Some(row)) => Part::Value(row),
                (None, None) if name == "user" => Part::User,
                (None, None) if name == "seq" => Part::Seq,
                (None, None) if USUAL.contains(&name) => continue,
                (None, None) => return Err(unknown(name, names, columns)),
            };
            if place.start > from {
                parts.push(Part::Fixed(Template::read(&text[from..place.start])));
            }
            parts.push(part);
            from = place.end;
        }
        if from < text.len() {
            parts.push(Part::Fixed(Template::read(&text[from..])));
        }
        Ok(Text(parts))
    }

    /// The text, if nothing is put into it.
    pub fn plain(&self) -> Option<&str> {
        match &self.0[..] {
            [] => Some(""),
            [Part::Fixed(template)] => template.plain(),
            _ => None,
        }
    }

    /// Appends the text, filled in.
    pub fn render(&self, values: &Values<'_>, form: Form, out: &mut BytesMut) {
        for part in &self.0 {
            match part {
                Part::Fixed(template) => {
                    let item = Item { seq: values.unique, member: values.member, epoch_ns: values.epoch_ns };
                    template.render(item, out);
                }
                Part::Value(row) => match values.known.get(*row).and_then(Option::as_deref) {
                    Some(value) => form.write(value, out),
                    None => out.put_bytes(b'x', values.assumed.get(*row).map_or(0, |bytes| *bytes as usize)),
                },
                Part::Column(column) => {
                    let cell = values.row.and_then(|row| row.get(*column));
                    form.write(cell.map_or("", |cell| cell), out);
                }
                Part::User => form.write(&(values.user + 1).to_string(), out),
                Part::Seq => form.write(&values.count.to_string(), out),
            }
        }
    }
}

fn unknown(name: &str, names: &[String], columns: &[String]) -> String {
    let known: Vec<String> =
        columns.iter().chain(names).map(String::as_str).chain(USUAL).map(|name| format!("`{{{name}}}`")).collect();
    format!("nothing tells what `{{{name}}}` is; there are {}", known.join(", "))
}

impl Form {
    fn write(self, value: &str, out: &mut BytesMut) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for byte in value.bytes() {
            match self {
                Form::Path if !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) => {
                    out.put_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xF)]]);
                }
                Form::Header if byte < 0x20 || byte == 0x7F => out.put_u8(b' '),
                Form::Json if matches!(byte, b'"' | b'\\') => out.put_slice(&[b'\\', byte]),
                Form::Json if byte < 0x20 => {
                    out.put_slice(b"\\u00");
                    out.put_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xF)]]);
                }
                _ => out.put_u8(byte),
            }
        }
    }
}
