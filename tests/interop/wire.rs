//! MessagePack as its specification has it, written apart from the program's own: what another language's library does.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// A value; maps keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// What all of `bytes` say; `None` if they are no value, or more than one.
    pub fn decode(bytes: &[u8]) -> Option<Value> {
        let mut input = bytes;
        let value = value(&mut input, 0)?;
        input.is_empty().then_some(value)
    }

    /// What is under a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn text(&self, key: &str) -> &str {
        if let Some(Value::Text(text)) = self.get(key) { text } else { panic!("no text `{key}` in {self:?}") }
    }

    pub fn number(&self, key: &str) -> u64 {
        if let Some(Value::Int(n)) = self.get(key) {
            u64::try_from(*n).expect("above zero")
        } else {
            panic!("no number `{key}` in {self:?}")
        }
    }

    /// The shortest form of numbers, the longest of everything else: both are allowed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        let long = |out: &mut Vec<u8>, marker: u8, len: usize| {
            out.push(marker);
            out.extend(u32::try_from(len).expect("small").to_be_bytes());
        };
        match self {
            Value::Nil => out.push(0xC0),
            Value::Bool(is) => out.push(0xC2 + u8::from(*is)),
            Value::Int(n @ 0..=0x7F) => out.push(*n as u8),
            Value::Int(n) if *n < 0 => {
                out.push(0xD3);
                out.extend((*n as i64).to_be_bytes());
            }
            Value::Int(n) => {
                out.push(0xCF);
                out.extend((*n as u64).to_be_bytes());
            }
            Value::Float(x) => {
                out.push(0xCB);
                out.extend(x.to_be_bytes());
            }
            Value::Text(text) => {
                long(out, 0xDB, text.len());
                out.extend(text.as_bytes());
            }
            Value::Bytes(bytes) => {
                long(out, 0xC6, bytes.len());
                out.extend(bytes);
            }
            Value::List(values) => {
                long(out, 0xDD, values.len());
                values.iter().for_each(|value| value.put(out));
            }
            Value::Map(entries) => {
                long(out, 0xDF, entries.len());
                for (key, value) in entries {
                    Value::Text(key.clone()).put(out);
                    value.put(out);
                }
            }
        }
    }

    /// The same from JSON; `{"bin": "hexadecimal"}` is bytes.
    pub fn from_json(json: &Json) -> Value {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(is) => Value::Bool(*is),
            Json::Number(n) => {
                let int = n.as_u64().map(i128::from).or_else(|| n.as_i64().map(i128::from));
                int.map_or_else(|| Value::Float(n.as_f64().expect("a number")), Value::Int)
            }
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(values) => Value::List(values.iter().map(Value::from_json).collect()),
            Json::Object(entries) => match entries.get("bin").and_then(Json::as_str) {
                Some(hex) => Value::Bytes(unhex(hex)),
                None => Value::Map(entries.iter().map(|(k, v)| (k.clone(), Value::from_json(v))).collect()),
            },
        }
    }

    /// As JSON, a line of up to 116 characters where that is enough, else a line for each part.
    pub fn to_json(&self, indent: usize) -> String {
        let line = self.line();
        if line.len() + indent <= 116 {
            return line;
        }
        let (open, parts, close): (_, Vec<String>, _) = match self {
            Value::List(values) => ('[', values.iter().map(|v| v.to_json(indent + 2)).collect(), ']'),
            Value::Map(entries) => {
                let part = |(k, v): &(String, Value)| format!("{k:?}: {}", v.to_json(indent + 2));
                ('{', entries.iter().map(part).collect(), '}')
            }
            _ => return line,
        };
        let pad = " ".repeat(indent + 2);
        format!("{open}\n{pad}{}\n{}{close}", parts.join(&format!(",\n{pad}")), " ".repeat(indent))
    }

    fn line(&self) -> String {
        let all = |parts: Vec<String>| parts.join(", ");
        match self {
            Value::Nil => "null".to_owned(),
            Value::Bool(is) => is.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => format!("{x:?}"),
            Value::Text(text) => format!("{text:?}"),
            Value::Bytes(bytes) => {
                let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                    write!(hex, "{byte:02x}").expect("memory is the only limit");
                    hex
                });
                format!("{{\"bin\": \"{hex}\"}}")
            }
            Value::List(values) => format!("[{}]", all(values.iter().map(Value::line).collect())),
            Value::Map(entries) => {
                format!("{{{}}}", all(entries.iter().map(|(k, v)| format!("{k:?}: {}", v.line())).collect()))
            }
        }
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}

