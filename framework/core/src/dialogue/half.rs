//! One half of many conversations, without clocks and sockets: arrivals and times go in, packets to send come out.
//!
//! ```text
//!   begin ─> own block ─sent─> the other's block ─heard─> own block … ─> completed
//!                 ^                 │ nothing new until the deadline: what no answer confirmed goes again
//!                 └─────────────────┘ nothing new for longer than patience lasts: timed out
//! ```
//!
//! There is no state of a transport. A side that waits longer than the other one thinks sends its last block again; who
//! hears the same once more, and has answered, sends that answer again. So the last packets of a conversation, which
//! nobody answers, are repeated too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Dialogue, Direction, Repertoire, Step};

/// What becomes of packets that do not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Loss {
    /// How often a block is sent again when nothing new is heard; 0: never, the conversation is given up.
    pub resend: u16,
    /// How long nothing new is waited for, beyond the time that the other side thinks, nanoseconds.
    pub after: u64,
}

/// How times are kept.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Thinking {
    /// Think times are divided by this; `None`: nobody thinks.
    pub factor: Option<f64>,
    /// Longer think times are cut to this, nanoseconds.
    pub most: Option<u64>,
}

/// The rules of both halves.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Manners {
    /// Times to think.
    pub thinking: Thinking,
    /// Losses.
    pub loss: Loss,
    /// How long nothing new happens, beyond times to think, until a conversation has timed out; nanoseconds.
    pub timeout: u64,
}

/// A packet to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Of which conversation.
    pub conversation: u32,
    /// Which step of its script.
    pub position: u32,
    /// Whether it was sent before.
    pub again: bool,
    /// When it was due.
    pub due: u64,
}

/// What a packet that arrived was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A new one; with the time that it took beyond thinking, if it is the first that answers what was sent but once.
    New {
        /// Which step.
        position: u32,
        /// Whether one before it is missing.
        ahead: bool,
        /// Nanoseconds from the last own packet to it without the time to think.
        round_trip: Option<u64>,
    },
    /// One that was heard before.
    Again,
    /// None that can come now.
    Strange,
}

/// How a conversation stands. Of two halves that differ the later of these counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All was sent and heard.
    Completed,
    /// Nothing was sent or heard.
    #[default]
    NotBegun,
    /// It was under way when all was ended.
    Unfinished,
    /// Nothing new was heard for too long.
    TimedOut,
}

/// A conversation of one half.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    /// How it stands; `Unfinished` while it goes on.
    pub outcome: Outcome,
    /// Own steps that were sent.
    pub sent: u32,
    /// Audible steps of the other side that were heard without a gap.
    pub heard: u32,
    /// When it began.
    pub began: u64,
    /// When something new was last sent or heard.
    pub progress: u64,
    /// Packets that were sent again.
    pub repeated: u32,
    /// Later steps that were heard before those that are missing; in their order.
    ahead: Vec<u32>,
    /// Own steps that the other side has shown to have.
    confirmed: u32,
    /// The next own step that is sent again, up to `sent`.
    again: Option<u32>,
    /// Blocks sent again since something new was heard.
    tries: u16,
    /// Whether something was sent again since the last new packet.
    resent: bool,
    /// When it became this side's turn to speak.
    turn: u64,
    /// When anything was last sent.
    last_sent: u64,
    /// The entry of the agenda that counts.
    wake: u64,
}

/// One half.
#[derive(Debug)]
pub struct Half {
    side: Direction,
    repertoire: Repertoire,
    manners: Manners,
    talks: Vec<Talk>,
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    open: u32,
    begun: u32,
    completed: u32,
}

impl Half {
    /// A half of so many conversations; conversation `n` plays dialogue `n` modulo their number.
    ///
    /// # Panics
    /// Without any dialogue.
    pub fn new(side: Direction, repertoire: &Repertoire, conversations: u32, manners: Manners) -> Half {
        assert!(!repertoire.is_empty(), "a half needs dialogues");
        let repertoire = Arc::clone(repertoire);
        let talks = vec![Talk::default(); conversations as usize];
        Half { side, repertoire, manners, talks, agenda: BinaryHeap::new(), open: 0, begun: 0, completed: 0 }
    }

    /// Which side it is.
    pub fn side(&self) -> Direction {
        self.side
    }

    /// What a conversation plays.
    pub fn script(&self, conversation: u32) -> &Dialogue {
        of(&self.repertoire, conversation)
    }

    /// How a conversation stands.
    pub fn talk(&self, conversation: u32) -> &Talk {
        &self.talks[conversation as usize]
    }

    /// All conversations, by number.
    pub fn talks(&self) -> &[Talk] {
        &self.talks
    }

