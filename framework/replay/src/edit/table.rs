//! The table `[edit]`: what a user writes.

use rehearsal_core::dscp::Dscp;
use serde::{Deserialize, Serialize};

/// What is changed. Nothing is, by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Edit {
    /// `FROM -> TO` for addresses: a host to a host, a network to a network (bits of hosts stay), a network to a host. The
    /// first that fits counts.
    pub ip: Vec<String>,
    /// Hosts or networks: the i-th other host of the template becomes the i-th of these, in turn.
    pub nodes: Vec<String>,
    /// Networks, one of each version of IP: other hosts get addresses drawn from them, each its own.
    pub random_hosts: Vec<String>,
    /// Whether the same ones are drawn in each lap.
    pub laps: Laps,
    /// Where drawing begins.
    pub seed: u64,
    /// A key of 16 characters or more: other hosts and Ethernet addresses become anonymous, prefixes stay.
    pub anonymise: Option<String>,
    /// `FROM -> TO` for Ethernet addresses.
    pub mac: Vec<String>,
    /// Ethernet address of the side that opened a stream.
    pub client_mac: Option<String>,
    /// Ethernet address of the other side.
    pub server_mac: Option<String>,
    /// `FROM -> TO` for ports of TCP and UDP.
    pub port: Vec<String>,
    /// Changes of VLAN tags, one after the other: `pop`, `pop all`, `push 100`, `push 100 priority 5`,
    /// `push-service 100`, `100 -> 200`, `any -> 200`.
    pub vlan: Vec<String>,
    /// TTL or hop limit of the outermost IP header: 1 to 255 sets it, -1 to -255 lowers it, to 1 at least.
    pub ttl: Option<i16>,
    /// DSCP of the outermost IP header: a name or a number.
    pub dscp: Option<Dscp>,
    /// What becomes of the innermost payload.
    pub payload: Payload,
    /// Longest innermost payload, bytes; what is longer is cut, and all lengths say so.
    pub payload_bytes_max: Option<u32>,
    /// Makes frames longer by zeros: `"original"`, as they were before the capture cut them, or a number of bytes.
    pub pad: Option<Pad>,
    /// Drops what stands behind an IP packet, such as a frame check sequence that was captured; padding to 60 bytes stays.
    pub trim_trailer: bool,
    /// What becomes of checksums.
    pub checksums: Checksums,
}

/// Addresses over laps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Laps {
    /// The same in each.
    #[default]
    Same,
    /// New ones in each.
    Unique,
}

/// What becomes of payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// They stay.
    #[default]
    Keep,
    /// They are filled with zeros.
    Zero,
}

/// How long frames become at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "Padding", into = "Padding")]
pub enum Pad {
    /// As long as they were before the capture cut them.
    Original,
    /// So many bytes.
    Bytes(u32),
}

/// How that is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "write \"original\" or a number of bytes")]
enum Padding {
    Word(Word),
    Bytes(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Original,
}

impl From<Padding> for Pad {
    fn from(written: Padding) -> Self {
        match written {
            Padding::Word(Word::Original) => Pad::Original,
            Padding::Bytes(bytes) => Pad::Bytes(bytes),
        }
    }
}

impl From<Pad> for Padding {
    fn from(pad: Pad) -> Self {
        match pad {
            Pad::Original => Padding::Word(Word::Original),
            Pad::Bytes(bytes) => Padding::Bytes(bytes),
        }
    }
}

/// What becomes of checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksums {
    /// They follow what is changed (RFC 1624): right ones stay right, wrong ones stay wrong.
    #[default]
    Update,
    /// They stay, and are wrong where something is changed.
    Keep,
    /// All are made anew.
    Repair,
}

impl Edit {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Edit::default()
    }
}
