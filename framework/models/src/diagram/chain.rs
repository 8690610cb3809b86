//! A diagram made ready: states by number, memoryless phases with their rates, samplers of all that is drawn.

use rehearsal_core::distribution::{Distribution, Law, Quantity};
use rehearsal_core::{BuildError, RngStream};

use super::gbar::Gbar;
use super::module::{Kind, Module};
use super::{Diagram, Ending, State};
use crate::distribution::Sampler;

/// The key of a population under which the diagram stands.
const KEY: &str = "diagram";

/// A diagram that can be walked.
#[derive(Debug)]
pub struct Chain {
    /// The states, in the order of their names.
    pub states: Vec<Node>,
    /// Modules, in the order of their names.
    pub modules: Vec<Works>,
    /// Phases of memoryless stays.
    pub(super) phases: Vec<PhaseRow>,
    /// Cumulative shares of users by the state that they begin in.
    pub(super) start: Vec<(f64, u16)>,
}

/// A state.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What a stay is.
    pub(super) stay: Stay,
    /// Where users go, by [`Ending`].
    pub(super) exits: [Exits; 3],
    /// When users give up.
    pub(super) impatience: Option<Drawn>,
    /// How long a flow that waits for answers is taken to last, s.
    pub(super) takes_s: f64,
}

/// What a stay is.
#[derive(Debug)]
pub(super) enum Stay {
    /// Begins in one of these phases, with cumulative shares.
    Phases(Vec<(f64, u16)>),
    /// Any other distribution: by a timer for each user.
    Drawn(Drawn),
    /// A module's flow.
    Flow(usize),
    /// Until the end.
    Last,
}

/// A memoryless phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseRow {
    /// Whose it is.
    pub state: u16,
    /// Ends per nanosecond and user.
    pub rate: f64,
    /// The probability that the next row follows.
    pub on: f64,
}

/// Where users go.
#[derive(Clone, Debug, Default)]
pub(super) struct Exits(pub Vec<Exit>);

/// One way out.
#[derive(Clone, Debug)]
pub(super) struct Exit {
    /// Shares of the ways up to this one.
    pub upto: f64,
    pub to: u16,
    /// State, least and largest number of its users.
    pub when: Option<(u16, u32, u32)>,
}

/// A module with samplers of what it draws.
#[derive(Debug)]
pub struct Works {
    /// Its name.
    pub name: String,
    /// As it is written.
    pub module: Module,
    /// Frames are cut into packets of so many bytes; requests over a carrier with answers need not be.
    pub cut: u32,
    /// Row of the diagram's steps, if it is one.
    pub step: Option<u16>,
    pub(super) lasts: Option<Drawn>,
    pub(super) gaps: Option<Drawn>,
    /// Of `gbar`, the law of one frame by itself.
    pub(super) sizes: Option<Drawn>,
    pub(super) gbar: Option<Gbar>,
    pub(super) talk: Option<Drawn>,
    pub(super) silence: Option<Drawn>,
    /// Of I, P and B frames.
    pub(super) frames: [Option<Drawn>; 3],
    pub(super) main: Option<Drawn>,
    pub(super) embedded: Option<Drawn>,
    pub(super) objects: Option<Drawn>,
    pub(super) parsing: Option<Drawn>,
}

/// A law and how it is drawn.
#[derive(Debug)]
pub(super) struct Drawn {
    pub law: Law,
    pub sampler: Sampler,
}

impl Drawn {
    fn of<Q: Quantity>(of: Option<&Distribution<Q>>) -> Result<Option<Drawn>, BuildError> {
        let Some(of) = of else { return Ok(None) };
        let law = of.law().map_err(|why| BuildError::of(KEY, why))?;
        Ok(Some(Drawn { sampler: Sampler::new(KEY, &law)?, law }))
    }

    /// A whole draw, at least 1.
    pub fn whole(&self, rng: &mut RngStream) -> u64 {
        self.sampler.whole(rng)
    }
}

impl Works {
    fn new(name: &str, module: &Module) -> Result<Self, BuildError> {
        Ok(Works {
            name: name.to_owned(),
            step: None,
            lasts: Drawn::of(module.lasts.as_ref())?,
            gaps: Drawn::of(module.gaps.as_ref())?,
            sizes: Drawn::of(module.sizes.as_ref().or(super::gbar::frames(module).as_ref()))?,
            gbar: Gbar::of(module)?,
            talk: Drawn::of(module.talk.as_ref())?,
            silence: Drawn::of(module.silence.as_ref())?,
            frames: [Drawn::of(module.i.as_ref())?, Drawn::of(module.p.as_ref())?, Drawn::of(module.b.as_ref())?],
            main: Drawn::of(module.main.as_ref())?,
            embedded: Drawn::of(module.embedded.as_ref())?,
            objects: Drawn::of(module.objects.as_ref())?,
            parsing: Drawn::of(module.parsing.as_ref())?,
            cut: module.packet_bytes(),
            module: module.clone(),
        })
    }