    /// Conversations that have begun, and not ended.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Conversations that have begun.
    pub fn begun(&self) -> u32 {
        self.begun
    }

    /// Conversations of which this half has sent and heard all.
    pub fn completed(&self) -> u32 {
        self.completed
    }

    /// Nobody looked for so long, until now: what came meanwhile is not late, and deadlines are put off.
    pub fn stalled(&mut self, nanos: u64) {
        for talk in self.talks.iter_mut().filter(|talk| talk.outcome == Outcome::Unfinished) {
            // entries of the agenda are looked at when they were due, and find that it is too early
            talk.progress += nanos;
            talk.last_sent += nanos;
        }
    }

    /// Opens a conversation; nothing happens if it has begun.
    pub fn begin(&mut self, conversation: u32, now: u64) {
        let talk = &mut self.talks[conversation as usize];
        if talk.outcome != Outcome::NotBegun {
            return;
        }
        *talk = Talk { outcome: Outcome::Unfinished, began: now, progress: now, turn: now, ..Talk::default() };
        (self.open, self.begun) = (self.open + 1, self.begun + 1);
        self.settle(conversation, now);
    }

    /// A packet of the other side arrived, known by its key.
    pub fn hear(&mut self, conversation: u32, key: u64, now: u64) -> Heard {
        let script = Arc::clone(of(&self.repertoire, conversation));
        let mut heard = Heard::Strange;
        for number in script.known(self.side.other(), key) {
            self.begin(conversation, now);
            let talk = &self.talks[conversation as usize];
            if talk.has_heard(number) {
                heard = Heard::Again;
                continue;
            }
            let position = script.audible(self.side.other())[number as usize];
            // what waits for packets that were not sent yet is one of the same bytes before it
            if script.step(position).before > talk.sent {
                break;
            }
            if talk.outcome == Outcome::TimedOut {
                return Heard::Strange;
            }
            return self.new_one(conversation, position, number, now);
        }
        let talk = &mut self.talks[conversation as usize];
        // half of that time is left for what is on its way
        let long_ago = now.saturating_sub(talk.last_sent) >= self.manners.loss.after / 2;
        let answered = talk.confirmed < talk.sent && talk.again.is_none() && self.manners.loss.resend > 0;
        if heard == Heard::Again && answered && long_ago && talk.outcome != Outcome::TimedOut {
            talk.again = Some(talk.confirmed);
            self.settle(conversation, now);
        }
        heard
    }

    fn new_one(&mut self, conversation: u32, position: u32, number: u32, now: u64) -> Heard {
        let script = of(&self.repertoire, conversation);
        let step = *script.step(position);
        let thinking = self.manners.thinking;
        let talk = &mut self.talks[conversation as usize];
        let answers = position > 0 && script.step(position - 1).side == self.side && step.before == talk.sent;
        // of what was sent twice nobody knows which was answered (Karn and Partridge 1987)
        let round_trip =
            (answers && !talk.resent).then(|| now.saturating_sub(talk.last_sent).saturating_sub(thinking.of(&step)));
        let (ahead, heard) = (number > talk.heard, talk.heard);
        talk.keep(number);
        talk.confirmed = talk.confirmed.max(step.before);
        talk.again = talk.again.filter(|again| *again >= talk.confirmed);
        (talk.progress, talk.tries) = (now, 0);
        let own = script.own(self.side).get(talk.sent as usize);
        if own.is_some_and(|own| (heard + 1..=talk.heard).contains(&script.step(*own).needs)) {
            talk.turn = now;
        }
        self.settle(conversation, now);
        Heard::New { position, ahead, round_trip }
    }

    /// When something is to be done next, if anything is.
    pub fn next(&self) -> Option<u64> {
        self.agenda.peek().map(|Reverse((at, _))| *at)
    }

    /// What is to be sent now; `None` when nothing is before [`Half::next`].
    pub fn poll(&mut self, now: u64) -> Option<Send> {
        while let Some(&Reverse((at, conversation))) = self.agenda.peek() {
            if at > now {
                return None;
            }
            self.agenda.pop();
            if self.talks[conversation as usize].wake != at {
                continue;
            }
            if let Some(send) = self.act(conversation, now) {
                return Some(send);
            }
        }
        None
    }

