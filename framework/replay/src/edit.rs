//! Edits: copies of packets are changed on their way out; a template never is.
//!
//! ```toml
//! [edit]
//! ip = ["10.0.0.0/24 -> 192.0.2.0/24", "10.1.1.1 -> 192.0.2.250"]   # the first rule that fits
//! nodes = ["198.51.100.1", "198.51.100.2"]      # all other hosts, in turn, onto these
//! client_mac = "02:00:00:00:00:01"              # who opened a stream; server_mac is the other side
//! vlan = ["pop", "push 100"]
//! ttl = -1
//! checksums = "update"                          # what changed is followed; "repair" makes all anew; "keep" none
//! ```
//!
//! Addresses are changed in every IP header of a frame, in ARP, in neighbour discovery and in the packets that errors of
//! ICMP quote. What stays: options of neighbour discovery, routing headers, ports of SCTP, the checksum option of GRE, and
//! whatever protocols above the transport repeat.

mod anonymise;
mod checksum;
mod error;
mod headers;
mod hosts;
mod payload;
mod rules;
mod table;
mod tags;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::Direction;
use crate::frame::{Layers, array, ethertype};
use crate::packet::Packet;
use crate::template::{Host, Template};
use anonymise::Anonymous;
use headers::Changes;
use hosts::{Drawn, Hosts};
use rules::{Exact, IpRule};
use tags::Change;

pub use error::EditError;
pub(crate) use hosts::{Range, is_host};
pub(crate) use rules::network;
pub use table::{Checksums, Edit, Laps, Pad, Payload};

/// Bytes of a frame at most, also when it is padded.
const FRAME_MAX: usize = crate::template::FRAME_MAX;

/// Length to which Ethernet pads, bytes, without the check sequence. Source: IEEE 802.3 clause 4.
const PADDED: usize = 60;

/// An edit, ready for the packets of one template.
#[derive(Clone, Debug)]
pub struct Editor {
    table: Edit,
    rules: Vec<IpRule>,
    rest: Rest,
    macs: Vec<Exact<[u8; 6]>>,
    sides: [Option<[u8; 6]>; 2],
    ports: Vec<Exact<u16>>,
    tags: Vec<Change>,
    anonymous: Option<Anonymous>,
    notes: Vec<String>,
}

/// What becomes of hosts that no rule is for.
#[derive(Clone, Debug)]
enum Rest {
    Stay,
    /// The same in each lap.
    Table(BTreeMap<IpAddr, IpAddr>),
    Drawn(Drawn),
}

/// Changes addresses in all headers of a frame; checksums follow.
pub(crate) fn readdress(frame: &mut [u8], address: impl FnMut(IpAddr) -> IpAddr) {
    let layers = Layers::of(frame);
    let mut changes = Changes { address, port: |port| port, ttl: None, dscp: None, update: true };
    changes.apply(frame, &layers);
}

impl Editor {
    /// Prepares an edit. Its hosts are looked up in the template, so that this takes a pass over its packets if hosts are
    /// mapped onto nodes, drawn, or made anonymous.
    ///
    /// # Errors
    /// [`EditError`] when a rule cannot be read, two contradict each other, or there are fewer addresses than hosts.
    pub fn new(table: &Edit, template: &Template) -> Result<Editor, EditError> {
        let anonymous = table.anonymise.as_deref().map(Anonymous::new).transpose()?;
        let others = [!table.nodes.is_empty(), !table.random_hosts.is_empty(), anonymous.is_some()];
        if others.iter().filter(|given| **given).count() > 1 {
            return Err(EditError::new(
                "nodes",
                "hosts go onto nodes, are drawn, or become anonymous; write one of the three",
            ));
        }
        if table.laps == Laps::Unique && table.random_hosts.is_empty() {
            return Err(EditError::new("laps", "\"unique\" needs `random_hosts` to draw from"));
        }
        let rest = if !table.nodes.is_empty() {
            Rest::Table(hosts::onto_nodes(&Hosts::of(template), &table.nodes)?)
        } else if !table.random_hosts.is_empty() {
            let unique = table.laps == Laps::Unique;
            Rest::Drawn(Drawn::new(Hosts::of(template), &table.random_hosts, table.seed, unique)?)
        } else if let Some(anonymous) = &anonymous {
            Rest::Table(Hosts::of(template).iter().map(|host| (host, anonymous.ip(host))).collect())
        } else {
            Rest::Stay
        };
        let side = |key, text: &Option<String>| {
            let read = text.as_deref().map(|text| {
                let example = format!("`{text}` is no Ethernet address; write such as 02:00:00:00:00:01");
                crate::frame::text::mac(text).ok_or_else(|| EditError::new(key, example))
            });
            read.transpose()
        };
        if table.ttl == Some(0) || table.ttl.is_some_and(|ttl| !(-255..=255).contains(&ttl)) {
            return Err(EditError::new("ttl", "write 1 to 255 to set it, -1 to -255 to lower it"));
        }
        let mut editor = Editor {
            rules: rules::read("ip", &table.ip, rules::ip)?,
            rest,
            macs: rules::read("mac", &table.mac, rules::hardware)?,
            sides: [side("client_mac", &table.client_mac)?, side("server_mac", &table.server_mac)?],
            ports: rules::read("port", &table.port, rules::port)?,
            tags: table.vlan.iter().map(|text| Change::read(text)).collect::<Result<_, _>>()?,
            anonymous,
            notes: Vec::new(),
            table: table.clone(),
        };
        editor.notes = editor.consequences(template);
        Ok(editor)
    }

