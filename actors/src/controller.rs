//! The controller: brings every node to the start line, starts them together, steers the load, and says when it is over.

use std::collections::BTreeMap;

use rehearsal_core::life::{Beat, NodeBack, NodeLost, OnLoss, Rejoin, Stage as Far};
use rehearsal_core::messages::{LifeEvent, NodeDone, Prepare, Ready, StartAt, StopReason, StopRun};
use rehearsal_core::plan::Stop;
use rehearsal_core::steer::Ask;
use rehearsal_core::subject::{HOST, PREFIX, Plane, subject};
use rehearsal_core::{
    Actor, Body, BuildError, Event, GroupContext, Kind, Outbox, Pool, Role, Span, SubjectId, Time, TimerKey, Wiring,
};

use crate::service::{Alone, ServiceParams, check_alone};

mod losing;
mod steering;

use losing::Absent;
use steering::Helm;

/// Wait between two tries to get every node ready.
const ROUND: Span = Span::from_secs(1);
/// Tries before the run is given up. Assumed: longer than any node takes to bind and warm up.
const ROUNDS_MAX: u32 = 30;
/// The one timer: the next try, the start, a steer, or the end, whichever comes next.
const NEXT: TimerKey = TimerKey(0);

/// Runs the experiment.
pub struct Controller;

impl Kind for Controller {
    const NAME: &'static str = "controller";
    const SUMMARY: &'static str = "starts all nodes together and stops the run";
    const ROLE: Role = Role::Service;
    type Params = ServiceParams;

    fn build(_: &ServiceParams, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        check_alone(cx, Self::NAME, Alone::InRun)?;
        let run = &cx.run.run;
        for pattern in ["*.*.ready", "*.host.done", "*.host.beat", "*.host.lost", "*.host.ask"] {
            wiring.subscribe(&format!("{PREFIX}.{run}.ctl.{pattern}"))?;
        }
        // the engines speak there, and what nobody names nobody hears
        for node in &cx.run.nodes {
            wiring.subject(&subject(run, Plane::Control, &node.name, HOST, "beat"))?;
        }
        for verb in ["lost", "ask"] {
            wiring.subject(&subject(run, Plane::Control, cx.node, HOST, verb))?;
        }
        let node = |sends: bool| NodeState { sends, ready: false, done: !sends, absent: None, rejoin: None };
        Ok(Box::new(vec![Conductor {
            node: cx.node.to_owned(),
            actor: cx.actor.to_owned(),
            prepare: wiring.own(Plane::Control, "prepare"),
            start: wiring.own(Plane::Control, "start"),
            stop: wiring.own(Plane::Control, "stop"),
            event: wiring.own(Plane::Telemetry, "event"),
            lead: cx.run.lead,
            ends: cx.run.stop,
            sends: cx.run.nodes.iter().any(|n| n.sends),
            nodes: cx.run.nodes.iter().map(|n| (n.name.clone(), node(n.sends))).collect(),
            stage: Stage::Idle,
            helm: Helm::new(&cx.run.control, wiring),
            on_loss: cx.run.on_loss,
            begun: None,
            next: None,
            round: None,
            armed: None,
        }]))
    }
}

#[derive(Debug)]
struct Conductor {
    node: String,
    actor: String,
    prepare: SubjectId,
    start: SubjectId,
    stop: SubjectId,
    event: SubjectId,
    lead: Span,
    ends: Stop,
    /// Whether any node sends; without senders a count-driven run ends only from outside.
    sends: bool,
    nodes: BTreeMap<String, NodeState>,
    stage: Stage,
    helm: Helm,
    on_loss: OnLoss,
    /// What was said at the start.
    begun: Option<StartAt>,
    /// When the present stage goes on by itself.
    next: Option<Time>,
    /// Tries to get new incarnations ready: the last one's number, and when the next one is.
    round: Option<(u32, Time)>,
    /// What the timer is set for.
    armed: Option<Time>,
}

#[derive(Debug)]
struct NodeState {
    sends: bool,
    ready: bool,
    done: bool,
    /// It is lost.
    absent: Option<Absent>,
    /// What its latest incarnation was told, if that is not the first.
    rejoin: Option<Rejoin>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Preparing {
        round: u32,
    },
    Ready {
        until: Option<Time>,
    },
    Running,
    /// Why, if this controller said so.
    Stopped(Option<StopReason>),
}

impl Conductor {
    fn prepare(&mut self, round: u32, now: Time, out: &mut Outbox) {
        self.stage = Stage::Preparing { round };
        out.publish(self.prepare, Prepare { round });
        // counted from now: each try leaves a whole second for answers
        self.next = Some(now.saturating_add(ROUND));
    }

    fn ready(&mut self, now: Time, out: &mut Outbox) {
        let all = self.nodes.values().all(|n| n.ready || self.does_without(n));
        if !matches!(self.stage, Stage::Preparing { .. }) || !all {
            return;
        }
        let at = now.saturating_add(self.lead);
        let until = match self.ends {
            Stop::AllRequestsDone => None,
            Stop::After(duration) => Some(at.saturating_add(duration)),
        };
        self.stage = Stage::Ready { until };
        let ready = self.nodes.values().filter(|n| n.ready).count();
        self.tell(now, "prepared", format!("{ready} nodes are ready"), out);
        let start = StartAt { at, until };
        out.publish(self.start, start.clone());
        self.begun = Some(start);
        self.helm.announce(at, out);
        self.next = Some(at);
    }

