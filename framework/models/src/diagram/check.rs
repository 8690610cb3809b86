//! What a diagram cannot be: every flaw with the key at fault, so that a file's line can be told.

use std::collections::{BTreeMap, BTreeSet};

use rehearsal_core::distribution::{Distribution, Quantity};

use super::module::{Kind, Module, ROWS_MAX};
use super::{Diagram, MODULES_MAX, STATES_MAX, State};

mod steps;

/// Largest difference from 1 that the probabilities of a state may add up to.
const SUM_SLACK: f64 = 1e-6;
/// Largest payload that a model may ask for, bytes. Assumed: what the emulator takes in as one answer.
const BYTES_MAX: u64 = 64 << 20;
/// Shortest interval of packets, ns. Assumed: a million packets a second and flow are more than any user sends.
const EVERY_MIN: u64 = 1_000;

/// Something that is wrong with a diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Names of the keys on the way to the one at fault, from the diagram on.
    pub path: Vec<String>,
    /// What is wrong, and with which state.
    pub reason: String,
}

/// Collects flaws.
struct Flaws(Vec<Flaw>);

impl Flaws {
    fn at(&mut self, path: &[&str], reason: impl Into<String>) {
        self.0.push(Flaw { path: path.iter().map(|key| (*key).to_owned()).collect(), reason: reason.into() });
    }
}

