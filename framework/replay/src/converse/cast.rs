//! Who plays: copies of conversations, each with its own addresses, and how a frame that arrives is known again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use rehearsal_core::dialogue::Split;
use thiserror::Error;

use super::script::{Script, Scripts};
use super::tuple::Tuple;
use crate::edit::{Editor, Range, network, readdress};
use crate::packet::Direction;
use crate::template::Template;

/// Conversations at most: each takes some 300 bytes and, for each of its streams, 200 more.
pub const CONVERSATIONS_MAX: u32 = 1 << 20;
/// Where copies get addresses from, unless it is said: both sides, of IPv4 and of IPv6. Source: RFC 2544 appendix C.2.2
/// and RFC 5180 section 8, networks for benchmarks.
const CLIENTS: [&str; 2] = ["198.18.0.0/16", "2001:2:0:0::/64"];
const SERVERS: [&str; 2] = ["198.19.0.0/16", "2001:2:0:1::/64"];

/// Why there is nobody to play.
#[derive(Debug, Error)]
pub enum CastError {
    /// No conversations.
    #[error(
        "the template holds no packets between two hosts of IP, so there is nobody to converse; without --interactive it is replayed as it is"
    )]
    Nobody,
    /// Too many.
    #[error("{0} conversations; at most {CONVERSATIONS_MAX} are held")]
    Many(u64),
    /// Not a network.
    #[error("{flag}: {what}")]
    Network {
        /// Where it was written.
        flag: &'static str,
        /// What is wrong.
        what: String,
    },
    /// Too small a network.
    #[error("{flag}: {size} addresses for {conversations} conversations, each with its own; write a larger network")]
    Small {
        /// Where it was written, or could be.
        flag: &'static str,
        /// How many there are.
        size: u64,
        /// How many are needed.
        conversations: u32,
    },
    /// Two that cannot be told apart.
    #[error(
        "two conversations have the same addresses and ports ({from} to {to}), so nobody could tell which one a packet belongs to; give each its own with --clients and --servers, or --edit random_hosts=NETWORK"
    )]
    Same {
        /// Who sends.
        from: IpAddr,
        /// To whom.
        to: IpAddr,
    },
    /// Not to be told from others.
    #[error(
        "no packet of the conversation of {client} and {server} can be told from others: all are pieces, or quote others"
    )]
    Silent {
        /// One host.
        client: IpAddr,
        /// The other.
        server: IpAddr,
    },
}

/// Networks that conversations get addresses from, one address of each for each conversation.
#[derive(Clone, Debug, Default)]
pub struct Nets {
    /// Clients' networks: one of each version of IP at most.
    pub clients: Vec<String>,
    /// Servers' networks, likewise.
    pub servers: Vec<String>,
}

/// Addresses of conversations: of clients and servers, of both versions of IP.
#[derive(Clone, Copy, Debug)]
struct Plan([[Range; 2]; 2]);

/// What is lent for as long as somebody plays, or shared with them.
#[derive(Debug)]
pub enum Held<'t, T> {
    /// Lent.
    Lent(&'t T),
    /// Shared.
    Shared(Arc<T>),
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Held::Lent(lent) => lent,
            Held::Shared(shared) => shared,
        }
    }
}

impl<'t, T> From<&'t T> for Held<'t, T> {
    fn from(lent: &'t T) -> Self {
        Held::Lent(lent)
    }
}

impl<T> From<Arc<T>> for Held<'_, T> {
    fn from(shared: Arc<T>) -> Self {
        Held::Shared(shared)
    }
}

/// Everybody who plays.
#[derive(Debug)]
pub struct Cast<'t> {
    template: Held<'t, Template>,
    editor: Option<Held<'t, Editor>>,
    scripts: Scripts,
    conversations: u32,
    plan: Option<Plan>,
    /// Which conversation and side a sender's addresses are.
    known: HashMap<Tuple, (u32, Direction)>,
}

/// A frame that was known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its conversation.
    pub conversation: u32,
    /// Who sent it.
    pub side: Direction,
    /// What it is known by among its conversation's.
    pub key: u64,
}

