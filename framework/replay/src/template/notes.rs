//! What a template says of itself: where its packets came from, and the ledger of what was left out.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a packet of a capture is not in the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// The filter did not want it.
    Filter,
    /// It was outside of the time range.
    Range,
    /// It holds no bytes.
    Empty,
    /// It holds less than an Ethernet header.
    Short,
    /// It was cut by the capture, and cut ones were not wanted.
    Cut,
    /// Its link type has no Ethernet form.
    LinkType,
    /// It is of a protocol that its link type knows but Ethernet does not.
    Protocol,
    /// It names an interface that the capture does not describe.
    Interface,
    /// Its time is outside of what 64 bits of nanoseconds hold.
    Time,
}

/// Every packet that was read, accounted for: read = loaded + left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Packets that the capture held, as far as it was read.
    pub read: u64,
    /// Packets that are in the template.
    pub loaded: u64,
    /// Packets that are not, by reason.
    pub left: BTreeMap<Left, u64>,
    /// Loaded packets that the capture had cut.
    pub cut: u64,
    /// Loaded packets that held more bytes than they had on the link; the surplus was dropped.
    pub trimmed: u64,
    /// Loaded packets without a time of their own: they got that of the one before.
    pub untimed: u64,
    /// Loaded packets that were older than one before; all are in order now.
    pub backward: u64,
    /// Loaded packets that got an Ethernet header, because their link had none.
    pub headed: u64,
    /// Loaded packets by the number of their link type.
    pub link_types: BTreeMap<u32, u64>,
    /// What else was strange, once each.
    pub warnings: Vec<String>,
}

/// Warnings that are kept. Assumed: nobody reads more.
const WARNINGS_MAX: usize = 20;

impl Ledger {
    /// Counts a packet that is left out.
    pub fn leave(&mut self, why: Left) {
        *self.left.entry(why).or_default() += 1;
    }

    /// Packets that are left out.
    pub fn left_out(&self) -> u64 {
        self.left.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Notes something strange, unless it is noted already.
    pub fn warn(&mut self, what: String) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&what) {
            self.warnings.push(what);
        }
    }
}

/// Where a template came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// `pcap`, `pcapng`, or nothing for packets that were made.
    pub format: Option<String>,
    /// When its first packet was captured, nanoseconds since 1970 (UTC).
    pub began: u64,
    /// The filter, if there was one.
    pub filter: Option<String>,
    /// The part that was taken, nanoseconds since the capture's first packet.
    pub range: Option<(u64, u64)>,
    /// The most packets that were taken.
    pub limit: Option<u64>,
    /// What became of every packet.
    pub ledger: Ledger,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Left::Filter => "not wanted by the filter",
            Left::Range => "outside of the time range",
            Left::Empty => "without bytes",
            Left::Short => "shorter than an Ethernet header",
            Left::Cut => "cut by the capture",
            Left::LinkType => "of a link type without an Ethernet form",
            Left::Protocol => "of a protocol without an EtherType",
            Left::Interface => "of an interface that is not described",
            Left::Time => "with a time that cannot be",
        })
    }
}