    /// The size of a file, of a page's main object, or of a step's answer, bytes; 0 if that is left to the receiver.
    pub fn first_object(&self, rng: &mut RngStream) -> u32 {
        if self.module.kind == Kind::Step {
            return self.module.bytes.map_or(0, |size| size.0 as u32);
        }
        let drawn = if self.module.kind == Kind::Web { &self.main } else { &self.sizes };
        bytes(drawn.as_ref(), self.module.bytes.map(|size| size.0), rng)
    }

    /// How many objects are embedded in a page.
    pub fn embedded_objects(&self, rng: &mut RngStream) -> u32 {
        let drawn = self.objects.as_ref().map_or(0, |objects| objects.whole(rng));
        u32::try_from(drawn).unwrap_or(u32::MAX).saturating_sub(self.module.less.unwrap_or(0))
    }

    /// The size of an embedded object, bytes.
    pub fn object(&self, rng: &mut RngStream) -> u32 {
        bytes(self.embedded.as_ref(), None, rng)
    }

    /// From the main object to the first request for others, ns.
    pub fn parse_ns(&self, rng: &mut RngStream) -> u64 {
        self.parsing.as_ref().map_or(0, |parsing| parsing.whole(rng))
    }
}

/// A drawn or fixed size, bytes, at least 1.
pub(super) fn bytes(drawn: Option<&Drawn>, fixed: Option<u64>, rng: &mut RngStream) -> u32 {
    let size = drawn.map(|drawn| drawn.whole(rng)).or(fixed).unwrap_or(1);
    u32::try_from(size).unwrap_or(u32::MAX).max(1)
}

impl Chain {
    /// Makes a diagram ready.
    ///
    /// # Errors
    /// Its first flaw.
    pub fn new(diagram: &Diagram) -> Result<Self, BuildError> {
        if let Some(flaw) = diagram.flaws().into_iter().next() {
            return Err(BuildError::of(KEY, flaw.reason));
        }
        let row = |name: &str| diagram.states.keys().position(|key| key == name).unwrap_or(0) as u16;
        let modules = diagram.modules.iter().map(|(name, module)| Works::new(name, module));
        let mut modules: Vec<Works> = modules.collect::<Result<_, _>>()?;
        for (row, (name, step)) in diagram.steps().enumerate() {
            let module = Module::of_step(step, diagram.usual_body_bytes(step));
            modules.push(Works { step: Some(row as u16), ..Works::new(name, &module)? });
        }
        let mut phases = Vec::new();
        let mut states = Vec::new();
        for (number, (name, state)) in diagram.states.iter().enumerate() {
            let stay = stay(number as u16, state, diagram, &mut phases)?;
            let impatience = Drawn::of(state.impatience.as_ref())?;
            let takes_s = state.takes.map_or(0.0, |takes| takes.as_secs_f64());
            states.push(Node { name: name.clone(), stay, exits: exits(state, &row), impatience, takes_s });
        }
        let mut chain = Chain { states, modules, phases, start: Vec::new() };
        let start: Vec<(f64, u16)> = if diagram.start.is_empty() {
            chain.usual_start()
        } else {
            diagram.start.iter().map(|(name, share)| (*share, row(name))).collect()
        };
        chain.start = cumulated(start);
        Ok(chain)
    }

    /// Whether users may give up somewhere.
    pub fn has_impatience(&self) -> bool {
        self.states.iter().any(|state| state.impatience.is_some())
    }

    /// The state of that name.
    pub fn state(&self, name: &str) -> Option<usize> {
        self.states.iter().position(|state| state.name == name)
    }

    /// The module of a communication state.
    pub fn module_of(&self, state: usize) -> Option<&Works> {
        match self.states[state].stay {
            Stay::Flow(module) => Some(&self.modules[module]),
            _ => None,
        }
    }
}

/// Shares as running sums.
fn cumulated(shares: Vec<(f64, u16)>) -> Vec<(f64, u16)> {
    let mut sum = 0.0;
    shares
        .into_iter()
        .filter(|(share, _)| *share > 0.0)
        .map(|(share, row)| {
            sum += share;
            (sum, row)
        })
        .collect()
}

/// One of the rows, by its cumulative share.
pub(super) fn pick(shares: &[(f64, u16)], rng: &mut RngStream) -> u16 {
    let Some((total, last)) = shares.last() else { return 0 };
    if shares.len() == 1 {
        return *last;
    }
    let at = rng.unit() * total;
    shares.iter().find(|(upto, _)| at < *upto).map_or(*last, |(_, row)| *row)
}

