//! Users and their flows together: what is to be sent, and when. An actor, or a trial without a network, does it and tells what
//! came of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use rehearsal_core::{RngStream, Span, Time};

use super::chain::{Chain, Stay};
use super::crowd::{Begin, Crowd};
use super::emitter::Emitter;
use super::module::Kind;
use super::{Ending, after};

mod dash;

use dash::Video;

/// A user whose flow failed at once goes on after this time. Assumed: long enough to bound the loop of trying again.
const FRUITLESS_MIN: Span = Span::from_millis(1);

/// Something to be done for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A packet is due.
    Packet {
        /// When.
        at: Time,
        /// Whose.
        user: u32,
        /// Row of [`Chain::modules`].
        module: u16,
        /// Payload.
        bytes: u32,
    },
    /// Something is to be loaded down or up; [`Traffic::answered`] waits for what comes of it.
    Load {
        /// When.
        at: Time,
        /// Whose.
        user: u32,
        /// Row of [`Chain::modules`].
        module: u16,
        /// The flow that it belongs to.
        flow: u32,
        /// Payload that is wanted, whichever way it goes.
        bytes: u32,
    },
    /// The user has given up: what is under way is not waited for any more.
    GiveUp {
        /// Whose.
        user: u32,
        /// Which flow.
        flow: u32,
    },
}

/// What flows came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Flows that began.
    pub begun: u64,
    /// Flows that came to their end.
    pub done: u64,
    /// Flows that failed.
    pub failed: u64,
    /// Flows whose users gave up.
    pub impatient: u64,
}

/// A flow that goes on.
#[derive(Clone, Debug)]
struct Flow {
    state: u16,
    module: u16,
    /// Tells it from others of the same user.
    number: u32,
    began: Time,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    /// Packets by a clock; the next one.
    Paced { emitter: Emitter, bytes: u32 },
    /// A page, or a file, which is a page of one object.
    Page { main: bool, left: u32, open: u32, failed: bool },
    /// A video in segments.
    Dash(Video),
    /// It has ended so; its user waits to go on.
    Over(Ending),
}

/// What a flow waits for, in the order in which things of one time happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Packet,
    /// The main object is parsed, or there is room for another segment.
    Parsed,
    End,
    Patience,
}

/// Users, their flows, and what is due next.
#[derive(Debug)]
pub struct Traffic {
    chain: Arc<Chain>,
    crowd: Crowd,
    /// By user.
    flows: Vec<Option<Box<Flow>>>,
    due: BinaryHeap<Reverse<(Time, u32, What, u32)>>,
    numbers: u32,
    tally: Tally,
    /// Kept for its memory.
    begun: Vec<Begin>,
    now: Time,
}

