//! The helm: what the experiment file has planned for the load, and what somebody who watches asks for.

use rehearsal_core::messages::StopReason;
use rehearsal_core::steer::{Answer, Ask, PlannedSteer, STEER_LEAD, STEERS_MAX, Steer, Steering, Steers, is_for};
use rehearsal_core::subject::Plane;
use rehearsal_core::{Outbox, SubjectId, Time, Wiring};

use super::{Conductor, Stage};

/// The steers of a run.
#[derive(Debug)]
pub(super) struct Helm {
    steer: SubjectId,
    answer: SubjectId,
    planned: Vec<PlannedSteer>,
    /// All that were said.
    steers: Steers,
    /// Counts them.
    number: u32,
}

impl Helm {
    pub(super) fn new(planned: &[PlannedSteer], wiring: &mut dyn Wiring) -> Self {
        Helm {
            steer: wiring.own(Plane::Control, "steer"),
            answer: wiring.own(Plane::Control, "answer"),
            planned: planned.to_vec(),
            steers: Steers::default(),
            number: 0,
        }
    }

    /// It is known when traffic begins, and with it when everything that is planned takes effect.
    pub(super) fn announce(&mut self, start: Time, out: &mut Outbox) {
        for planned in std::mem::take(&mut self.planned) {
            self.say(start.saturating_add(planned.at), planned.node, planned.step, out);
        }
    }

    /// When the next one takes effect.
    pub(super) fn next(&self) -> Option<Time> {
        self.steers.next_at()
    }

    /// Says all again, to somebody new.
    pub(super) fn repeat(&self, out: &mut Outbox) {
        for steer in self.steers.all() {
            out.publish(self.steer, steer.clone());
        }
    }

    fn say(&mut self, at: Time, node: Option<String>, step: Steering, out: &mut Outbox) {
        let steer = Steer { number: self.number, at, node, step };
        self.number += 1;
        out.publish(self.steer, steer.clone());
        self.steers.learn(steer);
    }

    fn is_full(&self) -> bool {
        self.steers.all().len() >= STEERS_MAX
    }
}

/// The end of all senders is the end of the run. They know of it ahead, so that no schedule goes on while it is said.
fn ends_run(steer: &Steer) -> bool {
    steer.node.is_none() && steer.step == Steering::Stop
}

impl Conductor {
    /// Steers that take effect now: said once more, and told as events.
    pub(super) fn cue(&mut self, now: Time, out: &mut Outbox) {
        while let Some(steer) = self.helm.steers.take(now) {
            if matches!(self.stage, Stage::Stopped(_)) {
                continue;
            }
            if ends_run(&steer) {
                self.end(now, StopReason::Planned, out);
                continue;
            }
            out.publish(self.helm.steer, steer.clone());
            let (kind, text) = told(&steer);
            self.tell(steer.at, kind, text, out);
        }
    }

    /// Somebody who watches wants something, or to know how the run stands.
    pub(super) fn asked(&mut self, ask: &Ask, now: Time, out: &mut Outbox) {
        let (accepted, text) = match self.decide(ask, now, out) {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        out.publish(self.helm.answer, Answer { id: ask.id, accepted, text });
    }

    fn decide(&mut self, ask: &Ask, now: Time, out: &mut Outbox) -> Result<String, String> {
        let Some(step) = ask.step else { return Ok(self.standing(now)) };
        let start = match (self.stage, &self.begun) {
            (Stage::Stopped(_), _) => return Err("the run is stopping".to_owned()),
            (_, Some(start)) => start.at,
            _ if step == Steering::Stop && ask.node.is_none() => now,
            _ => return Err("traffic has not begun: not every node is ready".to_owned()),
        };
        if let Steering::Factor(factor) = step
            && !(factor.is_finite() && factor > 0.0)
        {
            return Err(format!("a factor is above zero, not {factor}; to send nothing, `pause`"));
        }
        if let Some(name) = &ask.node
            && !self.nodes.keys().any(|node| is_for(name, node))
        {
            let known: Vec<&str> = self.nodes.keys().map(String::as_str).take(20).collect();
            return Err(format!("there is no node `{name}`; there are {}", known.join(", ")));
        }
        if self.helm.is_full() {
            return Err(format!("a run is steered at most {STEERS_MAX} times"));
        }
        if step == Steering::Stop && ask.node.is_none() {
            self.end(now, StopReason::Interrupted, out);
            return Ok("stopping: what is under way may end".to_owned());
        }
        let at = now.saturating_add(STEER_LEAD).max(start);
        self.helm.say(at, ask.node.clone(), step, out);
        let steer = Steer { number: 0, at, node: ask.node.clone(), step };
        Ok(format!("{} from {:.1} s of the run on", told(&steer).1, at.since(start).as_secs_f64()))
    }

    fn standing(&self, now: Time) -> String {
        let seconds = self.begun.as_ref().map_or(0.0, |start| now.since(start.at).as_secs_f64());
        let stage = match self.stage {
            Stage::Idle | Stage::Preparing { .. } => "waits until every node is ready".to_owned(),
            Stage::Ready { .. } => "is about to begin".to_owned(),
            Stage::Running => format!("runs for {seconds:.1} s"),
            Stage::Stopped(_) => format!("stops after {seconds:.1} s"),
        };
        let past = || self.helm.steers.past().iter().filter(|steer| steer.node.is_none());
        let paused = past().rev().find(|s| matches!(s.step, Steering::Pause | Steering::Resume));
        let paused = if paused.is_some_and(|s| s.step == Steering::Pause) { ", paused" } else { "" };
        let rate = past().rev().find(|s| matches!(s.step, Steering::Factor(_) | Steering::Rate(_)));
        let rate = rate.map(|steer| format!(", {}", told(steer).1)).unwrap_or_default();
        let absent: Vec<&str> =
            self.nodes.iter().filter(|(_, n)| n.absent.is_some()).map(|(name, _)| &**name).take(20).collect();
        let absent = if absent.is_empty() { String::new() } else { format!(", without {}", absent.join(", ")) };
        format!("{stage}{paused}{rate}{absent}")
    }
}

/// The event that a steer is: its kind, and its text.
fn told(steer: &Steer) -> (&'static str, String) {
    let who = steer.node.as_deref().map_or(String::new(), |node| format!("{node}: "));
    let (kind, text) = match steer.step {
        Steering::Pause => ("paused", "nothing new is sent".to_owned()),
        Steering::Resume => ("resumed", "traffic goes on".to_owned()),
        Steering::Factor(factor) => ("rate-changed", format!("{factor} times the rate of the experiment file")),
        Steering::Rate(rate) => ("rate-changed", format!("{rate} for each stream")),
        Steering::Stop => ("senders-stopped", "its senders end".to_owned()),
    };
    (kind, who + &text)
}