impl Diagram {
    /// Everything that is wrong with it. What is not, can be made a [`super::Chain`].
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = Flaws(Vec::new());
        if self.states.is_empty() {
            flaws.at(&["states"], "a diagram has at least one state");
        }
        for (key, many, most) in
            [("states", self.states.len(), STATES_MAX), ("modules", self.modules.len(), MODULES_MAX)]
        {
            if many > most {
                flaws.at(&[key], format!("there are {many} {key}, at most {most} are possible"));
            }
        }
        for (name, state) in &self.states {
            self.state(name, state, &mut flaws);
        }
        for (name, module) in &self.modules {
            self.module(name, module, &mut flaws);
        }
        self.begin(&mut flaws);
        // ways through a diagram whose states are wrong would mislead
        if flaws.0.is_empty() {
            self.ways(&mut flaws);
        }
        if flaws.0.is_empty() {
            self.values(&mut flaws);
        }
        flaws.0
    }

    fn state(&self, name: &str, state: &State, flaws: &mut Flaws) {
        let kinds = [
            ("stay", state.stay.is_some()),
            ("rates", !state.rates.is_empty()),
            ("hyper", !state.hyper.is_empty()),
            ("hypo", !state.hypo.is_empty()),
            ("coxian", !state.coxian.is_empty()),
            ("module", state.module.is_some()),
            ("step", state.step.is_some()),
            ("final", state.last),
        ];
        let there: Vec<&str> = kinds.iter().filter(|(_, is)| *is).map(|(key, _)| *key).collect();
        match there[..] {
            [_] => {}
            [] => {
                let reason = format!(
                    "state `{name}` does not say how long a user stays: give it `stay`, `rates`, `hyper`, `hypo`, `coxian`, a `module`, a `step`, or `final = true`"
                );
                return flaws.at(&["states", name], reason);
            }
            [first, second, ..] => {
                let reason = format!("state `{name}` has `{first}` and `{second}`, which exclude each other");
                return flaws.at(&["states", name, second], reason);
            }
        }
        self.stay(name, state, flaws);
        self.step(name, state, flaws);
        self.exits(name, state, flaws);
    }

    fn stay(&self, name: &str, state: &State, flaws: &mut Flaws) {
        let at = |key: &str| ["states".to_owned(), name.to_owned(), key.to_owned()];
        law(&at("stay"), state.stay.as_ref(), &format!("state `{name}`"), flaws);
        law(&at("impatience"), state.impatience.as_ref(), &format!("state `{name}`"), flaws);
        if !state.hyper.is_empty() {
            let shares: Vec<f64> = state.hyper.iter().map(|branch| branch.share).collect();
            sums_to_one(&at("hyper"), &shares, &format!("the branches of state `{name}`"), flaws);
        }
        let means = state.hyper.iter().map(|branch| ("hyper", branch.mean));
        let means = means.chain(state.hypo.iter().map(|mean| ("hypo", *mean)));
        for (key, mean) in means.chain(state.coxian.iter().map(|phase| ("coxian", phase.mean))) {
            if mean.is_zero() {
                flaws.at(&["states", name, key], format!("state `{name}`: a mean must be above zero"));
            }
        }
        let last = state.coxian.len().saturating_sub(1);
        for (row, phase) in state.coxian.iter().enumerate() {
            let fine = if row == last { phase.on == 0.0 } else { (0.0..=1.0).contains(&phase.on) };
            if !fine {
                let what = if row == last { "0 in the last phase" } else { "from 0 to 1" };
                flaws.at(&["states", name, "coxian"], format!("state `{name}`: `on` must be {what}"));
            }
        }
        if let Some(module) = &state.module
            && !self.modules.contains_key(module)
        {
            let known: Vec<String> = self.modules.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
            let reason = format!("state `{name}`: there is no module `{module}`; the modules are: {known}");
            flaws.at(&["states", name, "module"], reason);
        }
    }

    fn exits(&self, name: &str, state: &State, flaws: &mut Flaws) {
        let lists = [("to", &state.to), ("failed", &state.failed), ("impatient", &state.impatient)];
        for (key, targets) in lists {
            for target in targets.keys().filter(|target| !self.states.contains_key(*target)) {
                flaws.at(&["states", name, key, target], format!("state `{name}`: there is no state `{target}`"));
            }
            if !targets.is_empty() {
                let shares: Vec<f64> = targets.values().copied().collect();
                let path = ["states".to_owned(), name.to_owned(), key.to_owned()];
                sums_to_one(&path, &shares, &format!("`{key}` of state `{name}`"), flaws);
            }
        }
        for target in state.rates.keys() {
            if !self.states.contains_key(target) {
                flaws.at(&["states", name, "rates", target], format!("state `{name}`: there is no state `{target}`"));
            } else if target == name {
                flaws.at(
                    &["states", name, "rates", target],
                    format!("state `{name}`: a rate to itself changes nothing"),
                );
            }
        }
        let has_exits = !state.to.is_empty();
        if state.last || !state.rates.is_empty() {
            if has_exits {
                let word = if state.last { "final" } else { "rates" };
                flaws.at(&["states", name, "to"], format!("state `{name}` has `{word}`, so it has no `to`"));
            }
        } else if !has_exits {
            let reason = format!(
                "state `{name}` is absorbing: nothing says where users go from it; give it `to`, or `final = true` if they are to stay"
            );
            flaws.at(&["states", name], reason);
        } else if !state.talks() && state.to.keys().all(|target| target == name) {
            let reason =
                format!("state `{name}` is absorbing: it leads to itself alone; write `final = true` if it should");
            flaws.at(&["states", name, "to"], reason);
        }
        for (key, there) in [
            ("failed", !state.failed.is_empty()),
            ("impatience", state.impatience.is_some()),
            ("impatient", !state.impatient.is_empty()),
            ("takes", state.takes.is_some()),
        ] {
            if there && !state.talks() {
                let reason = format!("state `{name}`: only a state with a `module` or a `step` has `{key}`");
                flaws.at(&["states", name, key], reason);
            }
        }
        if !state.impatient.is_empty() && state.impatience.is_none() {
            flaws.at(&["states", name, "impatient"], format!("state `{name}`: `impatient` needs `impatience`"));
        }
        self.conditions(name, state, flaws);
    }

    fn conditions(&self, name: &str, state: &State, flaws: &mut Flaws) {
        for (target, condition) in &state.when {
            let path = ["states", name, "when", target];
            let leads = [&state.to, &state.failed, &state.impatient].iter().any(|to| to.contains_key(target));
            if !leads && !state.rates.contains_key(target) {
                flaws.at(
                    &path,
                    format!("state `{name}`: there is no transition to `{target}` that could have a condition"),
                );
            }
            if state.talks() {
                let reason =
                    format!("state `{name}`: the end of a flow cannot wait for a condition; put a state behind it");
                flaws.at(&path, reason);
            }
            if !self.states.contains_key(&condition.state) {
                flaws.at(&path, format!("state `{name}`: there is no state `{}`", condition.state));
            }
            if condition.at_least.is_none() && condition.below.is_none() {
                flaws.at(&path, format!("state `{name}`: a condition needs `at_least` or `below`"));
            }
        }
    }

    fn module(&self, name: &str, module: &Module, flaws: &mut Flaws) {
        let what = format!("module `{name}`");
        if let Err((key, reason)) = module.takes() {
            flaws.at(&["modules", name, key], format!("{what}: {reason}"));
        }
        let at = |key: &str| ["modules".to_owned(), name.to_owned(), key.to_owned()];
        for (key, of) in [
            ("lasts", &module.lasts),
            ("gaps", &module.gaps),
            ("talk", &module.talk),
            ("silence", &module.silence),
            ("parsing", &module.parsing),
        ] {
            law(&at(key), of.as_ref(), &what, flaws);
        }
        for (key, of) in [
            ("sizes", &module.sizes),
            ("i", &module.i),
            ("p", &module.p),
            ("b", &module.b),
            ("main", &module.main),
            ("embedded", &module.embedded),
        ] {
            law(&at(key), of.as_ref(), &what, flaws);
            let most = of.as_ref().and_then(|of| of.law().ok()).map_or(0.0, |law| law.bounds().1);
            if most > BYTES_MAX as f64 {
                flaws.at(
                    &["modules", name, key],
                    format!("{what}: sizes have a `max` of at most 64MiB, and `truncate`"),
                );
            }
        }
        law(&at("objects"), module.objects.as_ref(), &what, flaws);
        if module.objects.is_some() != module.embedded.is_some() && module.kind == Kind::Web {
            flaws.at(&["modules", name], format!("{what}: `objects` and `embedded` go together"));
        }
        self.quantities(name, module, flaws);
        if !self.states.values().any(|state| state.module.as_deref() == Some(name)) {
            flaws.at(&["modules", name], format!("no state uses module `{name}`"));
        }
    }

    fn quantities(&self, name: &str, module: &Module, flaws: &mut Flaws) {
        let mut wrong =
            |key: &str, reason: &str| flaws.at(&["modules", name, key], format!("module `{name}`: {reason}"));
        if module.every.is_some_and(|every| every.as_nanos() < EVERY_MIN) {
            wrong("every", "the shortest interval is 1us");
        }
        if let (Some(jitter), Some(every)) = (module.jitter, module.every) {
            if jitter.max.as_nanos().saturating_mul(2) >= every.as_nanos() {
                wrong("jitter", "`max` must be below half of `every`, so that frames keep their order");
            }
            if jitter.max < jitter.sd || jitter.sd.is_zero() {
                wrong("jitter", "`sd` must be above zero and at most `max`");
            }
        } else if module.jitter.is_some() && module.every.is_none() {
            wrong("jitter", "jitter is around an interval: it needs `every`");
        }
        for (key, size) in [("bytes", module.bytes), ("request", module.request)] {
            if size.is_some_and(|size| size.0 == 0 || size.0 > BYTES_MAX) {
                wrong(key, "a payload has 1B to 64MiB");
            }
        }
        if module.packet.is_some_and(|size| !(32..=65_507).contains(&size.0)) {
            wrong("packet", "a packet carries 32B to 65507B");
        }
        if module.cycle.len() > ROWS_MAX || module.cycle.iter().any(|size| size.0 == 0 || size.0 > BYTES_MAX) {
            wrong("cycle", "at most 90000 payloads of 1B to 64MiB");
        }
        if module.bits.len() > ROWS_MAX || module.bits.iter().any(|bits| *bits > BYTES_MAX * 8) {
            wrong("bits", "at most 90000 rows of at most 64MiB each");
        }
        if !module.bits.is_empty() && module.bits.iter().all(|bits| *bits == 0) {
            wrong("bits", "every row is zero");
        }
        if module.emission.is_some() && module.every.is_none() {
            wrong("emission", "packets are spread over an interval: it needs `every`");
        }
        if let Some((key, reason)) = module.dash_fault().or_else(|| module.gbar_fault()) {
            wrong(key, &reason);
        }
        if module.count == Some(0) {
            wrong("count", "a flow has at least one packet");
        }
        let gop = module.gop.as_deref().unwrap_or_default();
        if let Some(letter) = gop.chars().find(|letter| !matches!(letter, 'I' | 'P' | 'B')) {
            wrong("gop", &format!("`{letter}` is no frame; write I, P and B"));
        }
        if module.gop.is_some() && (gop.is_empty() || gop.len() > 1000) {
            wrong("gop", "a group has 1 to 1000 pictures");
        }
        for (letter, key, there) in
            [('I', "i", module.i.is_some()), ('P', "p", module.p.is_some()), ('B', "b", module.b.is_some())]
        {
            if gop.contains(letter) && !there {
                wrong("gop", &format!("it has {letter} frames, so `{key}` must tell their sizes"));
            }
        }
    }

    fn begin(&self, flaws: &mut Flaws) {
        for name in self.start.keys().filter(|name| !self.states.contains_key(*name)) {
            flaws.at(&["start", name], format!("users cannot begin in `{name}`: there is no such state"));
        }
        if !self.start.is_empty() {
            let shares: Vec<f64> = self.start.values().copied().collect();
            sums_to_one(&["start".to_owned()], &shares, "the shares of `start`", flaws);
        }
    }

    /// Names of states that a state leads to.
    fn leads_to<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a str> {
        let likely =
            |to: &'a BTreeMap<String, f64>| to.iter().filter(|(_, share)| **share > 0.0).map(|(name, _)| name.as_str());
        let ends = likely(&state.to).chain(likely(&state.failed)).chain(likely(&state.impatient));
        ends.chain(state.rates.keys().map(String::as_str))
    }

    /// Names of states that are reached from some, these included.
    pub(super) fn reach<'a>(&'a self, from: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let mut open: Vec<&str> = from.into_iter().collect();
        let mut seen: BTreeSet<&str> = open.iter().copied().collect();
        while let Some(name) = open.pop() {
            let Some(state) = self.states.get(name) else { continue };
            for next in self.leads_to(state) {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    }

    /// Sets of states that are never left, each state of which is reached from every other.
    pub(super) fn closed(&self) -> Vec<BTreeSet<&str>> {
        let mut sets: Vec<BTreeSet<&str>> = Vec::new();
        for name in self.states.keys() {
            let from_here = self.reach([name.as_str()]);
            let comes_back = from_here.iter().all(|other| self.reach([*other]).contains(name.as_str()));
            if comes_back && !sets.contains(&from_here) {
                sets.push(from_here);
            }
        }
        sets
    }

    fn ways(&self, flaws: &mut Flaws) {
        let closed = self.closed();
        let reached = if self.start.is_empty() {
            if let [first, second, ..] = &closed[..] {
                let names = |set: &BTreeSet<&str>| set.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                let reason = format!(
                    "users who are in {} never come to {}: give `start`, which tells how many begin where",
                    names(first),
                    names(second)
                );
                return flaws.at(&["states"], reason);
            }
            closed.into_iter().flatten().collect()
        } else {
            self.reach(self.start.iter().filter(|(_, share)| **share > 0.0).map(|(name, _)| name.as_str()))
        };
        for name in self.states.keys().filter(|name| !reached.contains(name.as_str())) {
            flaws.at(&["states", name], format!("state `{name}` is never reached"));
        }
    }
}

fn law<Q: Quantity>(path: &[String; 3], of: Option<&Distribution<Q>>, what: &str, flaws: &mut Flaws) {
    if let Some(Err(why)) = of.map(Distribution::law) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        flaws.at(&path, format!("{what}: `{}`: {why}", path[2]));
    }
}

fn sums_to_one(path: &[String], shares: &[f64], what: &str, flaws: &mut Flaws) {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let Some(bad) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return flaws.at(&path, format!("{what} hold {bad}, which is no probability: it must be from 0 to 1"));
    }
    let sum: f64 = shares.iter().sum();
    if (sum - 1.0).abs() > SUM_SLACK {
        flaws.at(&path, format!("{what} add up to {}, not to 1", (sum * 1e9).round() / 1e9));
    }
}
