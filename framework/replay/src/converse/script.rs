//! Scripts: conversations of two hosts in a template, each a [`Dialogue`] and who speaks it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use rehearsal_core::dialogue::{Dialogue, Line, Repertoire, Split};

use super::tuple::Tuple;
use crate::edit::{Editor, is_host};
use crate::frame::{Layers, protocol};
use crate::packet::{Direction, Packet};
use crate::template::{Carried, Host, Stream, Template};

/// A conversation of the template.
#[derive(Clone, Debug)]
pub struct Script {
    /// Who opens its first stream.
    pub client: IpAddr,
    /// The other side.
    pub server: IpAddr,
    /// Its first stream's protocol and the server's port: what kind of conversation it is.
    pub carried: Carried,
    /// That port, 0 where there are none.
    pub port: u16,
    /// What is said.
    pub dialogue: Arc<Dialogue>,
    /// A step of each of its streams that tells its addresses and ports.
    pub(super) openers: Vec<u32>,
}

/// What could be made of a template.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    /// Conversations by their first packet.
    pub all: Vec<Script>,
    /// Packets without IP, or to and from what is no single host: nobody converses there.
    pub left_out: u64,
    /// Handshakes whose answer was recorded before its question, and which were put right.
    pub put_right: u64,
    /// Packets that nobody waits for.
    pub silent: u64,
}

/// A packet on its way into a script.
#[derive(Clone, Copy, Debug)]
struct Draft {
    /// Its place: number, and before packets of the same number if it was put there.
    order: (u32, bool),
    at: u64,
    packet: u32,
    side: Direction,
    key: Option<u64>,
}

/// A conversation while its packets are found.
struct Found {
    client: IpAddr,
    server: IpAddr,
    stream: Stream,
    drafts: Vec<Draft>,
    openers: Vec<u32>,
}

/// A stream while its packets are found.
#[derive(Clone, Copy)]
struct Lane {
    conversation: usize,
    /// Its first packet, that one's time, and whether it was the answer of a handshake.
    first: Option<(u32, u64, bool)>,
    opened: bool,
    /// Whether a packet was found that tells its addresses.
    named: bool,
}

impl Scripts {
    /// Looks through a template; edits decide what a packet is known by.
    pub fn of(template: &Template, editor: Option<&Editor>, split: Split) -> Scripts {
        let mut scripts = Scripts::default();
        let (mut found, mut lanes) = conversations(template, split);
        let mut copy = Vec::new();
        for packet in template.packets() {
            let Some(lane) = &mut lanes[packet.stream as usize] else {
                scripts.left_out += 1;
                continue;
            };
            let stream = &template.streams()[packet.stream as usize];
            let conversation = &mut found[lane.conversation];
            let mut draft = conversation.draft(&packet, stream, editor, &mut copy);
            let layers = Layers::of(packet.bytes);
            let flags = layers.innermost().and_then(|network| network.tcp_flags(packet.bytes)).unwrap_or(0) & 0x12;
            match lane.first {
                None => lane.first = Some((packet.index, packet.at, flags == 0x12)),
                // a SYN after the answer to it
                Some((first, at, true)) if flags == 0x02 && !lane.opened => {
                    (draft.order, draft.at) = ((first, false), at);
                    scripts.put_right += 1;
                }
                Some(_) => {}
            }
            lane.opened |= flags == 0x02;
            if draft.key.is_some() && !lane.named {
                lane.named = true;
                conversation.openers.push(packet.index);
            }
            scripts.silent += u64::from(draft.key.is_none());
            conversation.drafts.push(draft);
        }
        scripts.all = found.into_iter().filter(|found| !found.drafts.is_empty()).map(Found::finish).collect();
        scripts.all.sort_by_key(|script| script.steps[0].packet);
        scripts
    }

    /// What is said, by number.
    pub fn repertoire(&self) -> Repertoire {
        self.all.iter().map(|script| Arc::clone(&script.dialogue)).collect()
    }
}

/// Which streams belong together; a stream that is between no two hosts has no conversation.
fn conversations(template: &Template, split: Split) -> (Vec<Found>, Vec<Option<Lane>>) {
    let (mut found, mut known): (Vec<Found>, BTreeMap<_, usize>) = (Vec::new(), BTreeMap::new());
    let mut lanes = vec![None; template.streams().len()];
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    // who opens the first stream of two hosts is the client
    order.sort_by_key(|number| template.streams()[*number].first);
    for number in order {
        let stream = template.streams()[number];
        let (Host::Ip(client), Host::Ip(server)) = (stream.client.host, stream.server.host) else { continue };
        if !(is_host(client) && is_host(server)) || client == server {
            continue;
        }
        let pair = (client.min(server), client.max(server));
        let key = (pair, if split == Split::Hosts { 0 } else { number });
        let conversation = *known.entry(key).or_insert_with(|| {
            found.push(Found { client, server, stream, drafts: Vec::new(), openers: Vec::new() });
            found.len() - 1
        });
        lanes[number] = Some(Lane { conversation, first: None, opened: false, named: false });
    }
    (found, lanes)
}

impl Found {
    fn draft(&self, packet: &Packet<'_>, stream: &Stream, editor: Option<&Editor>, copy: &mut Vec<u8>) -> Draft {
        let from_client = (stream.client.host == Host::Ip(self.client)) == (packet.direction == Direction::Forward);
        let side = if from_client { Direction::Forward } else { Direction::Backward };
        let bytes = match editor {
            None => packet.bytes,
            Some(editor) => {
                editor.apply(packet, 0, copy);
                copy
            }
        };
        let key = Tuple::of(bytes).map(|(_, key)| key);
        Draft { order: (packet.index, true), at: packet.at, packet: packet.index, side, key }
    }

    fn finish(mut self) -> Script {
        self.drafts.sort_by_key(|draft| draft.order);
        // in the order of packets, as they were found
        let opens = |draft: &Draft| self.openers.binary_search(&draft.packet).is_ok();
        let openers = (0_u32..).zip(&self.drafts).filter(|(_, draft)| opens(draft)).map(|(position, _)| position);
        let line = |&Draft { packet, side, at, key, .. }: &Draft| Line { packet, side, at, key };
        Script {
            client: self.client,
            server: self.server,
            carried: self.stream.carried,
            port: self.stream.server.port,
            openers: openers.collect(),
            dialogue: Arc::new(Dialogue::new(self.drafts.iter().map(line))),
        }
    }
}

impl Deref for Script {
    type Target = Dialogue;

    fn deref(&self) -> &Dialogue {
        &self.dialogue
    }
}

impl Script {
    /// What kind of conversation it is: `TCP 80`.
    pub fn kind(&self) -> String {
        match self.port {
            0 => self.carried.to_string(),
            port => format!("{} {port}", self.carried),
        }
    }
}

/// Whether a protocol is one whose packets may quote addresses.
pub(super) const fn quotes(carried: u8) -> bool {
    matches!(carried, protocol::ICMP | protocol::ICMPV6)
}

#[cfg(test)]
mod tests;
