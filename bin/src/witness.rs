//! Who looks on at a dry run, when asked for: a pace in real time, a trace of its events, and captures of its links. A run
//! and its digests are the same with them.

use std::fmt::Display;
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::{ActorId, Event, Span, Time};
use rehearsal_scenario::Experiment;
use rehearsal_sim::{Crossing, Witness};

use crate::cli::Virtual;
use crate::exit::UsageError;

mod capture;
mod pace;
mod trace;

use capture::Captures;
use pace::Pace;
use trace::Trace;

/// Every name that a trace or a capture needs.
#[derive(Debug)]
struct Names {
    /// First actor, name of the node, name of the actor, and how many there are: in the order of actors.
    groups: Vec<(u32, String, String, u32)>,
    nodes: Vec<String>,
}

impl Names {
    fn of(assembly: &Assembly) -> Self {
        let nodes: Vec<String> = assembly.plan.nodes.iter().map(|node| node.name.clone()).collect();
        let group =
            |g: &rehearsal_core::assembly::Group| (g.base.0, nodes[g.node].clone(), g.actor.clone(), g.pool.len());
        Names { groups: assembly.groups.iter().map(group).collect(), nodes }
    }

    /// `node/actor-3`.
    fn actor(&self, actor: ActorId) -> String {
        let place = self.groups.partition_point(|group| group.0 <= actor.0).saturating_sub(1);
        let Some((base, node, name, count)) = self.groups.get(place) else { return actor.0.to_string() };
        format!("{node}/{}", rehearsal_core::subject::instance(name, actor.0.saturating_sub(*base), *count))
    }
}

/// What was asked for.
struct Witnesses {
    pace: Option<Pace>,
    trace: Option<Trace>,
    captures: Option<Captures>,
}

impl Witness for Witnesses {
    fn due(&mut self, at: Time) -> Result<(), String> {
        self.pace.as_mut().map_or(Ok(()), |pace| pace.due(at))
    }

    fn event(&mut self, now: Time, actor: ActorId, event: &Event<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.event(now, actor, event);
        }
    }

    fn crossing(&mut self, crossing: &Crossing) {
        if let Some(captures) = &mut self.captures {
            captures.crossing(crossing);
        }
    }

    fn end(&mut self) -> Vec<String> {
        let pace = self.pace.as_ref().map(Pace::end);
        let trace = self.trace.take().map(Trace::end);
        let captures = self.captures.take().map(Captures::end);
        pace.into_iter().chain(trace).chain(captures).collect()
    }
}

/// The time that a flag says; `None` if it was not given.
///
/// # Errors
/// What is wrong with it.
pub fn span(flag: &str, text: Option<&str>) -> Result<Option<Span>> {
    let wrong = |why: &dyn Display| UsageError(format!("--{flag}: {why}; write a time such as 10s"));
    let Some(text) = text else { return Ok(None) };
    let span: Span = text.parse().map_err(|why| wrong(&why))?;
    if span.is_zero() {
        return Err(wrong(&"it is zero").into());
    }
    Ok(Some(span))
}

/// Refuses what cannot be done with these flags.
///
/// # Errors
/// What is wrong with them.
pub fn check(flags: &Virtual, experiment: &Experiment) -> Result<()> {
    if flags.looks_on() && experiment.repetitions > 1 {
        let count = experiment.repetitions;
        let text =
            format!("--pace, --trace and --pcap are of one repetition, and there are {count}; add --repetitions 1");
        return Err(UsageError(text).into());
    }
    if let Some(factor) = flags.pace.filter(|factor| !(0.001..=1000.0).contains(factor)) {
        return Err(UsageError(format!("--pace {factor}: write a number from 0.001 to 1000")).into());
    }
    Ok(())
}

/// Whoever is to look on at a run of `assembly`; `None` if nobody is.
///
/// # Errors
/// When a file cannot be made.
pub fn of(flags: &Virtual, assembly: &Assembly) -> Result<Option<Box<dyn Witness>>> {
    if !flags.looks_on() {
        return Ok(None);
    }
    let names = Arc::new(Names::of(assembly));
    let limit = span("pace-limit", flags.pace_limit.as_deref())?;
    let pace = flags.pace.map(|factor| Pace::new(factor, limit));
    let trace = flags.trace.as_deref().map(|file| Trace::create(file, names.clone())).transpose()?;
    let captures = flags.pcap.as_deref().map(|folder| Captures::create(folder, names)).transpose()?;
    Ok(Some(Box::new(Witnesses { pace, trace, captures })))
}