fn stay(number: u16, state: &State, diagram: &Diagram, phases: &mut Vec<PhaseRow>) -> Result<Stay, BuildError> {
    let base = phases.len() as u16;
    let mut add = |mean_ns: f64, on: f64| phases.push(PhaseRow { state: number, rate: 1.0 / mean_ns, on });
    if state.last {
        return Ok(Stay::Last);
    }
    if let Some(module) = &state.module {
        return Ok(Stay::Flow(diagram.modules.keys().position(|name| name == module).unwrap_or(0)));
    }
    if state.step.is_some() {
        let before = diagram.states.values().take(usize::from(number)).filter(|state| state.step.is_some());
        return Ok(Stay::Flow(diagram.modules.len() + before.count()));
    }
    if !state.hyper.is_empty() {
        let rows = state.hyper.iter().enumerate();
        let shares = rows.map(|(row, branch)| (branch.share, base + row as u16)).collect();
        state.hyper.iter().for_each(|branch| add(branch.mean.as_nanos() as f64, 0.0));
        return Ok(Stay::Phases(cumulated(shares)));
    }
    if !state.hypo.is_empty() {
        let last = state.hypo.len() - 1;
        let rows = state.hypo.iter().enumerate();
        rows.for_each(|(row, mean)| add(mean.as_nanos() as f64, f64::from(u8::from(row < last))));
        return Ok(Stay::Phases(vec![(1.0, base)]));
    }
    if !state.coxian.is_empty() {
        state.coxian.iter().for_each(|phase| add(phase.mean.as_nanos() as f64, phase.on));
        return Ok(Stay::Phases(vec![(1.0, base)]));
    }
    if !state.rates.is_empty() {
        let sum: f64 = state.rates.values().map(|rate| rate.as_f64()).sum();
        add(1e9 / sum, 0.0);
        return Ok(Stay::Phases(vec![(1.0, base)]));
    }
    let Some(drawn) = Drawn::of(state.stay.as_ref())? else { return Ok(Stay::Last) };
    if let (rehearsal_core::distribution::Family::Exponential { mean }, None) =
        (drawn.law.family(), drawn.law.truncate())
    {
        add(mean, 0.0);
        return Ok(Stay::Phases(vec![(1.0, base)]));
    }
    Ok(Stay::Drawn(drawn))
}

fn exits(state: &State, row: &impl Fn(&str) -> u16) -> [Exits; 3] {
    let list = |shares: Vec<(&String, f64)>| {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut upto = 0.0;
        let ways = shares.into_iter().filter(|(_, share)| *share > 0.0).map(|(name, share)| {
            upto += share / sum;
            let when = state.when.get(name).map(|condition| {
                let below = condition.below.map_or(u32::MAX, |below| below.saturating_sub(1));
                let empty = condition.below == Some(0);
                let least = if empty { u32::MAX } else { condition.at_least.unwrap_or(0) };
                (row(&condition.state), least, below)
            });
            Exit { upto, to: row(name), when }
        });
        Exits(ways.collect())
    };
    let of =
        |to: &std::collections::BTreeMap<String, f64>| list(to.iter().map(|(name, share)| (name, *share)).collect());
    let done = if state.rates.is_empty() {
        of(&state.to)
    } else {
        list(state.rates.iter().map(|(name, rate)| (name, rate.as_f64())).collect())
    };
    let or_done = |to| if std::collections::BTreeMap::is_empty(to) { done.clone() } else { of(to) };
    let [failed, impatient] = [or_done(&state.failed), or_done(&state.impatient)];
    [done, failed, impatient]
}

impl Exits {
    /// The next state, or `None` if the chosen way is not open.
    pub fn choose(&self, users: &[u32], rng: &mut RngStream) -> Option<u16> {
        let way = match &self.0[..] {
            [only] => only,
            ways => {
                let at = rng.unit();
                ways.iter().find(|way| at < way.upto).or(ways.last())?
            }
        };
        let open = way.when.is_none_or(|(state, least, most)| (least..=most).contains(&users[usize::from(state)]));
        open.then_some(way.to)
    }
}

impl Node {
    /// The ways out after an ending.
    pub(super) fn exits(&self, ending: Ending) -> &Exits {
        &self.exits[match ending {
            Ending::Done => 0,
            Ending::Failed => 1,
            Ending::Impatient => 2,
        }]
    }

    /// How long a user bears a flow, ns; `None` for ever.
    pub fn patience_ns(&self, rng: &mut RngStream) -> Option<u64> {
        self.impatience.as_ref().map(|impatience| impatience.whole(rng))
    }
}