impl<'t> Cast<'t> {
    /// So many conversations, by default each of the template's once; `nets` are for their addresses. More
    /// conversations than the template has get addresses of their own in any case: drawn by the edit, or from networks
    /// for benchmarks.
    ///
    /// # Errors
    /// When there are none, too many, not enough addresses, or two that cannot be told apart.
    pub fn new(
        template: impl Into<Held<'t, Template>>,
        editor: Option<Held<'t, Editor>>,
        split: Split,
        conversations: Option<u64>,
        nets: &Nets,
    ) -> Result<Cast<'t>, CastError> {
        let template = template.into();
        let scripts = Scripts::of(&template, editor.as_deref(), split);
        let count = scripts.all.len() as u64;
        if count == 0 {
            return Err(CastError::Nobody);
        }
        let wish = conversations.unwrap_or(count);
        let conversations = u32::try_from(wish).ok().filter(|wish| *wish <= CONVERSATIONS_MAX);
        let conversations = conversations.ok_or(CastError::Many(wish))?;
        let given = !(nets.clients.is_empty() && nets.servers.is_empty());
        let needed = wish > count && !editor.as_deref().is_some_and(Editor::varies);
        let plan = (given || needed).then(|| Plan::new(nets, conversations, &scripts.all)).transpose()?;
        let mut cast = Cast { template, editor, scripts, conversations, plan, known: HashMap::new() };
        cast.meet()?;
        Ok(cast)
    }

    /// Notes the addresses and ports of all.
    fn meet(&mut self) -> Result<(), CastError> {
        let (mut known, mut frame) = (HashMap::new(), Vec::new());
        for conversation in 0..self.conversations {
            let script = self.script(conversation);
            if script.openers.is_empty() {
                return Err(CastError::Silent { client: script.client, server: script.server });
            }
            for position in &script.openers {
                let step = script.step(*position);
                self.frame(conversation, step.packet, &mut frame);
                let Some((tuple, _)) = Tuple::of(&frame) else { continue };
                let (from, to) = (tuple.from, tuple.to);
                let back = Tuple { from: to, to: from, ..tuple };
                let both = [(tuple, step.side), (back, step.side.other())];
                if both.into_iter().any(|(tuple, side)| known.insert(tuple, (conversation, side)).is_some()) {
                    return Err(CastError::Same { from: from.0, to: to.0 });
                }
            }
        }
        self.known = known;
        Ok(())
    }

    /// How many play.
    pub fn conversations(&self) -> u32 {
        self.conversations
    }

    /// What they play, and what of the template is not played.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// What one plays.
    pub fn script(&self, conversation: u32) -> &Script {
        &self.scripts.all[conversation as usize % self.scripts.all.len()]
    }

    /// Which copy of the template one belongs to, from 0.
    pub fn copy(&self, conversation: u32) -> u32 {
        conversation / self.scripts.all.len() as u32
    }

    /// Packets of all conversations, of clients and of servers.
    pub fn packets(&self) -> [u64; 2] {
        let count = |side| (0..self.conversations).map(|number| self.script(number).own(side).len() as u64).sum();
        [count(Direction::Forward), count(Direction::Backward)]
    }

    /// The longest frame that is sent, bytes.
    pub fn longest(&self) -> usize {
        let (mut longest, mut frame) = (0, Vec::new());
        for script in &self.scripts.all {
            for step in &script.steps {
                let packet = self.template.packet(step.packet);
                let len = match &self.editor {
                    None => packet.bytes.len(),
                    Some(editor) => {
                        editor.apply(&packet, 0, &mut frame);
                        frame.len()
                    }
                };
                longest = longest.max(len);
            }
        }
        longest
    }

    /// Writes the frame of a packet as a conversation sends it.
    pub fn frame(&self, conversation: u32, packet: u32, to: &mut Vec<u8>) {
        let packet = self.template.packet(packet);
        let lap = u64::from(self.copy(conversation));
        match &self.editor {
            Some(editor) => {
                editor.apply(&packet, lap, to);
            }
            None => {
                to.clear();
                to.extend_from_slice(packet.bytes);
            }
        }
        let Some(plan) = &self.plan else { return };
        let script = self.script(conversation);
        let [client, server] = [script.client, script.server].map(|host| self.edited(host, lap));
        readdress(to, |address| match address {
            address if address == client => plan.of(Direction::Forward, address, conversation),
            address if address == server => plan.of(Direction::Backward, address, conversation),
            other => other,
        });
    }

    fn edited(&self, host: IpAddr, lap: u64) -> IpAddr {
        self.editor.as_ref().map_or(host, |editor| editor.address(host, lap))
    }

    /// Addresses of a conversation's client and server.
    pub fn hosts(&self, conversation: u32) -> [IpAddr; 2] {
        let (script, lap) = (self.script(conversation), u64::from(self.copy(conversation)));
        let sides = [(Direction::Forward, script.client), (Direction::Backward, script.server)];
        sides.map(|(side, host)| {
            let host = self.edited(host, lap);
            self.plan.map_or(host, |plan| plan.of(side, host, conversation))
        })
    }

    /// Whose a frame is.
    pub fn know(&self, frame: &[u8]) -> Option<Known> {
        let (tuple, key) = Tuple::of(frame)?;
        let (conversation, side) = *self.known.get(&tuple)?;
        Some(Known { conversation, side, key })
    }
}

impl Plan {
    fn new(nets: &Nets, conversations: u32, scripts: &[Script]) -> Result<Plan, CastError> {
        let mut used = [false; 2];
        scripts.iter().for_each(|script| used[usize::from(script.client.is_ipv6())] = true);
        let both = [("--clients", &nets.clients, CLIENTS), ("--servers", &nets.servers, SERVERS)];
        let mut ranges = Vec::new();
        for (flag, given, usual) in both {
            let mut pair = usual.map(|text| range(flag, text));
            for text in given {
                let (version, range) = range(flag, text)?;
                pair[version] = Ok((version, range));
            }
            let [four, six] = pair;
            let pair = [four?.1, six?.1];
            if let Some(small) = (0..2).find(|at| used[*at] && pair[*at].size < u64::from(conversations)) {
                return Err(CastError::Small { flag, size: pair[small].size, conversations });
            }
            ranges.push(pair);
        }
        Ok(Plan([ranges[0], ranges[1]]))
    }

    fn of(&self, side: Direction, host: IpAddr, conversation: u32) -> IpAddr {
        self.0[side.index()][usize::from(host.is_ipv6())].at(u64::from(conversation))
    }
}

fn range(flag: &'static str, text: &str) -> Result<(usize, Range), CastError> {
    let (address, length) = network(text).map_err(|what| CastError::Network { flag, what })?;
    Ok((usize::from(address.is_ipv6()), Range::of(address, length)))
}

#[cfg(test)]
mod tests;
