//! From the text of a filter to its tree.

use super::{FilterError, More, Node, Question, Side};
use crate::frame::text::{mac, net};
use crate::frame::{ethertype, protocol};

/// Words of a filter at most. Assumed: nobody writes more, and the tree is walked for every packet.
const WORDS_MAX: usize = 1024;
/// Brackets and `not`s inside of each other at most. A chain of `and` is as deep as it has words, which are bounded too.
const DEPTH_MAX: usize = 64;
/// The largest number of a VLAN. Source: IEEE 802.1Q, 12 bits.
const VLAN_MAX: u32 = 4095;

/// Reads a filter.
pub(super) fn filter(text: &str) -> Result<Node, FilterError> {
    let words = words(text)?;
    let mut parser = Parser { words: &words, at: 0, end: text.chars().count() + 1, last: None };
    let node = parser.chain(0)?;
    match parser.peek() {
        None => Ok(node),
        Some(word) => Err(parser.wrong(&format!("`{word}` stands where `and`, `or` or the end should be"))),
    }
}

#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    column: usize,
}

fn words(text: &str) -> Result<Vec<Word<'_>>, FilterError> {
    let mut words = Vec::new();
    let mut start: Option<(usize, usize)> = None;
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((count, (at, c))) = chars.next() {
        let mut sign = None;
        match c {
            '(' | ')' => sign = Some(at + 1),
            '!' => sign = Some(at + 1),
            '&' | '|' if chars.peek().is_some_and(|(_, (_, next))| *next == c) => {
                chars.next();
                sign = Some(at + 2);
            }
            c if c.is_whitespace() => {}
            _ => {
                start.get_or_insert((at, count + 1));
                continue;
            }
        }
        if let Some((from, column)) = start.take() {
            words.push(Word { text: &text[from..at], column });
        }
        if let Some(end) = sign {
            words.push(Word { text: &text[at..end], column: count + 1 });
        }
        if words.len() > WORDS_MAX {
            return Err(FilterError { column: count + 1, what: format!("more than {WORDS_MAX} words") });
        }
    }
    if let Some((from, column)) = start {
        words.push(Word { text: &text[from..], column });
    }
    Ok(words)
}

