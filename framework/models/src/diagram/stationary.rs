//! Where users are in the long run, and what they send: the diagram as a semi-Markov chain.
//!
//! The embedded chain is solved by the elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985), which
//! subtracts nothing and so loses no digits; times of stay turn visits into shares of time.

use rehearsal_core::distribution::Law;

use super::chain::{Chain, Stay, Works};
use super::module::Kind;

/// Steps of integrals over survival functions. Assumed: their error is then below 1e-5.
const STEPS: u32 = 4_000;

/// Users in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stationary {
    /// Share of users in each state.
    pub shares: Vec<f64>,
    /// Times that one user enters each state, per second.
    pub visits: Vec<f64>,
    /// What one user offers, by module.
    pub offered: Vec<Offered>,
}

/// What one user offers by one module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// Flows per second.
    pub flows: f64,
    /// Packets or requests per second.
    pub packets: f64,
    /// Payload bytes per second, whichever way they go.
    pub bytes: f64,
}

impl Stationary {
    /// What one user offers by all modules.
    pub fn total(&self) -> Offered {
        self.offered.iter().fold(Offered::default(), |sum, one| Offered {
            flows: sum.flows + one.flows,
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }
}

/// One flow, in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// How long it lasts, s; what waits for answers takes no time of its own.
    pub seconds: f64,
    /// Packets or requests.
    pub packets: f64,
    /// Payload, bytes.
    pub bytes: f64,
}

impl Works {
    /// A flow that nobody breaks off, in the mean.
    pub fn flow(&self) -> Flow {
        let (interval, unit_packets, unit_bytes) = match self.module.kind {
            Kind::Web => return self.page(),
            Kind::Dash => return self.video(),
            Kind::File | Kind::Step => {
                let bytes = self.mean_bytes();
                return Flow { seconds: 0.0, packets: 1.0, bytes };
            }
            _ => self.unit(),
        };
        let (seconds, units) = match (&self.lasts, self.module.count) {
            (Some(lasts), _) => (lasts.law.moments().mean / 1e9, lasts.law.moments().mean / 1e9 / interval),
            (None, count) => {
                let count = count.unwrap_or(1) as f64;
                // the first one comes at a random point of its interval, or after a gap
                let first = if self.gaps.is_some() { interval } else { interval / 2.0 };
                (first + (count - 1.0) * interval, count)
            }
        };
        Flow { seconds, packets: units * unit_packets, bytes: units * unit_bytes }
    }

    fn page(&self) -> Flow {
        let mean = |drawn: &Option<super::chain::Drawn>| drawn.as_ref().map_or(0.0, |d| d.law.moments().mean);
        let objects = (mean(&self.objects) - f64::from(self.module.less.unwrap_or(0))).max(0.0);
        Flow {
            seconds: mean(&self.parsing) / 1e9,
            packets: 1.0 + objects,
            bytes: mean(&self.main) + objects * mean(&self.embedded),
        }
    }

    fn mean_bytes(&self) -> f64 {
        let fixed = self.module.bytes.map_or(0.0, |size| size.0 as f64);
        self.sizes.as_ref().map_or(fixed, |sizes| sizes.law.moments().mean)
    }

    /// The mean interval of packets or frames in seconds, and packets and bytes of each.
    fn unit(&self) -> (f64, f64, f64) {
        let every = self.module.codec.map(|codec| codec.framing().every).or(self.module.every);
        let every = every.map_or(1.0, |every| every.as_secs_f64());
        let interval = self.gaps.as_ref().map_or(every, |gaps| gaps.law.moments().mean / 1e9);
        let talk = self.activity();
        if let Some(codec) = self.module.codec {
            let framing = codec.framing();
            let (sid_bytes, sid) = framing.silence.map_or((0.0, 0.0), |(bytes, every)| {
                (f64::from(bytes), (1.0 - talk) * framing.every.as_secs_f64() / every.as_secs_f64())
            });
            return (interval, talk + sid, talk * f64::from(framing.bytes) + sid * sid_bytes);
        }
        let (packets, bytes) = self.frame();
        (interval, talk * packets, talk * bytes)
    }

    /// Share of time in talk.
    fn activity(&self) -> f64 {
        match (&self.talk, &self.silence) {
            (Some(talk), Some(silence)) => {
                let (on, off) = (talk.law.moments().mean, silence.law.moments().mean);
                on / (on + off)
            }
            _ => 1.0,
        }
    }