    /// A conversation's time has come.
    fn act(&mut self, conversation: u32, now: u64) -> Option<Send> {
        let script = of(&self.repertoire, conversation);
        let own = script.own(self.side);
        let talk = &mut self.talks[conversation as usize];
        let due = talk.wake;
        talk.wake = 0;
        let send = if let Some(again) = talk.again {
            talk.again = (again + 1 < talk.sent).then_some(again + 1);
            talk.repeated += 1;
            talk.resent = true;
            Some((own[again as usize], true))
        } else if let Some(at) = self.manners.ready(talk, script, self.side) {
            (at <= now).then(|| {
                talk.sent += 1;
                (talk.progress, talk.tries, talk.resent) = (now, 0, false);
                (own[talk.sent as usize - 1], false)
            })
        } else {
            let (deadline, end) = self.manners.patience(talk, script, self.side);
            if end <= now {
                talk.outcome = Outcome::TimedOut;
                self.open -= 1;
                return None;
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                talk.tries += 1;
                talk.again = again(talk, script, self.side);
                // without anything to say again, the next try comes later
                talk.last_sent = now;
            }
            None
        };
        let send = send.map(|(position, again)| {
            talk.last_sent = now;
            Send { conversation, position, again, due }
        });
        self.settle(conversation, now);
        send
    }

    /// Notes when to look at a conversation again, and whether it has come to its end.
    fn settle(&mut self, conversation: u32, now: u64) {
        let script = of(&self.repertoire, conversation);
        let other = self.side.other();
        let talk = &mut self.talks[conversation as usize];
        let all =
            talk.sent as usize == script.own(self.side).len() && talk.heard as usize == script.audible(other).len();
        if all && talk.outcome == Outcome::Unfinished {
            talk.outcome = Outcome::Completed;
            (self.open, self.completed) = (self.open - 1, self.completed + 1);
        }
        let wake = if talk.again.is_some() {
            now
        } else if talk.outcome != Outcome::Unfinished {
            talk.wake = 0;
            return;
        } else if let Some(at) = self.manners.ready(talk, script, self.side) {
            at
        } else {
            let (deadline, end) = self.manners.patience(talk, script, self.side);
            deadline.map_or(end, |deadline| deadline.min(end))
        };
        // 0 is no entry
        let wake = wake.max(1);
        if talk.wake != wake {
            talk.wake = wake;
            self.agenda.push(Reverse((wake, conversation)));
        }
    }
}

fn of(repertoire: &Repertoire, conversation: u32) -> &Arc<Dialogue> {
    &repertoire[conversation as usize % repertoire.len()]
}

impl Talk {
    fn has_heard(&self, number: u32) -> bool {
        number < self.heard || self.ahead.binary_search(&number).is_ok()
    }

    fn keep(&mut self, number: u32) {
        if number > self.heard {
            let at = self.ahead.binary_search(&number).unwrap_or_else(|at| at);
            self.ahead.insert(at, number);
            return;
        }
        self.heard += 1;
        let more = self.ahead.iter().zip(self.heard..).take_while(|(ahead, next)| *ahead == next).count();
        self.ahead.drain(..more);
        self.heard += more as u32;
    }
}

/// From which own step on a side that waits speaks again: from the first that nobody confirmed; or the last one, to be
/// answered by the other side's last block, which nobody repeats by itself.
fn again(talk: &Talk, script: &Dialogue, side: Direction) -> Option<u32> {
    let last_block = script.own(side).len() as u32 == talk.sent;
    match talk.sent {
        0 => None,
        sent if talk.confirmed < sent => Some(talk.confirmed),
        sent if last_block => Some(sent - 1),
        _ => None,
    }
}

impl Thinking {
    /// Nanoseconds before a step.
    pub fn of(&self, step: &Step) -> u64 {
        let think = self.most.map_or(step.think, |most| step.think.min(most));
        // a time that a template holds, divided by what is above 0
        self.factor.map_or(0, |factor| (think as f64 / factor) as u64)
    }
}

impl Manners {
    /// When this side's next packet goes; `None` when it has none, or waits for the other side.
    fn ready(&self, talk: &Talk, script: &Dialogue, side: Direction) -> Option<u64> {
        let own = script.step(*script.own(side).get(talk.sent as usize)?);
        (talk.heard >= own.needs).then(|| talk.turn + self.thinking.of(own))
    }

    /// When to speak again, if that may help, and when to give up.
    fn patience(&self, talk: &Talk, script: &Dialogue, side: Direction) -> (Option<u64>, u64) {
        let missing = script.audible(side.other()).get(talk.heard as usize);
        let think = missing.map_or(0, |position| self.thinking.of(script.step(*position)));
        let tries = talk.tries < self.loss.resend && talk.sent > 0;
        let deadline = tries.then(|| (talk.last_sent + think).max(talk.progress).saturating_add(self.loss.after));
        (deadline, (talk.progress + think).saturating_add(self.timeout))
    }
}