/// What an address or port is asked of; a value alone takes those of the one before.
#[derive(Clone, Copy, Default)]
struct Qualifiers {
    v6: Option<bool>,
    protocol: Option<u8>,
    ether: bool,
    side: Side,
    kind: Option<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

struct Parser<'a> {
    words: &'a [Word<'a>],
    at: usize,
    end: usize,
    last: Option<Qualifiers>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|word| word.text)
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.at += usize::from(word.is_some());
        word
    }

    /// Takes one of these words, if it is next.
    fn eat(&mut self, words: &[&str]) -> bool {
        let is = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is);
        is
    }

    /// An error at the next word.
    fn wrong(&self, what: &str) -> FilterError {
        self.wrong_at(self.at, what)
    }

    fn wrong_at(&self, at: usize, what: &str) -> FilterError {
        FilterError { column: self.words.get(at).map_or(self.end, |word| word.column), what: what.to_owned() }
    }

    fn chain(&mut self, depth: usize) -> Result<Node, FilterError> {
        let mut node = self.term(depth)?;
        loop {
            let and = self.eat(&["and", "&&"]);
            if !and && !self.eat(&["or", "||"]) {
                return Ok(node);
            }
            let (left, right) = (Box::new(node), Box::new(self.term(depth)?));
            node = if and { Node::And(left, right) } else { Node::Or(left, right) };
        }
    }

    fn term(&mut self, depth: usize) -> Result<Node, FilterError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(&format!("more than {DEPTH_MAX} brackets or `not`s inside of each other")));
        }
        if self.eat(&["not", "!"]) {
            return Ok(Node::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.eat(&["("]) {
            let node = self.chain(depth + 1)?;
            return if self.eat(&[")"]) { Ok(node) } else { Err(self.wrong("a `)` is missing")) };
        }
        self.question().map(Node::Ask)
    }

    fn question(&mut self) -> Result<Question, FilterError> {
        let from = self.at;
        match self.peek() {
            None => return Err(self.wrong("something is missing; such as `host 10.0.0.1` or `tcp port 80`")),
            Some("less") => return self.length(true),
            Some("greater") => return self.length(false),
            Some("mpls") => {
                self.at += 1;
                return Ok(Question::Mpls);
            }
            Some("vlan") => {
                self.at += 1;
                let counts = self.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
                let number = counts.then(|| self.number(VLAN_MAX)).transpose()?;
                return Ok(Question::Vlan(number.map(|number| number as u16)));
            }
            _ => {}
        }
        let mut asked = Qualifiers::default();
        if let Some(question) = self.about(&mut asked)? {
            return Ok(question);
        }
        let bare = self.at == from;
        let Some(word) = self.next() else { return self.alone(&asked, from) };
        if matches!(word, ")" | "and" | "or" | "&&" | "||") {
            self.at -= 1;
            return self.alone(&asked, from);
        }
        if bare {
            let what =
                format!("`{word}` is not understood; write such as `host 10.0.0.1`, `net 10.0.0.0/8`, `tcp port 80`");
            asked = self.last.ok_or_else(|| self.wrong_at(from, &what))?;
        }
        let at = self.at - 1;
        let question = self.value(&asked, word).map_err(|what| self.wrong_at(at, &what))?;
        self.last = Some(asked);
        Ok(question)
    }

    /// Qualifiers, as long as there are some; a question if they are one already.
    fn about(&mut self, asked: &mut Qualifiers) -> Result<Option<Question>, FilterError> {
        if self.eat(&["ether"]) {
            asked.ether = true;
            if self.eat(&["proto"]) {
                return self.number(0xffff).map(|kind| Some(Question::EtherType(kind as u16)));
            }
        } else if let Some((v6, number, kind)) = self.peek().and_then(of_protocol) {
            self.at += 1;
            if let Some(kind) = kind {
                return Ok(Some(Question::EtherType(kind)));
            }
            (asked.v6, asked.protocol) = (v6, number);
        }
        if self.eat(&["proto"]) {
            asked.protocol = Some(self.number(255)? as u8);
            return Ok(None);
        }
        asked.side = self.side();
        asked.kind = match self.peek() {
            Some("host") => Some(Kind::Host),
            Some("net") => Some(Kind::Net),
            Some("port") => Some(Kind::Port),
            Some("portrange") => Some(Kind::PortRange),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(None)
    }

    fn side(&mut self) -> Side {
        let side = match self.peek() {
            Some("src") => Side::Source,
            Some("dst") => Side::Destination,
            _ => return Side::Either,
        };
        self.at += 1;
        let word = |at: usize| self.words.get(at).map(|word| word.text);
        let (joint, other) = (word(self.at), word(self.at + 1));
        let opposite = if side == Side::Source { "dst" } else { "src" };
        if other != Some(opposite) {
            return side;
        }
        let side = match joint {
            Some("or" | "||") => Side::Either,
            Some("and" | "&&") => Side::Both,
            _ => return side,
        };
        self.at += 2;
        side
    }

    /// Qualifiers without a value: a protocol is one by itself.
    fn alone(&self, asked: &Qualifiers, from: usize) -> Result<Question, FilterError> {
        let plain = asked.kind.is_none() && asked.side == Side::Either && !asked.ether;
        if plain && (asked.v6.is_some() || asked.protocol.is_some()) {
            return Ok(Question::Network { v6: asked.v6, protocol: asked.protocol, more: More::Nothing });
        }
        let what =
            if self.at == from { "something is missing before this" } else { "an address or a number is missing" };
        Err(self.wrong(what))
    }

    fn value(&self, asked: &Qualifiers, word: &str) -> Result<Question, String> {
        if asked.ether {
            let address =
                mac(word).ok_or_else(|| format!("`{word}` is no Ethernet address; write such as 02:00:00:00:00:01"))?;
            return Ok(Question::Ether(asked.side, address));
        }
        let more = match asked.kind {
            Some(Kind::Port) => {
                let port = word.parse().map_err(|_| format!("`{word}` is no port; write a number from 0 to 65535"))?;
                More::Ports(asked.side, port, port)
            }
            Some(Kind::PortRange) => {
                // one port is a range too, such as the second of `portrange 5000-5999 or 80`
                let (from, to) = word.split_once('-').unwrap_or((word, word));
                let range = from.parse::<u16>().ok().zip(to.parse::<u16>().ok());
                let (from, to) =
                    range.ok_or_else(|| format!("`{word}` is no range of ports; write such as 5000-5999"))?;
                if from > to {
                    return Err(format!("`{word}` ends before it begins; write {to}-{from}"));
                }
                More::Ports(asked.side, from, to)
            }
            kind => {
                let (address, length) = net(word).ok_or_else(|| {
                    format!("`{word}` is no address; write such as 10.0.0.1, 10.0.0.0/8 or 2001:db8::1, never a name")
                })?;
                if kind == Some(Kind::Host) && word.contains('/') {
                    return Err(format!("`{word}` is a network; write `net {word}`"));
                }
                More::Addresses(asked.side, address, length)
            }
        };
        Ok(Question::Network { v6: asked.v6, protocol: asked.protocol, more })
    }

    fn length(&mut self, most: bool) -> Result<Question, FilterError> {
        self.at += 1;
        Ok(Question::Length { most, bytes: self.number(u32::MAX)? })
    }

    fn number(&mut self, most: u32) -> Result<u32, FilterError> {
        let at = self.at;
        let parsed = self.next().and_then(|word| match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        });
        parsed
            .filter(|number| *number <= most)
            .ok_or_else(|| self.wrong_at(at, &format!("a number from 0 to {most} is missing")))
    }
}

/// IP version, protocol, and EtherType that the name of a protocol stands for.
fn of_protocol(word: &str) -> Option<(Option<bool>, Option<u8>, Option<u16>)> {
    Some(match word {
        "ip" => (Some(false), None, None),
        "ip6" => (Some(true), None, None),
        "tcp" => (None, Some(protocol::TCP), None),
        "udp" => (None, Some(protocol::UDP), None),
        "sctp" => (None, Some(protocol::SCTP), None),
        "icmp" => (Some(false), Some(protocol::ICMP), None),
        "icmp6" => (Some(true), Some(protocol::ICMPV6), None),
        "arp" => (None, None, Some(ethertype::ARP)),
        _ => return None,
    })
}