    /// Packets and bytes of one frame, in the mean.
    fn frame(&self) -> (f64, f64) {
        let packet = f64::from(self.cut);
        let fixed = |sizes: &[f64]| {
            let many = sizes.len().max(1) as f64;
            let packets: f64 = sizes.iter().map(|size| (size / packet).ceil()).sum();
            (packets / many, sizes.iter().sum::<f64>() / many)
        };
        let drawn = |law: &Law| (pieces(law, packet), law.moments().mean);
        if let Some(gop) = &self.module.gop {
            let letters = ['I', 'P', 'B'];
            let all = gop.chars().filter_map(|letter| {
                let row = letters.iter().position(|known| *known == letter)?;
                self.frames[row].as_ref().map(|frame| drawn(&frame.law))
            });
            let (packets, bytes) = all.fold((0.0, 0.0), |(p, b), (packets, bytes)| (p + packets, b + bytes));
            let many = gop.len().max(1) as f64;
            return (packets / many, bytes / many);
        }
        if !self.module.bits.is_empty() {
            let sizes: Vec<f64> = self.module.bits.iter().map(|bits| (*bits as f64 / 8.0).ceil()).collect();
            return fixed(&sizes);
        }
        if !self.module.cycle.is_empty() {
            return fixed(&self.module.cycle.iter().map(|size| size.0 as f64).collect::<Vec<_>>());
        }
        match &self.sizes {
            Some(sizes) => drawn(&sizes.law),
            None => fixed(&[self.mean_bytes()]),
        }
    }
}

/// Packets that a frame is cut into, in the mean: the sum of P(size > k · packet) over k from 0 on.
pub(super) fn pieces(law: &Law, packet: f64) -> f64 {
    let mut sum = 1.0;
    for k in 1..1_000_000 {
        let more = law.survival(f64::from(k) * packet);
        sum += more;
        if more < 1e-9 {
            break;
        }
    }
    sum
}

/// The mean of the shorter of two times, s, and how often the second is the shorter.
fn shorter(flow: &Law, patience: &Law) -> (f64, f64) {
    let high = (flow.moments().mean + patience.moments().mean) * 50.0;
    let low = high * 1e-9;
    let (from, step) = (low.ln(), (high.ln() - low.ln()) / f64::from(STEPS));
    let at = |i: f64| (from + step * i).exp();
    let (mut mean, mut gives_up) = (low, 0.0);
    for i in 0..STEPS {
        let (left, middle, right) = (at(f64::from(i)), at(f64::from(i) + 0.5), at(f64::from(i) + 1.0));
        mean += flow.survival(middle) * patience.survival(middle) * (right - left);
        gives_up += flow.survival(middle) * (patience.survival(left) - patience.survival(right));
    }
    (mean / 1e9, gives_up.clamp(0.0, 1.0))
}

impl Chain {
    /// Users in the long run; `None` if that depends on where they began, on how many are elsewhere, or ends in a final state.
    pub fn stationary(&self) -> Option<Stationary> {
        let conditional = self.states.iter().flat_map(|s| &s.exits).flat_map(|e| &e.0).any(|way| way.when.is_some());
        if conditional || self.states.iter().any(|state| matches!(state.stay, Stay::Last)) {
            return None;
        }
        let (shares, visits) = self.solve()?;
        let mut offered = vec![Offered::default(); self.modules.len()];
        for (row, state) in self.states.iter().enumerate() {
            let Stay::Flow(module) = state.stay else { continue };
            let works = &self.modules[module];
            let (flow, whole) = (works.flow(), self.seconds(row));
            let part = if works.module.kind.waits() || flow.seconds <= 0.0 { 1.0 } else { whole / flow.seconds };
            let one = &mut offered[module];
            one.flows += visits[row];
            one.packets += visits[row] * flow.packets * part;
            one.bytes += visits[row] * flow.bytes * part;
        }
        Some(Stationary { shares, visits, offered })
    }

    /// Shares of users who begin, where the diagram leaves it open: those of the long run, without those who wait.
    pub(super) fn usual_start(&self) -> Vec<(f64, u16)> {
        let waits = |row: usize| matches!(self.states[row].stay, Stay::Flow(m) if self.modules[m].module.kind.waits());
        let (shares, visits) = self.solve().unwrap_or_default();
        let free: Vec<f64> =
            shares.iter().enumerate().map(|(row, share)| if waits(row) { 0.0 } else { *share }).collect();
        let some = if free.iter().sum::<f64>() > 0.0 { free } else { visits };
        let begun = some.into_iter().enumerate().map(|(row, share)| (share, row as u16));
        let begun: Vec<(f64, u16)> = begun.filter(|(share, _)| *share > 0.0).collect();
        if begun.is_empty() { vec![(1.0, 0)] } else { begun }
    }

    /// Mean time in a state, s.
    pub(super) fn seconds(&self, row: usize) -> f64 {
        let state = &self.states[row];
        match &state.stay {
            Stay::Phases(entry) => {
                let mut before = 0.0;
                let mut mean = 0.0;
                for (upto, phase) in entry {
                    mean += (upto - before) * self.phase_s(usize::from(*phase));
                    before = *upto;
                }
                mean / before.max(f64::MIN_POSITIVE)
            }
            Stay::Drawn(drawn) => drawn.law.moments().mean / 1e9,
            Stay::Flow(module) => self.flow_s(row, *module).0,
            Stay::Last => f64::INFINITY,
        }
    }