    /// What a user should know of what this does, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether laps differ.
    pub fn varies(&self) -> bool {
        self.table.laps == Laps::Unique
    }

    /// What becomes of an address in a lap, from 0.
    pub fn address(&self, address: IpAddr, lap: u64) -> IpAddr {
        if let Some(new) = self.rules.iter().find_map(|rule| rule.of(address)) {
            return new;
        }
        if !is_host(address) {
            return address;
        }
        match &self.rest {
            Rest::Stay => address,
            Rest::Table(table) => table.get(&address).copied().unwrap_or(address),
            Rest::Drawn(drawn) => drawn.of(address, lap).unwrap_or(address),
        }
    }

    /// Writes the edited copy of a packet to `to`, whose content goes; the length that the packet had, as it is after
    /// the edit.
    pub fn apply(&self, packet: &Packet<'_>, lap: u64, to: &mut Vec<u8>) -> u32 {
        to.clear();
        to.extend_from_slice(packet.bytes);
        let mut missing = packet.original as usize - packet.bytes.len();
        if self.table.pad == Some(Pad::Original) {
            to.resize((packet.original as usize).clamp(to.len(), FRAME_MAX), 0);
            missing = 0;
        }
        let mut layers = Layers::of(to);
        if self.table.trim_trailer
            && missing == 0
            && let Some(outermost) = layers.networks().first()
        {
            to.truncate(outermost.end.max(PADDED));
        }
        let mut changed = self.table.payload == Payload::Zero && payload::zero(to, &layers);
        if let Some(most) = self.table.payload_bytes_max
            && payload::cut(to, &layers, most as usize)
        {
            (changed, missing) = (true, 0);
        }
        self.tags.iter().for_each(|change| change.apply(to));
        self.hardware(packet.direction, to);
        layers = Layers::of(to);
        let update = self.table.checksums != Checksums::Keep;
        let mut changes = Changes {
            address: |address| self.address(address, lap),
            port: |port| self.ports.iter().find(|(from, _)| *from == port).map_or(port, |(_, to)| *to),
            ttl: self.table.ttl,
            dscp: self.table.dscp.map(|dscp| dscp.number()),
            update,
        };
        changes.apply(to, &layers);
        if update && (changed || self.table.checksums == Checksums::Repair) {
            checksum::renew(to, &layers);
        }
        if let Some(Pad::Bytes(least)) = self.table.pad {
            to.resize((least as usize).clamp(to.len(), FRAME_MAX.max(to.len())), 0);
        }
        u32::try_from(to.len() + missing).unwrap_or(u32::MAX)
    }

    /// Ethernet addresses, also where ARP repeats them.
    fn hardware(&self, direction: Direction, frame: &mut [u8]) {
        let arp = Layers::of(frame);
        let arp = (arp.ethertype == ethertype::ARP && frame.get(arp.content + 4) == Some(&6)).then_some(arp.content);
        let (Some(to), Some(from)) = (array::<6>(frame, 0), array::<6>(frame, 6)) else { return };
        let [client, server] = self.sides;
        let (source, destination) = match direction {
            Direction::Forward => (client, server),
            Direction::Backward => (server, client),
        };
        let new_from = source.unwrap_or_else(|| self.mac(from));
        // groups stay groups
        let new_to = destination.filter(|_| to[0] & 1 == 0).unwrap_or_else(|| self.mac(to));
        frame[..6].copy_from_slice(&new_to);
        frame[6..12].copy_from_slice(&new_from);
        for at in arp.into_iter().flat_map(|content| [content + 8, content + 18]) {
            let Some(old) = array::<6>(frame, at).filter(|old| *old != [0; 6]) else { continue };
            let new = if old == from {
                new_from
            } else if old == to {
                new_to
            } else {
                self.mac(old)
            };
            frame[at..at + 6].copy_from_slice(&new);
        }
    }

    fn mac(&self, address: [u8; 6]) -> [u8; 6] {
        let rule = self.macs.iter().find(|(from, _)| *from == address).map(|(_, to)| *to);
        let anonymous = || self.anonymous.as_ref().map(|anonymous| anonymous.mac(address));
        rule.or_else(anonymous).unwrap_or(address)
    }

    /// Streams that end on one host, or fall together, and addresses that come again.
    fn consequences(&self, template: &Template) -> Vec<String> {
        let (mut notes, mut seen, mut own, mut together) = (Vec::new(), BTreeSet::new(), 0_u64, 0_u64);
        let port = |port: u16| self.ports.iter().find(|(from, _)| *from == port).map_or(port, |(_, to)| *to);
        if matches!(self.rest, Rest::Table(_)) || !self.rules.is_empty() || !self.ports.is_empty() {
            for stream in template.streams() {
                let (Host::Ip(client), Host::Ip(server)) = (stream.client.host, stream.server.host) else { continue };
                let ends = [(client, stream.client.port), (server, stream.server.port)];
                let mut ends = ends.map(|(host, number)| (self.address(host, 0), port(number)));
                own += u64::from(client != server && ends[0].0 == ends[1].0);
                ends.sort_unstable();
                together += u64::from(!seen.insert((stream.carried, ends)));
            }
        }
        if own > 0 {
            notes.push(format!("{own} streams have both ends on one host now"));
        }
        if together > 0 {
            notes.push(format!("{together} streams have the addresses and ports of another one now"));
        }
        if let Rest::Drawn(drawn) = &self.rest
            && let Some(laps) = drawn.laps()
        {
            notes.push(format!("addresses are unique for {laps} laps, then they come again"));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
