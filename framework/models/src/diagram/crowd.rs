//! Users on their way through a diagram's states.
//!
//! *Composed*: users have no identity. Memoryless stays are counts by phase and one event clock for all of them, drawn by
//! Gillespie's direct method (J. Computational Physics 22, 1976): the next event comes after an exponential time with the sum
//! of all rates, of one phase in proportion to its rate. Stays of any other distribution have a time each, so nothing is
//! approximate. *Individual*: every user has a state and a generator, and so a path that does not depend on the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rehearsal_core::{RngStream, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Stay, pick};
use super::{Ending, after};

/// How users are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As numbers of users in each state: for very many.
    #[default]
    Composed,
    /// One by one: a user keeps its stream, and its path stays what it is when others are added.
    Individual,
}

/// A user begins to communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The user: its number if users are individual, else a number that it has while it communicates.
    pub user: u32,
    /// The state.
    pub state: u16,
}

/// A user who is kept one by one.
#[derive(Clone, Debug)]
struct Person {
    state: u16,
    /// The phase of a memoryless stay.
    phase: u16,
    rng: RngStream,
}

/// The state of somebody who has left.
const GONE: u16 = u16::MAX;

/// Users by state.
#[derive(Debug)]
pub struct Crowd {
    chain: Arc<Chain>,
    rng: RngStream,
    /// Users in each state.
    users: Vec<u32>,
    /// User-nanoseconds in each state, up to the time beside it.
    areas: Vec<(f64, Time)>,
    /// Users in each memoryless phase, of a composed crowd.
    phases: Vec<u32>,
    /// The next end of a memoryless phase.
    jump: Option<Time>,
    /// Ends of other stays, with the state, or the user if users are individual.
    stays: BinaryHeap<Reverse<(Time, u32)>>,
    /// Numbers of users who communicate: those that are free again, and the first that was never used.
    free: Vec<u32>,
    fresh: u32,
    people: Option<Vec<Person>>,
    /// Users there are, and users there should be: the difference leaves when it has communicated.
    present: u32,
    wanted: u32,
    moves: u64,
}

impl Crowd {
    /// Nobody yet. `people` makes the generator of each user, if they are individual.
    pub fn new(chain: Arc<Chain>, rng: RngStream, people: Option<Vec<RngStream>>) -> Self {
        let (states, phases) = (chain.states.len(), chain.phases.len());
        let person = |rng| Person { state: GONE, phase: 0, rng };
        Crowd {
            chain,
            rng,
            users: vec![0; states],
            areas: vec![(0.0, Time::ZERO); states],
            phases: vec![0; phases],
            jump: None,
            stays: BinaryHeap::new(),
            free: Vec::new(),
            fresh: 0,
            people: people.map(|rngs| rngs.into_iter().map(person).collect()),
            present: 0,
            wanted: 0,
            moves: 0,
        }
    }

    /// Users there are.
    pub fn present(&self) -> u32 {
        self.present
    }

    /// Users in each state.
    pub fn users(&self) -> &[u32] {
        &self.users
    }

    /// Transitions so far.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// User-seconds in each state up to `now`.
    pub fn user_seconds(&self, now: Time) -> Vec<f64> {
        let all = self.areas.iter().zip(&self.users);
        all.map(|((area, at), users)| (area + f64::from(*users) * now.since(*at).as_nanos() as f64) / 1e9).collect()
    }

    /// The generator of what a user draws while it communicates.
    pub fn rng(&mut self, user: u32) -> &mut RngStream {
        match &mut self.people {
            Some(people) => &mut people[user as usize].rng,
            None => &mut self.rng,
        }
    }

    /// When the next stay ends.
    pub fn next(&self) -> Option<Time> {
        let stay = self.stays.peek().map(|Reverse((at, _))| *at);
        self.jump.into_iter().chain(stay).min()
    }

    /// From `now` on there are `wanted` users. New ones begin where the diagram says; of those who are too many, the ones who do
    /// not communicate leave at once, the others when they have finished.
    pub fn resize(&mut self, now: Time, wanted: u32, begun: &mut Vec<Begin>) {
        self.wanted = wanted;
        match &mut self.people {
            Some(_) => self.resize_people(now, wanted, begun),
            None if wanted < self.present => self.leave(now),
            None => {
                for _ in self.present..wanted {
                    let state = pick(&self.chain.start, &mut self.rng);
                    self.enter(now, None, state, begun);
                }
                self.present = wanted;
            }
        }
        self.redraw(now);
    }