    fn phase_s(&self, phase: usize) -> f64 {
        let row = self.phases[phase];
        let rest = if row.on > 0.0 { row.on * self.phase_s(phase + 1) } else { 0.0 };
        1.0 / row.rate / 1e9 + rest
    }

    /// Mean time of a flow in a state, and how often its user gives up.
    fn flow_s(&self, row: usize, module: usize) -> (f64, f64) {
        let (state, works) = (&self.states[row], &self.modules[module]);
        if works.module.kind.waits() {
            return (works.flow().seconds + state.takes_s, 0.0);
        }
        match (&works.lasts, &state.impatience) {
            (Some(lasts), Some(patience)) => shorter(&lasts.law, &patience.law),
            _ => (works.flow().seconds, 0.0),
        }
    }

    /// Probabilities of the next state.
    fn row(&self, from: usize) -> Vec<f64> {
        let state = &self.states[from];
        let gives_up = match state.stay {
            Stay::Flow(module) => self.flow_s(from, module).1,
            _ => 0.0,
        };
        let mut row = vec![0.0; self.states.len()];
        for (exits, weight) in [(&state.exits[0], 1.0 - gives_up), (&state.exits[2], gives_up)] {
            let mut before = 0.0;
            for way in &exits.0 {
                row[usize::from(way.to)] += (way.upto - before) * weight;
                before = way.upto;
            }
        }
        row
    }

    /// Shares of time and visits per second, by state.
    fn solve(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let many = self.states.len();
        let rows: Vec<Vec<f64>> = (0..many).map(|from| self.row(from)).collect();
        let sets = closed_sets(&rows);
        let begun = |set: &[usize]| -> f64 {
            let mut before = 0.0;
            let mut sum = 0.0;
            for (upto, row) in &self.start {
                sum += if set.contains(&usize::from(*row)) { upto - before } else { 0.0 };
                before = *upto;
            }
            sum
        };
        let weights: Vec<f64> = if sets.len() == 1 { vec![1.0] } else { sets.iter().map(|set| begun(set)).collect() };
        if (weights.iter().sum::<f64>() - 1.0).abs() > 1e-6 {
            return None;
        }
        let (mut shares, mut visits) = (vec![0.0; many], vec![0.0; many]);
        for (set, weight) in sets.iter().zip(weights) {
            let embedded = eliminate(set.iter().map(|i| set.iter().map(|j| rows[*i][*j]).collect()).collect());
            let cycle: f64 = set.iter().zip(&embedded).map(|(row, visits)| visits * self.seconds(*row)).sum();
            if !(cycle.is_finite() && cycle > 0.0) {
                return None;
            }
            for (row, visit) in set.iter().zip(&embedded) {
                visits[*row] = weight * visit / cycle;
                shares[*row] = visits[*row] * self.seconds(*row);
            }
        }
        Some((shares, visits))
    }
}

/// Sets of states that are never left and whose states all lead to each other.
fn closed_sets(rows: &[Vec<f64>]) -> Vec<Vec<usize>> {
    let many = rows.len();
    let mut leads: Vec<Vec<bool>> = rows.iter().map(|row| row.iter().map(|p| *p > 0.0).collect()).collect();
    for (i, row) in leads.iter_mut().enumerate() {
        row[i] = true;
    }
    for via in 0..many {
        let middle = leads[via].clone();
        for row in leads.iter_mut().filter(|row| row[via]) {
            row.iter_mut().zip(&middle).for_each(|(to, through)| *to |= through);
        }
    }
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for (from, row) in leads.iter().enumerate() {
        let set: Vec<usize> = (0..many).filter(|to| row[*to]).collect();
        if set.iter().all(|to| leads[*to][from]) && !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// The stationary distribution of an irreducible chain with these rows.
fn eliminate(mut p: Vec<Vec<f64>>) -> Vec<f64> {
    let many = p.len();
    for k in (1..many).rev() {
        let leaves: f64 = p[k][..k].iter().sum();
        let last = p[k].clone();
        for row in p.iter_mut().take(k) {
            row[k] /= leaves;
            let through = row[k];
            row.iter_mut().zip(&last).take(k).for_each(|(to, from_last)| *to += through * from_last);
        }
    }
    let mut visits = vec![1.0; many];
    for k in 1..many {
        visits[k] = (0..k).map(|i| visits[i] * p[i][k]).sum();
    }
    let sum: f64 = visits.iter().sum();
    visits.iter_mut().for_each(|visit| *visit /= sum);
    visits
}