/// Takes `n` bytes.
fn take<'a>(input: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(n)?;
    *input = rest;
    Some(taken)
}

/// A number of `n` bytes, the highest first.
fn unsigned(input: &mut &[u8], n: usize) -> Option<u64> {
    Some(take(input, n)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn value(input: &mut &[u8], depth: u32) -> Option<Value> {
    if depth > 64 {
        return None;
    }
    let marker = unsigned(input, 1)? as u8;
    let width = |low: u8| 1 << (marker - low);
    let len = |input: &mut &[u8], n: usize| unsigned(input, n).map(|len| len as usize);
    let signed = |n: u64, bytes: usize| i128::from((n << (64 - 8 * bytes)).cast_signed() >> (64 - 8 * bytes));
    Some(match marker {
        0x00..=0x7F => Value::Int(i128::from(marker)),
        0x80..=0x8F => map(input, usize::from(marker & 0x0F), depth)?,
        0x90..=0x9F => list(input, usize::from(marker & 0x0F), depth)?,
        0xA0..=0xBF => text(input, usize::from(marker & 0x1F))?,
        0xC0 => Value::Nil,
        0xC2 | 0xC3 => Value::Bool(marker == 0xC3),
        0xC4..=0xC6 => {
            let len = len(input, width(0xC4))?;
            Value::Bytes(take(input, len)?.to_vec())
        }
        0xCA => Value::Float(f64::from(f32::from_bits(unsigned(input, 4)? as u32))),
        0xCB => Value::Float(f64::from_bits(unsigned(input, 8)?)),
        0xCC..=0xCF => Value::Int(i128::from(unsigned(input, width(0xCC))?)),
        0xD0..=0xD3 => {
            let bytes = width(0xD0);
            Value::Int(signed(unsigned(input, bytes)?, bytes))
        }
        0xD9..=0xDB => {
            let len = len(input, width(0xD9))?;
            text(input, len)?
        }
        0xDC | 0xDD => {
            let len = len(input, 2 * width(0xDC))?;
            list(input, len, depth)?
        }
        0xDE | 0xDF => {
            let len = len(input, 2 * width(0xDE))?;
            map(input, len, depth)?
        }
        0xE0..=0xFF => Value::Int(i128::from(marker.cast_signed())),
        _ => return None,
    })
}

fn text(input: &mut &[u8], len: usize) -> Option<Value> {
    Some(Value::Text(std::str::from_utf8(take(input, len)?).ok()?.to_owned()))
}

fn list(input: &mut &[u8], len: usize, depth: u32) -> Option<Value> {
    (0..len).map(|_| value(input, depth + 1)).collect::<Option<_>>().map(Value::List)
}

fn map(input: &mut &[u8], len: usize, depth: u32) -> Option<Value> {
    let entry = |input: &mut &[u8]| match value(input, depth + 1)? {
        Value::Text(key) => Some((key, value(input, depth + 1)?)),
        _ => None,
    };
    (0..len).map(|_| entry(input)).collect::<Option<_>>().map(Value::Map)
}

#[test]
fn a_value_is_decoded_as_it_was_encoded() {
    let json =
        serde_json::json!({"a": [1, -1, 300, u64::MAX, i64::MIN, 1.5, null, true], "b": {"bin": "00ff"}, "c": ""});
    let value = Value::from_json(&json);
    assert_eq!(Value::decode(&value.encode()), Some(value.clone()));
    assert_eq!(Value::from_json(&serde_json::from_str(&value.to_json(0)).expect("JSON")), value);
    assert_eq!(Value::decode(b"\xdd\xff\xff\xff\xff"), None, "a list of four billion in five bytes");
}