    /// The stay ends that is due at [`Crowd::next`].
    pub fn step(&mut self, begun: &mut Vec<Begin>) {
        let stay = self.stays.peek().map(|Reverse((at, _))| *at);
        match (self.jump, stay) {
            (Some(jump), stay) if stay.is_none_or(|stay| jump <= stay) => {
                self.jump_at(jump, begun);
                self.redraw(jump);
            }
            (_, Some(at)) => {
                let Some(Reverse((_, who))) = self.stays.pop() else { return };
                match self.people {
                    Some(_) => self.person(at, who, begun),
                    None => {
                        self.go(at, None, who as u16, Ending::Done, begun);
                        self.redraw(at);
                    }
                }
            }
            _ => {}
        }
    }

    /// A flow has ended; its user goes on.
    pub fn end(&mut self, now: Time, who: Begin, ending: Ending, begun: &mut Vec<Begin>) {
        let individual = self.people.is_some();
        if !individual {
            self.free.push(who.user);
        }
        let leaves = if individual { who.user >= self.wanted } else { self.present > self.wanted };
        if leaves {
            self.count(now, who.state, -1);
            self.present -= 1;
            if let Some(people) = &mut self.people {
                people[who.user as usize].state = GONE;
            }
            return;
        }
        self.go(now, individual.then_some(who.user), who.state, ending, begun);
        self.redraw(now);
    }

    /// Moves a user on from a state.
    fn go(&mut self, now: Time, user: Option<u32>, state: u16, ending: Ending, begun: &mut Vec<Begin>) {
        let exits = self.chain.states[usize::from(state)].exits(ending);
        let rng = match (&mut self.people, user) {
            (Some(people), Some(user)) => &mut people[user as usize].rng,
            _ => &mut self.rng,
        };
        let next = exits.choose(&self.users, rng).unwrap_or(state);
        self.moves += 1;
        self.count(now, state, -1);
        self.enter(now, user, next, begun);
    }

    /// A user comes into a state.
    fn enter(&mut self, now: Time, user: Option<u32>, state: u16, begun: &mut Vec<Begin>) {
        self.count(now, state, 1);
        let chain = Arc::clone(&self.chain);
        let stay = &chain.states[usize::from(state)].stay;
        let person = match (&mut self.people, user) {
            (Some(people), Some(user)) => Some(&mut people[user as usize]),
            _ => None,
        };
        match (stay, person) {
            (Stay::Phases(entry), None) => self.phases[usize::from(pick(entry, &mut self.rng))] += 1,
            (Stay::Drawn(drawn), None) => {
                let at = after(now, drawn.whole(&mut self.rng));
                self.stays.push(Reverse((at, u32::from(state))));
            }
            (Stay::Flow(_), None) => {
                let user = self.free.pop().unwrap_or_else(|| {
                    self.fresh += 1;
                    self.fresh - 1
                });
                begun.push(Begin { user, state });
            }
            (Stay::Last, None) => {}
            (stay, Some(person)) => {
                person.state = state;
                let at = match stay {
                    Stay::Phases(entry) => {
                        person.phase = pick(entry, &mut person.rng);
                        let mean = 1.0 / chain.phases[usize::from(person.phase)].rate;
                        Some(after(now, exponential(mean, &mut person.rng)))
                    }
                    Stay::Drawn(drawn) => Some(after(now, drawn.whole(&mut person.rng))),
                    Stay::Flow(_) | Stay::Last => None,
                };
                let user = user.unwrap_or(0);
                match at {
                    Some(at) => self.stays.push(Reverse((at, user))),
                    None if matches!(stay, Stay::Flow(_)) => begun.push(Begin { user, state }),
                    None => {}
                }
            }
        }
    }

    /// A memoryless phase of a composed crowd ends.
    fn jump_at(&mut self, now: Time, begun: &mut Vec<Begin>) {
        let rates = |(users, phase): (&u32, &super::chain::PhaseRow)| f64::from(*users) * phase.rate;
        let total: f64 = self.phases.iter().zip(&self.chain.phases).map(rates).sum();
        let mut at = self.rng.unit() * total;
        let mut chosen = None;
        for (row, pair) in self.phases.iter().zip(&self.chain.phases).enumerate() {
            let rate = rates(pair);
            if rate > 0.0 {
                chosen = Some(row);
                if at < rate {
                    break;
                }
                at -= rate;
            }
        }
        let Some(row) = chosen else { return };
        let phase = self.chain.phases[row];
        self.phases[row] -= 1;
        if phase.on > 0.0 && self.rng.unit() < phase.on {
            self.phases[row + 1] += 1;
        } else {
            self.go(now, None, phase.state, Ending::Done, begun);
        }
    }

