//! Scripts: what two hosts say to each other in a template, packet by packet, and who waits for whom.
//!
//! The whole order of a conversation is kept. A side that is to speak has heard everything that was said before; so
//! packets stand in blocks, one side's after the other's, and who hears a packet knows that its own block before has
//! arrived.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::tuple::Tuple;
use crate::edit::{Editor, is_host};
use crate::frame::{Layers, protocol};
use crate::packet::{Direction, Packet};
use crate::template::{Carried, Host, Stream, Template};

/// What is one conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// All that two hosts say to each other, also over several connections: the data connection of FTP waits for its
    /// command.
    #[default]
    Hosts,
    /// Each stream for itself.
    Streams,
}

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
    /// Nanoseconds from the template's start to its first packet.
    pub first: u64,
    /// Its packets in their order.
    pub steps: Vec<Step>,
    /// Steps of each side, by their positions.
    own: [Vec<u32>; 2],
    /// Those of them that the other side can tell, in their order.
    audible: [Vec<u32>; 2],
    /// What each of these is known by, with its number among the audible ones; sorted.
    keys: [Vec<(u64, u32)>; 2],
    /// A step of each of its streams that tells its addresses and ports.
    pub(super) openers: Vec<u32>,
}

/// One packet of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which packet of the template.
    pub packet: u32,
    /// Who sends it: the client forward, the server backward.
    pub side: Direction,
    /// Packets of the other side before it.
    pub before: u32,
    /// Those of them that must have been heard.
    pub needs: u32,
    /// Nanoseconds from the last of these to it; without any, from the first packet of the conversation.
    pub think: u64,
    /// Whether the other side can tell it from others: pieces of packets and quoted addresses are only sent.
    pub audible: bool,
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
        let begin = self.drafts[0].at;
        let mut script = Script {
            client: self.client,
            server: self.server,
            carried: self.stream.carried,
            port: self.stream.server.port,
            first: begin,
            steps: Vec::with_capacity(self.drafts.len()),
            own: Default::default(),
            audible: Default::default(),
            keys: Default::default(),
            openers: Vec::new(),
        };
        let mut last = [begin; 2];
        for (position, draft) in (0_u32..).zip(&self.drafts) {
            let (me, other) = (draft.side.index(), draft.side.other().index());
            let [before, needs] = [script.own[other].len() as u32, script.audible[other].len() as u32];
            let Draft { packet, side, at, key, .. } = *draft;
            let audible = key.is_some();
            script.steps.push(Step { packet, side, before, needs, think: at.saturating_sub(last[other]), audible });
            script.own[me].push(position);
            if let Some(key) = key {
                last[me] = at;
                script.keys[me].push((key, script.audible[me].len() as u32));
                script.audible[me].push(position);
            }
            // in the order of packets, as they were found
            if self.openers.binary_search(&packet).is_ok() {
                script.openers.push(position);
            }
        }
        script.keys.iter_mut().for_each(|keys| keys.sort_unstable());
        script
    }
}

impl Script {
    /// Who sends its first packet.
    pub fn opener(&self) -> Direction {
        self.steps[0].side
    }

    /// Steps of a side, by their positions.
    pub fn own(&self, side: Direction) -> &[u32] {
        &self.own[side.index()]
    }

    /// Those of them that the other side can tell.
    pub fn audible(&self, side: Direction) -> &[u32] {
        &self.audible[side.index()]
    }

    /// A step by its position.
    pub fn step(&self, position: u32) -> &Step {
        &self.steps[position as usize]
    }

    /// Audible steps of a side that are known by a key, in their order; a capture may hold the same packet twice.
    pub(super) fn known(&self, side: Direction, key: u64) -> impl Iterator<Item = u32> + '_ {
        let keys = &self.keys[side.index()];
        let from = keys.partition_point(|(known, _)| *known < key);
        keys[from..].iter().take_while(move |(known, _)| *known == key).map(|(_, number)| *number)
    }

    /// What a step is known by, for tests and simulations.
    #[cfg(test)]
    pub(super) fn key(&self, position: u32) -> u64 {
        let step = self.step(position);
        let number = self.audible(step.side).iter().position(|at| *at == position).expect("audible") as u32;
        self.keys[step.side.index()].iter().find(|(_, at)| *at == number).expect("known").0
    }

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
