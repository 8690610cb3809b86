//! Dialogues: what two hosts say to each other in a template, packet by packet, and who waits for whom.
//!
//! The whole order is kept. A side that is to speak has heard everything that was said before; so packets stand in
//! blocks, one side's after the other's, and who hears a packet knows that its own block before has arrived. [`Half`] is
//! one side of many conversations, which play dialogues; it knows neither clocks nor sockets.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::RecipeId;

mod half;

pub use half::{Half, Heard, Loss, Manners, Outcome, Send, Talk, Thinking};

/// Which way a packet went, as seen from its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the side that opened the stream, or that seems to have.
    Forward,
    /// Back to it.
    Backward,
}

impl Direction {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }

    /// 0 or 1, for tables.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What is one conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// All that two hosts say to each other, also over several connections: the data connection of FTP waits for its
    /// command.
    #[default]
    Hosts,
    /// Each stream for itself.
    Streams,
}

/// Dialogues of a template: conversation `n` plays number `n` modulo how many there are.
pub type Repertoire = Arc<[Arc<Dialogue>]>;

/// One dialogue.
#[derive(Clone, Debug)]
pub struct Dialogue {
    /// Nanoseconds from the template's start to its first packet.
    pub first: u64,
    /// Its packets in their order; never empty.
    pub steps: Vec<Step>,
    /// Steps of each side, by their positions.
    own: [Vec<u32>; 2],
    /// Those of them that the other side can tell, in their order.
    audible: [Vec<u32>; 2],
    /// What each of these is known by, with its number among the audible ones; sorted.
    keys: [Vec<(u64, u32)>; 2],
}

/// One packet of a dialogue.
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
    /// Nanoseconds from the last of these to it; without any, from the first packet of the dialogue.
    pub think: u64,
    /// By what the other side can tell it from others; pieces of packets and quoted addresses are only sent.
    pub key: Option<u64>,
}

/// A packet on its way into a dialogue.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// See [`Step::packet`].
    pub packet: u32,
    /// See [`Step::side`].
    pub side: Direction,
    /// When it was captured, nanoseconds since the template's start.
    pub at: u64,
    /// See [`Step::key`].
    pub key: Option<u64>,
}

impl Dialogue {
    /// Of lines in their order; the first is its beginning.
    ///
    /// # Panics
    /// Without any.
    pub fn new(lines: impl IntoIterator<Item = Line>) -> Dialogue {
        let mut lines = lines.into_iter().peekable();
        let first = lines.peek().expect("a dialogue has a packet").at;
        let (own, audible, keys) = Default::default();
        let mut made = Dialogue { first, steps: Vec::new(), own, audible, keys };
        let mut last = [first; 2];
        for (position, line) in (0_u32..).zip(lines) {
            let (me, other) = (line.side.index(), line.side.other().index());
            let [before, needs] = [made.own[other].len() as u32, made.audible[other].len() as u32];
            let Line { packet, side, at, key } = line;
            let think = at.saturating_sub(last[other]);
            made.steps.push(Step { packet, side, before, needs, think, key });
            made.own[me].push(position);
            if let Some(key) = key {
                last[me] = at;
                made.keys[me].push((key, made.audible[me].len() as u32));
                made.audible[me].push(position);
            }
        }
        made.keys.iter_mut().for_each(|keys| keys.sort_unstable());
        made
    }

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

    /// When each packet would go in a network without delay, in nanoseconds from the first one.
    pub fn plan(&self, thinking: &Thinking) -> Vec<u64> {
        let mut plan: Vec<u64> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let heard = step.needs.checked_sub(1).map(|last| self.audible(step.side.other())[last as usize]);
            plan.push(heard.map_or(0, |heard| plan[heard as usize]).saturating_add(thinking.of(step)));
        }
        plan
    }

    /// The first packet of a side that is known by a key, by its number among the side's.
    pub fn find(&self, side: Direction, key: u64) -> Option<u32> {
        let position = self.audible(side)[self.known(side, key).next()? as usize];
        self.own(side).binary_search(&position).ok().map(|own| own as u32)
    }

    /// Audible steps of a side that are known by a key, in their order; a capture may hold the same packet twice.
    fn known(&self, side: Direction, key: u64) -> impl Iterator<Item = u32> + '_ {
        let keys = &self.keys[side.index()];
        let from = keys.partition_point(|(known, _)| *known < key);
        keys[from..].iter().take_while(move |(known, _)| *known == key).map(|(_, number)| *number)
    }
}

/// One side of conversations as an actor asks for them, beside a [`crate::recording::TemplateRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct Casting {
    /// What is one conversation.
    pub split: Split,
    /// Conversations of one instance; each of the template's once if it is not said.
    pub conversations: Option<u64>,
    /// Instances that play, each its own conversations.
    pub instances: u32,
    /// Networks for addresses of clients, of one's own for each conversation; over `frames` alone.
    pub clients: Vec<String>,
    /// And of servers.
    pub servers: Vec<String>,
}

/// What an actor gets.
#[derive(Clone, Debug)]
pub struct Conversations {
    /// Renders packet `number`: see [`Conversations::number`].
    pub recipe: RecipeId,
    /// What each instance plays.
    pub repertoire: Repertoire,
    /// Bytes of each packet of the asked side as it is sent, by dialogue and number among the own steps.
    pub bytes: Arc<[Vec<u32>]>,
    /// Conversations of one instance.
    pub count: u32,
}

impl Conversations {
    /// The number by which its recipe knows packet `own` of the asked side, of conversation `conversation` of instance `member`.
    pub fn number(&self, member: u32, conversation: u32, own: u32) -> u64 {
        let conversation = u64::from(member) * u64::from(self.stride()) + u64::from(conversation);
        conversation << 32 | u64::from(own)
    }

    /// From the first conversation of an instance to that of the next: each begins with the first dialogue.
    pub fn stride(&self) -> u32 {
        self.count.next_multiple_of(self.repertoire.len().max(1) as u32)
    }
}