    fn done(&mut self, now: Time, out: &mut Outbox) {
        let traffic = matches!(self.stage, Stage::Ready { .. } | Stage::Running);
        let all = || self.nodes.values().all(|n| n.done || self.does_without(n));
        if traffic && self.ends == Stop::AllRequestsDone && self.sends && all() {
            self.end(now, StopReason::Done, out);
        }
    }

    fn next(&mut self, now: Time, out: &mut Outbox) {
        self.next = None;
        match self.stage {
            Stage::Preparing { round } if round < ROUNDS_MAX => self.prepare(round + 1, now, out),
            Stage::Preparing { .. } => self.end(now, StopReason::NotReady, out),
            Stage::Ready { until } => {
                self.stage = Stage::Running;
                self.tell(now, "started", "traffic begins".to_owned(), out);
                self.next = until;
            }
            Stage::Running => self.end(now, StopReason::Duration, out),
            Stage::Idle | Stage::Stopped(_) => {}
        }
    }

    fn end(&mut self, now: Time, reason: StopReason, out: &mut Outbox) {
        let text = match reason {
            StopReason::Done => "all requests are done".to_owned(),
            StopReason::Duration => "the duration is over".to_owned(),
            StopReason::Planned => "the experiment's own control ends it".to_owned(),
            StopReason::Threshold => "a threshold did not hold".to_owned(),
            StopReason::Interrupted => "stopped from outside".to_owned(),
            StopReason::Fault => "stopped by a fault".to_owned(),
            StopReason::NotReady => {
                let missing: Vec<&str> = self.nodes.iter().filter(|(_, n)| !n.ready).map(|(name, _)| &**name).collect();
                format!("not ready after {ROUNDS_MAX} tries: {}", missing.join(", "))
            }
        };
        self.stage = Stage::Stopped(Some(reason));
        self.tell(now, "stopped", text, out);
        out.publish(self.stop, StopRun { reason });
        self.rest(out);
    }

    /// Nothing comes by itself any more.
    fn rest(&mut self, out: &mut Outbox) {
        (self.next, self.round, self.armed) = (None, None, None);
        out.cancel_timer(NEXT);
    }

    fn tell(&self, at: Time, kind: &str, text: String, out: &mut Outbox) {
        let (node, actor) = (self.node.clone(), self.actor.clone());
        out.publish(self.event, LifeEvent { at, kind: kind.to_owned(), node, actor, text, ..LifeEvent::default() });
    }

    fn hear(&mut self, now: Time, body: &Body, out: &mut Outbox) {
        if let Ok(ready) = body.get::<Ready>() {
            if let Some(node) = self.nodes.get_mut(&ready.node) {
                node.ready = true;
            }
            self.welcome(&ready.node, now, out);
            self.ready(now, out);
        } else if let Ok(done) = body.get::<NodeDone>() {
            self.node_done(&done.node, now, out);
        } else if let Ok(beat) = body.get::<Beat>() {
            self.beat(&beat, now, out);
        } else if let Ok(ask) = body.get::<Ask>() {
            self.asked(&ask, now, out);
        } else if let Ok(lost) = body.get::<NodeLost>() {
            self.lost(lost.into_owned(), now, out);
        } else if let Ok(back) = body.get::<NodeBack>() {
            self.back(&back.node);
        }
    }

    fn node_done(&mut self, node: &str, now: Time, out: &mut Outbox) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.done = true;
        }
        self.done(now, out);
    }

    /// A node tells how far it is; what it has missed is said again.
    fn beat(&mut self, beat: &Beat, now: Time, out: &mut Outbox) {
        if self.nodes.get(&beat.node).is_none_or(|node| node.absent.is_some()) {
            return;
        }
        let stage = self.stage;
        if beat.done {
            self.node_done(&beat.node, now, out);
        }
        match (stage, beat.stage) {
            (Stage::Ready { .. } | Stage::Running, Far::Waiting) => self.start_again(beat, now, out),
            (Stage::Stopped(Some(reason)), Far::Waiting | Far::Running) => out.publish(self.stop, StopRun { reason }),
            _ => {}
        }
    }

    /// Everything that is due by now, in the order of its importance.
    fn turn(&mut self, now: Time, out: &mut Outbox) {
        self.armed = None;
        self.prepare_absent(now, out);
        if self.next.is_some_and(|at| at <= now) {
            self.next(now, out);
        }
        self.cue(now, out);
    }

    /// Sets the timer for what comes next, if that is news.
    fn arm(&mut self, out: &mut Outbox) {
        let steer = if self.begun.is_some() { self.helm.next() } else { None };
        let next = [self.next, steer, self.round.map(|(_, at)| at)].into_iter().flatten().min();
        let stopped = matches!(self.stage, Stage::Stopped(_));
        if let Some(at) = next.filter(|at| !stopped && self.armed != Some(*at)) {
            self.armed = Some(at);
            out.set_timer(NEXT, at);
        }
    }
}

impl Actor for Conductor {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                self.prepare(1, now, out);
                self.ready(now, out);
            }
            Event::Message { body, .. } => self.hear(now, body, out),
            Event::Timer { .. } => self.turn(now, out),
            Event::Stop if !matches!(self.stage, Stage::Stopped(_)) => {
                self.stage = Stage::Stopped(None);
                self.tell(now, "stopped", "stopped from outside".to_owned(), out);
                self.rest(out);
            }
            _ => {}
        }
        self.arm(out);
    }
}

#[cfg(test)]
mod tests;