impl Traffic {
    /// Nobody yet. `people` makes users individual: the generator of each.
    pub fn new(chain: Arc<Chain>, rng: RngStream, people: Option<Vec<RngStream>>) -> Self {
        let crowd = Crowd::new(Arc::clone(&chain), rng, people);
        Traffic {
            chain,
            crowd,
            flows: Vec::new(),
            due: BinaryHeap::new(),
            numbers: 0,
            tally: Tally::default(),
            begun: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// The users.
    pub fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// What flows came to.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Flows that go on.
    pub fn open(&self) -> u64 {
        self.tally.begun - self.tally.done - self.tally.failed - self.tally.impatient
    }

    /// From `now` on there are `users` users.
    pub fn resize(&mut self, now: Time, users: u32, wishes: &mut Vec<Wish>) {
        self.now = self.now.max(now);
        let mut begun = std::mem::take(&mut self.begun);
        self.crowd.resize(self.now, users, &mut begun);
        self.begin(begun, wishes);
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Time> {
        let flow = self.due.peek().map(|Reverse((at, ..))| *at);
        self.crowd.next().into_iter().chain(flow).min()
    }

    /// What is due at [`Traffic::next`] happens.
    pub fn step(&mut self, wishes: &mut Vec<Wish>) {
        let flow = self.due.peek().map(|Reverse((at, ..))| *at);
        let stay = self.crowd.next();
        if let Some(at) = stay.filter(|stay| flow.is_none_or(|flow| *stay <= flow)) {
            self.now = self.now.max(at);
            let mut begun = std::mem::take(&mut self.begun);
            self.crowd.step(&mut begun);
            return self.begin(begun, wishes);
        }
        let Some(Reverse((at, user, what, number))) = self.due.peek().copied() else { return };
        self.now = self.now.max(at);
        if what == What::Packet {
            return self.packet(at, user, number, wishes);
        }
        self.due.pop();
        let Some(flow) = self.flow(user, number) else { return };
        match (what, &mut flow.work) {
            (What::Parsed, Work::Page { .. }) => self.load(user, number, at, wishes),
            (What::Parsed, Work::Dash(_)) => self.ask_segment(user, number, at, wishes),
            (What::End, Work::Over(ending)) => {
                let ending = *ending;
                self.finish(user, at, ending, wishes);
            }
            (What::End, _) => self.finish(user, at, Ending::Done, wishes),
            (What::Patience, Work::Over(_)) => {}
            (What::Patience, work) => {
                if matches!(work, Work::Page { .. } | Work::Dash(_)) {
                    wishes.push(Wish::GiveUp { user, flow: number });
                }
                self.finish(user, at, Ending::Impatient, wishes);
            }
            _ => {}
        }
    }

    /// Something that a user loaded has come, or will not. Of a flow that has ended it means nothing.
    pub fn answered(&mut self, now: Time, user: u32, flow: u32, fine: bool, wishes: &mut Vec<Wish>) {
        self.now = self.now.max(now);
        let (now, chain) = (self.now, Arc::clone(&self.chain));
        let Some(one) = self.flow(user, flow) else { return };
        let module = usize::from(one.module);
        if matches!(one.work, Work::Dash(_)) {
            return self.segment_came(user, flow, now, fine, wishes);
        }
        let Work::Page { main, left, open, failed } = &mut one.work else { return };
        *open = open.saturating_sub(1);
        *failed |= !fine;
        if !*main {
            *main = true;
            if !fine {
                return self.fail(user, flow, now, wishes);
            }
            let works = &chain.modules[module];
            let rng = self.crowd.rng(user);
            let objects = if works.module.kind == Kind::Web { works.embedded_objects(rng) } else { 0 };
            let parse = works.parse_ns(rng);
            let Some(Work::Page { left, .. }) = self.flow(user, flow).map(|flow| &mut flow.work) else { return };
            *left = objects;
            if objects > 0 && parse > 0 {
                self.due.push(Reverse((after(now, parse), user, What::Parsed, flow)));
                return;
            }
        } else if *left == 0 && *open == 0 && *failed {
            return self.fail(user, flow, now, wishes);
        }
        self.load(user, flow, now, wishes);
    }

    /// Asks for objects of a page as far as they are allowed at a time; ends it when all have come.
    fn load(&mut self, user: u32, number: u32, at: Time, wishes: &mut Vec<Wish>) {
        let chain = Arc::clone(&self.chain);
        loop {
            let Some(flow) = self.flow(user, number) else { return };
            let module = flow.module;
            let works = &chain.modules[usize::from(module)];
            let Work::Page { left, open, .. } = &mut flow.work else { return };
            if *left == 0 && *open == 0 {
                return self.finish(user, at, Ending::Done, wishes);
            }
            if *left == 0 || *open >= works.module.parallel() {
                return;
            }
            *left -= 1;
            *open += 1;
            let bytes = works.object(self.crowd.rng(user));
            wishes.push(Wish::Load { at, user, module, flow: number, bytes });
        }
    }

    fn fail(&mut self, user: u32, number: u32, now: Time, wishes: &mut Vec<Wish>) {
        let Some(flow) = self.flow(user, number) else { return };
        let earliest = flow.began.saturating_add(FRUITLESS_MIN);
        if now >= earliest {
            return self.finish(user, now, Ending::Failed, wishes);
        }
        flow.work = Work::Over(Ending::Failed);
        self.due.push(Reverse((earliest, user, What::End, number)));
    }

    /// The packet that is due first. What its flow does next takes its place, so that the heap is put in order once.
    fn packet(&mut self, at: Time, user: u32, number: u32, wishes: &mut Vec<Wish>) {
        let flow = self.flow(user, number).map(|flow| (flow.module, &flow.work));
        let next = if let Some((module, &Work::Paced { bytes, .. })) = flow {
            if bytes > 0 {
                wishes.push(Wish::Packet { at, user, module, bytes });
            }
            self.pace(user)
        } else {
            None
        };
        let Some(mut first) = self.due.peek_mut() else { return };
        match next {
            Some((at, what)) => *first = Reverse((at, user, what, number)),
            None => {
                PeekMut::pop(first);
            }
        }
    }

    /// When a paced flow has its next packet or its end.
    fn pace(&mut self, user: u32) -> Option<(Time, What)> {
        let flow = self.flows.get_mut(user as usize).and_then(Option::as_mut)?;
        let works = &self.chain.modules[usize::from(flow.module)];
        let Work::Paced { emitter, bytes } = &mut flow.work else { return None };
        let (at, what) = match emitter.next(works, self.crowd.rng(user)) {
            Some((at, size)) => {
                *bytes = size;
                (at, What::Packet)
            }
            None => (emitter.end(), What::End),
        };
        Some((at.max(self.now), what))
    }

    fn flow(&mut self, user: u32, number: u32) -> Option<&mut Flow> {
        let flow = self.flows.get_mut(user as usize)?.as_deref_mut()?;
        (flow.number == number).then_some(flow)
    }

    /// A flow ends, and its user goes on; that may begin another.
    fn finish(&mut self, user: u32, now: Time, ending: Ending, wishes: &mut Vec<Wish>) {
        let Some(flow) = self.flows.get_mut(user as usize).and_then(Option::take) else { return };
        match ending {
            Ending::Done => self.tally.done += 1,
            Ending::Failed => self.tally.failed += 1,
            Ending::Impatient => self.tally.impatient += 1,
        }
        let mut begun = std::mem::take(&mut self.begun);
        self.crowd.end(now, Begin { user, state: flow.state }, ending, &mut begun);
        self.begin(begun, wishes);
    }

    /// Flows of users who begin to communicate.
    fn begin(&mut self, mut begun: Vec<Begin>, wishes: &mut Vec<Wish>) {
        let (now, chain) = (self.now, Arc::clone(&self.chain));
        for Begin { user, state } in begun.drain(..) {
            let node = &chain.states[usize::from(state)];
            let Stay::Flow(module) = node.stay else { continue };
            let works = &chain.modules[module];
            self.numbers = self.numbers.wrapping_add(1);
            self.tally.begun += 1;
            let number = self.numbers;
            let rng = self.crowd.rng(user);
            if let Some(patience) = node.patience_ns(rng) {
                self.due.push(Reverse((after(now, patience), user, What::Patience, number)));
            }
            let waits = works.module.kind.waits();
            let work = if waits {
                let is_video = works.module.kind == Kind::Dash;
                let bytes = if is_video { works.segment_bytes(0, rng) } else { works.first_object(rng) };
                wishes.push(Wish::Load { at: now, user, module: module as u16, flow: number, bytes });
                if is_video {
                    Work::Dash(Video::new(works.segments(rng), now, bytes))
                } else {
                    Work::Page { main: false, left: 0, open: 1, failed: false }
                }
            } else {
                Work::Paced { emitter: Emitter::new(works, now, rng), bytes: 0 }
            };
            let flow = Flow { state, module: module as u16, number, began: now, work };
            let row = user as usize;
            if self.flows.len() <= row {
                self.flows.resize_with(row + 1, || None);
            }
            self.flows[row] = Some(Box::new(flow));
            if !waits && let Some((at, what)) = self.pace(user) {
                self.due.push(Reverse((at, user, what, number)));
            }
        }
        self.begun = begun;
    }
}