    /// The stay, or the phase of a stay, of one user ends.
    fn person(&mut self, now: Time, user: u32, begun: &mut Vec<Begin>) {
        let Some(person) = self.people.as_mut().map(|people| &mut people[user as usize]) else { return };
        if matches!(self.chain.states[usize::from(person.state)].stay, Stay::Phases(_)) {
            let on = self.chain.phases[usize::from(person.phase)].on;
            if on > 0.0 && person.rng.unit() < on {
                person.phase += 1;
                let mean = 1.0 / self.chain.phases[usize::from(person.phase)].rate;
                let at = after(now, exponential(mean, &mut person.rng));
                self.stays.push(Reverse((at, user)));
                return;
            }
        }
        let state = person.state;
        self.go(now, Some(user), state, Ending::Done, begun);
    }

    /// Memoryless: after any change the next jump may be drawn anew.
    fn redraw(&mut self, now: Time) {
        if self.people.is_some() {
            return;
        }
        let total: f64 = self.phases.iter().zip(&self.chain.phases).map(|(n, row)| f64::from(*n) * row.rate).sum();
        self.jump = (total > 0.0).then(|| after(now, exponential(1.0 / total, &mut self.rng)));
    }

    fn count(&mut self, now: Time, state: u16, by: i32) {
        let row = usize::from(state);
        let (area, at) = &mut self.areas[row];
        *area += f64::from(self.users[row]) * now.since(*at).as_nanos() as f64;
        *at = now;
        self.users[row] = self.users[row].saturating_add_signed(by);
    }

    /// Composed users who are too many and do not communicate leave, each with the same probability.
    fn leave(&mut self, now: Time) {
        let mut stays = std::mem::take(&mut self.stays).into_vec();
        let resting = |state: &super::chain::Node| matches!(state.stay, Stay::Last);
        let last: Vec<usize> = (0..self.users.len()).filter(|row| resting(&self.chain.states[*row])).collect();
        while self.present > self.wanted {
            let phased: u64 = self.phases.iter().map(|users| u64::from(*users)).sum();
            let done: u64 = last.iter().map(|row| u64::from(self.users[*row])).sum();
            let all = phased + stays.len() as u64 + done;
            if all == 0 {
                break;
            }
            let mut at = self.rng.below(all);
            let state = if at < phased {
                let row = place(&mut at, self.phases.iter().copied());
                self.phases[row] -= 1;
                self.chain.phases[row].state
            } else if at - phased < stays.len() as u64 {
                let Reverse((_, state)) = stays.swap_remove((at - phased) as usize);
                state as u16
            } else {
                at -= phased + stays.len() as u64;
                last[place(&mut at, last.iter().map(|row| self.users[*row]))] as u16
            };
            self.count(now, state, -1);
            self.present -= 1;
        }
        self.stays = stays.into();
    }

    /// Users from `wanted` on leave, those before are there.
    fn resize_people(&mut self, now: Time, wanted: u32, begun: &mut Vec<Begin>) {
        let chain = Arc::clone(&self.chain);
        let many = self.people.as_ref().map_or(0, |people| people.len() as u32);
        self.stays.retain(|Reverse((_, user))| *user < wanted);
        for user in 0..many {
            let Some(person) = self.people.as_mut().map(|people| &mut people[user as usize]) else { return };
            let (state, there) = (person.state, person.state != GONE);
            if user < wanted && !there {
                let state = pick(&chain.start, &mut person.rng);
                self.present += 1;
                self.enter(now, Some(user), state, begun);
            } else if user >= wanted && there && !matches!(chain.states[usize::from(state)].stay, Stay::Flow(_)) {
                person.state = GONE;
                self.count(now, state, -1);
                self.present -= 1;
            }
        }
    }
}

/// The row in which a running number falls.
fn place(at: &mut u64, rows: impl Iterator<Item = u32>) -> usize {
    let mut last = 0;
    for (row, many) in rows.enumerate() {
        if *at < u64::from(many) {
            return row;
        }
        *at -= u64::from(many);
        last = row;
    }
    last
}

/// An exponential time, ns.
fn exponential(mean_ns: f64, rng: &mut RngStream) -> u64 {
    let drawn: f64 = rng.sample(&rand_distr::Exp1);
    (drawn * mean_ns).round() as u64
}
