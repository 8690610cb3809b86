//! One side of a template's conversations: what the other side says and the time to think decide when it speaks.
//!
//! The rules are [`Half`]'s, as of `rehearsal replay --interactive`; here are its times, its streams and its books. A
//! conversation is a stream. What is sent again has a number of its own, so each of a stream's packets has another one and they
//! only grow: `number = round × packets + which of them`, where a round begins whenever something is sent again.

use std::ops::Range;
use std::sync::Arc;

use rehearsal_core::dialogue::{Conversations, Direction, Half, Heard, Manners, Send};
use rehearsal_core::kind::Targets;
use rehearsal_core::life::{Rejoin, Word};
use rehearsal_core::messages::StartAt;
use rehearsal_core::steer::{Steer, Steering, Steers};
use rehearsal_core::{Actor, ActorId, Datagram, Event, Head, MetricId, Outbox, Payload, Span, Time, Wiring};

use crate::alarm::Alarm;

/// Packets in one event; the rest waits for the next, so that others have their turn.
const BATCH: u32 = 256;
/// A timer that is later than this tells that nobody looked meanwhile. Assumed: far more than a timer's own fault.
const STALL: Span = Span::from_millis(20);

/// What the members share.
#[derive(Debug)]
pub(super) struct Scene {
    pub node: String,
    pub targets: Targets,
    /// The other side's instances, as ranges of actors.
    pub peers: Vec<Range<u32>>,
    pub side: Direction,
    pub manners: Manners,
    pub concurrent: Option<u32>,
    pub conversations: Conversations,
    /// When each conversation begins after the start, in the order of time, and when by number.
    pub starts: Vec<(u64, u32)>,
    pub start_of: Vec<u64>,
    /// When each packet would go in a network without delay, by dialogue and position.
    pub plans: Vec<Vec<u64>>,
    pub counters: Counters,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    completed: MetricId,
    timed_out: MetricId,
    unfinished: MetricId,
    not_begun: MetricId,
    resent: MetricId,
    heard: MetricId,
    again: MetricId,
    strange: MetricId,
    ahead: MetricId,
    /// Of answers that came at once, without the other side's time to think: their sum, and how many.
    round_trip: MetricId,
    answers: MetricId,
}

impl Counters {
    pub fn new(wiring: &mut dyn Wiring) -> Self {
        Counters {
            completed: wiring.metric("conversations.completed"),
            timed_out: wiring.metric("conversations.timed_out"),
            unfinished: wiring.metric("conversations.unfinished"),
            not_begun: wiring.metric("conversations.not_begun"),
            resent: wiring.metric("packets.resent"),
            heard: wiring.metric("packets.heard"),
            again: wiring.metric("packets.heard_again"),
            strange: wiring.metric("packets.strange"),
            ahead: wiring.metric("packets.heard_ahead"),
            round_trip: wiring.metric("round_trips.us"),
            answers: wiring.metric("round_trips.count"),
        }
    }
}

impl Scene {
    /// The actor that a member converses with.
    fn peer(&self, member: u32) -> Option<ActorId> {
        let mut left = member % self.targets.len;
        for ids in &self.peers {
            if left < ids.len() as u32 {
                return Some(ActorId(ids.start + left));
            }
            left -= ids.len() as u32;
        }
        None
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Speaker {
    scene: Arc<Scene>,
    member: u32,
    half: Half,
    stage: Stage,
    start: Time,
    until: Time,
    next_start: usize,
    /// When one ended while another waited for it.
    freed: u64,
    /// When something was last heard or sent.
    moved: u64,
    /// Of each conversation: in which round its packets are, and the number among the own ones of the next.
    sent: Vec<(u32, u32)>,
    /// Conversations that were counted: completed, and timed out.
    told: [u32; 2],
    /// When a pause began, and how long all before it were, ns.
    still: Option<Time>,
    paused: u64,
    steers: Steers,
    alarm: Alarm,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    Running,
    /// Nothing of its own is left to be said; who asks is answered.
    Finished,
    /// The run has stopped.
    Stopped,
}

impl Speaker {
    /// A member that has not been told to begin.
    pub fn new(scene: &Arc<Scene>, member: u32) -> Self {
        let Conversations { repertoire, count, .. } = &scene.conversations;
        Speaker {
            scene: Arc::clone(scene),
            member,
            half: Half::new(scene.side, repertoire, *count, scene.manners),
            stage: Stage::Waiting,
            start: Time::ZERO,
            until: Time::MAX,
            next_start: 0,
            freed: 0,
            moved: 0,
            sent: vec![(0, 0); *count as usize],
            told: [0; 2],
            still: None,
            paused: 0,
            steers: Steers::default(),
            alarm: Alarm::default(),
        }
    }

    fn begin(&mut self, now: Time, start: &StartAt, again: Option<&Rejoin>, out: &mut Outbox) {
        if self.stage != Stage::Waiting {
            return;
        }
        self.stage = Stage::Running;
        (self.start, self.until) = (start.at, start.until.unwrap_or(Time::MAX));
        if let Some(again) = again {
            self.catch_up(again, out);
        }
        self.advance(now, out);
    }

    /// What was under way when the node was lost is given up: nobody remembers it.
    fn catch_up(&mut self, again: &Rejoin, out: &mut Outbox) {
        let scene = Arc::clone(&self.scene);
        let mut away = 0;
        while let Some((at, conversation)) = scene.starts.get(self.next_start) {
            let at = self.start.saturating_add(Span::from_nanos(*at));
            if at >= again.from {
                break;
            }
            if at >= again.known_until {
                away += self.half.script(*conversation).own(scene.side).len() as u64;
            }
            self.next_start += 1;
        }
        if away > 0 {
            out.count(MetricId::AWAY, away);
        }
    }

    /// Nanoseconds since the start, without pauses.
    fn clock(&self, now: Time) -> u64 {
        self.still.unwrap_or(now).since(self.start).as_nanos().saturating_sub(self.paused)
    }

    /// When the clock shows so many nanoseconds.
    fn time_of(&self, clock: u64) -> Time {
        self.start.saturating_add(Span::from_nanos(clock.saturating_add(self.paused)))
    }

    /// Whether the run goes on, and time with it.
    fn speaks(&self, now: Time) -> bool {
        matches!(self.stage, Stage::Running | Stage::Finished) && self.still.is_none() && now < self.until
    }

    /// Everything that is due up to `now` happens; then the timer is set.
    fn advance(&mut self, now: Time, out: &mut Outbox) {
        self.steer(now, out);
        if self.speaks(now) && now >= self.start {
            let clock = self.clock(now);
            self.open(clock);
            for _ in 0..BATCH {
                let Some(send) = self.half.poll(clock) else { break };
                self.moved = clock;
                self.send(&send, out);
            }
            self.tell(clock, out);
            // one that has ended may make room for another
            self.open(clock);
        }
        if self.stage == Stage::Running && self.is_over(now) {
            self.stage = Stage::Finished;
            out.finish();
        }
        self.arm(now, out);
    }

    /// Begins what is to begin here.
    fn open(&mut self, clock: u64) {
        let scene = Arc::clone(&self.scene);
        while let Some((at, conversation)) = self.may_begin().filter(|(at, _)| *at <= clock) {
            self.next_start += 1;
            if self.half.script(conversation).opener() == scene.side {
                self.half.begin(conversation, at.max(self.freed));
            }
        }
    }

    /// The next conversation, unless too many are open.
    fn may_begin(&self) -> Option<(u64, u32)> {
        let room = self.scene.concurrent.is_none_or(|most| self.half.open() < most);
        self.scene.starts.get(self.next_start).copied().filter(|_| room)
    }

    fn send(&mut self, send: &Send, out: &mut Outbox) {
        let scene = Arc::clone(&self.scene);
        let Send { conversation, position, again, due } = *send;
        let conversations = &scene.conversations;
        let own = self.half.script(conversation).own(scene.side);
        let (number, all) = (own.partition_point(|at| *at < position) as u32, own.len() as u64);
        let (round, next) = &mut self.sent[conversation as usize];
        *round += u32::from(number < *next);
        *next = number + 1;
        let seq = u64::from(*round) * all + u64::from(number);
        if again {
            out.count(scene.counters.resent, 1);
        }
        let dialogue = conversation as usize % scene.plans.len();
        let planned = scene.start_of[conversation as usize].saturating_add(scene.plans[dialogue][position as usize]);
        let (intended, at) = (self.time_of(planned), self.time_of(due));
        let bytes = conversations.bytes[dialogue][number as usize];
        let payload =
            Payload::new(bytes, conversations.recipe, conversations.number(self.member, conversation, number));
        let to = scene.targets.base.member(self.member % scene.targets.len);
        out.send(Datagram { to, stream: conversation, seq, intended, at, payload });
    }

    /// Counts conversations that have ended.
    fn tell(&mut self, clock: u64, out: &mut Outbox) {
        let completed = self.half.completed();
        let now = [completed, self.half.begun() - self.half.open() - completed];
        let Counters { completed, timed_out, .. } = self.scene.counters;
        for (metric, (now, told)) in [completed, timed_out].into_iter().zip(now.into_iter().zip(self.told)) {
            if now > told {
                out.count(metric, u64::from(now - told));
                self.freed = clock;
            }
        }
        self.told = now;
    }

    /// Whether all is said: who waits for others to begin waits as long as for an answer.
    fn is_over(&self, now: Time) -> bool {
        now >= self.until || self.end().is_some_and(|end| self.still.is_none() && self.clock(now) >= end)
    }

    /// When that is, as far as it is known.
    fn end(&self) -> Option<u64> {
        if self.next_start < self.scene.starts.len() || self.half.open() > 0 {
            return None;
        }
        let missing = self.half.begun() < self.half.talks().len() as u32;
        let last = self.scene.starts.last().map_or(0, |(at, _)| *at);
        Some(if missing { last.max(self.moved).saturating_add(self.scene.manners.timeout) } else { 0 })
    }

    fn arm(&mut self, now: Time, out: &mut Outbox) {
        let steer = self.steers.next_at();
        let begin = self.may_begin().map(|(at, _)| at.max(self.freed));
        let end = self.end().filter(|_| self.stage == Stage::Running);
        let own = [self.half.next(), begin, end].into_iter().flatten().min().map(|clock| self.time_of(clock));
        let own = own.map(|at| at.max(self.start).min(self.until)).filter(|_| self.speaks(now));
        let next = [steer, own].into_iter().flatten().min().filter(|_| self.stage != Stage::Stopped);
        self.alarm.set(next, out);
    }

    /// Something came in.
    fn hear(&mut self, now: Time, head: &Head, out: &mut Outbox) {
        let scene = Arc::clone(&self.scene);
        let Counters { heard, again, strange, .. } = scene.counters;
        let known = head.from.is_some() && head.from == scene.peer(self.member) && self.stage != Stage::Waiting;
        let known = known && (head.stream as usize) < self.sent.len();
        let script = known.then(|| self.half.script(head.stream));
        let key = script.and_then(|script| {
            let own = script.own(scene.side.other());
            let position = own.get((head.seq % own.len().max(1) as u64) as usize)?;
            script.step(*position).key
        });
        let Some(key) = key else {
            // pieces and quoted addresses nobody waits for
            out.count(if known { heard } else { strange }, 1);
            return;
        };
        let clock = self.clock(now);
        let metric = match self.half.hear(head.stream, key, clock) {
            Heard::New { ahead: missing, round_trip, .. } => {
                if missing {
                    out.count(scene.counters.ahead, 1);
                }
                if let Some(nanos) = round_trip {
                    out.count(scene.counters.round_trip, nanos / 1_000);
                    out.count(scene.counters.answers, 1);
                }
                heard
            }
            Heard::Again => again,
            Heard::Strange => strange,
        };
        out.count(metric, 1);
        self.moved = clock;
        self.advance(now, out);
    }

    /// Hears of a steer: ahead of its time, when it is due, or late.
    fn steered(&mut self, now: Time, steer: &Steer, out: &mut Outbox) {
        let is_new = steer.is_for(&self.scene.node) && self.steers.learn(steer.clone());
        if is_new && self.stage != Stage::Waiting {
            self.advance(now, out);
        }
    }

    /// Steers take effect at their own times. There is no rate that could change: answers decide.
    fn steer(&mut self, now: Time, out: &mut Outbox) {
        while let Some(steer) = self.steers.take(now) {
            match (steer.step, self.still) {
                (Steering::Pause, None) => self.still = Some(steer.at),
                (Steering::Resume, Some(since)) => {
                    self.paused += steer.at.since(since.max(self.start)).as_nanos();
                    self.still = None;
                }
                (Steering::Stop, _) => self.stop(out),
                _ => {}
            }
        }
    }

    /// The end of all: what is not said is counted.
    fn stop(&mut self, out: &mut Outbox) {
        if self.stage == Stage::Stopped {
            return;
        }
        let finished = self.stage == Stage::Finished;
        self.stage = Stage::Stopped;
        self.tell(self.freed, out);
        let not_begun = self.half.talks().len() as u32 - self.half.begun();
        out.count(self.scene.counters.unfinished, u64::from(self.half.open()));
        out.count(self.scene.counters.not_begun, u64::from(not_begun));
        self.alarm.set(None, out);
        if !finished {
            out.finish();
        }
    }
}

impl Actor for Speaker {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Timer { due, .. } => {
                self.alarm.rang();
                let late = now.since(due);
                if late > STALL && self.still.is_none() {
                    self.half.stalled(late.as_nanos());
                }
                self.advance(now, out);
            }
            Event::Datagram { head, .. } => self.hear(now, head, out),
            Event::Message { body, .. } => match Word::read(body, &self.scene.node) {
                Some(Word::Begin(start, again)) => self.begin(now, &start, again.as_deref(), out),
                Some(Word::Steer(steer)) => self.steered(now, &steer, out),
                None => {}
            },
            Event::Stop => self.stop(out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
