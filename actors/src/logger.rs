//! The logger: says that its node is ready, and reports each second until somebody has stored it.

use std::collections::VecDeque;

use rehearsal_core::messages::{GroupSnapshot, HostSample, NodeReport, Prepare, Ready, ReportAck, Scope};
use rehearsal_core::subject::{HOST, PREFIX, Plane, subject};
use rehearsal_core::{
    Actor, Body, BuildError, Event, GroupContext, Kind, MetricId, Outbox, Pool, Role, Span, SubjectId, Time, TimerKey,
    Wiring,
};

use crate::service::{Alone, ServiceParams, check_alone};

/// Reports kept until they are acknowledged: ten minutes of them.
pub const REPORTS_MAX: usize = 600;
/// Snapshots kept for the next report.
const SNAPSHOTS_MAX: usize = 4096;
/// Samples of the process and the machine kept for the next report: one of each is told a second.
const AROUND_MAX: usize = 2;
/// A report without an answer is sent again after this time.
const RESEND_AFTER: Span = Span::from_secs(2);
/// Wait between two looks at what is unanswered.
const RESEND_EVERY: Span = Span::from_secs(1);
/// Reports sent again at one look, the oldest first: an aggregator that comes back is not buried.
const RESEND_AT_ONCE: usize = 32;
/// The one timer.
const LOOK: TimerKey = TimerKey(0);

/// Reports what its node did.
pub struct Logger;

impl Kind for Logger {
    const NAME: &'static str = "logger";
    const SUMMARY: &'static str = "reports each second what its node did";
    const ROLE: Role = Role::Service;
    type Params = ServiceParams;

    fn build(_: &ServiceParams, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        check_alone(cx, Self::NAME, Alone::InNode)?;
        let (run, node) = (&cx.run.run, cx.node);
        wiring.subscribe(&format!("{PREFIX}.{run}.ctl.*.*.prepare"))?;
        wiring.subscribe(&format!("{PREFIX}.{run}.ctl.*.*.ack"))?;
        wiring.subscribe(&format!("{PREFIX}.{run}.tel.{node}.*.snapshot"))?;
        wiring.subscribe(&subject(run, Plane::Telemetry, node, HOST, ""))?;
        Ok(Box::new(vec![Scribe {
            node: node.to_owned(),
            ready: wiring.own(Plane::Control, "ready"),
            report: wiring.own(Plane::Telemetry, "report"),
            snapshots_dropped: wiring.metric("snapshots_dropped"),
            reports_dropped: wiring.metric("reports_dropped"),
            reports_resent: wiring.metric("reports_resent"),
            snapshots: VecDeque::new(),
            around: Vec::new(),
            open: VecDeque::new(),
            dropped: 0,
            looking: false,
        }]))
    }
}

#[derive(Debug)]
struct Scribe {
    node: String,
    ready: SubjectId,
    report: SubjectId,
    snapshots_dropped: MetricId,
    reports_dropped: MetricId,
    reports_resent: MetricId,
    /// Since the last report.
    snapshots: VecDeque<GroupSnapshot>,
    /// Since the last report.
    around: Vec<HostSample>,
    /// Not acknowledged, the oldest first.
    open: VecDeque<Open>,
    dropped: u64,
    looking: bool,
}

#[derive(Debug)]
struct Open {
    report: NodeReport,
    sent: Time,
}

impl Scribe {
    fn hear(&mut self, now: Time, body: &Body, out: &mut Outbox) {
        if let Ok(snapshot) = body.get::<GroupSnapshot>() {
            self.snapshot(snapshot.into_owned(), out);
        } else if let Ok(sample) = body.get::<HostSample>() {
            if sample.scope != Scope::Node {
                self.around(sample.into_owned());
            } else if sample.node == self.node {
                self.report(now, sample.into_owned(), out);
            }
        } else if let Ok(ack) = body.get::<ReportAck>() {
            if ack.node == self.node {
                self.open.retain(|open| open.report.second != ack.second);
            }
        } else if body.get::<Prepare>().is_ok() {
            out.publish(self.ready, Ready { node: self.node.clone() });
        }
    }

    fn snapshot(&mut self, snapshot: GroupSnapshot, out: &mut Outbox) {
        if self.snapshots.len() == SNAPSHOTS_MAX {
            self.snapshots.pop_front();
            out.count(self.snapshots_dropped, 1);
        }
        self.snapshots.push_back(snapshot);
    }

    /// The process and the machine are told before the node that speaks for them.
    fn around(&mut self, sample: HostSample) {
        if self.around.len() < AROUND_MAX {
            self.around.push(sample);
        }
    }

    fn report(&mut self, now: Time, sample: HostSample, out: &mut Outbox) {
        if self.open.len() == REPORTS_MAX {
            self.open.pop_front();
            self.dropped += 1;
            out.count(self.reports_dropped, 1);
        }
        let report = NodeReport {
            node: self.node.clone(),
            second: sample.second,
            host: Some(sample),
            around: std::mem::take(&mut self.around),
            groups: self.snapshots.drain(..).collect(),
            dropped: self.dropped,
            ..NodeReport::default()
        };
        out.publish(self.report, report.clone());
        self.open.push_back(Open { report, sent: now });
        if !self.looking {
            self.looking = true;
            out.set_timer(LOOK, now.saturating_add(RESEND_EVERY));
        }
    }

    fn look(&mut self, now: Time, out: &mut Outbox) {
        let late = self.open.iter_mut().filter(|open| now.since(open.sent) >= RESEND_AFTER).take(RESEND_AT_ONCE);
        for open in late {
            open.sent = now;
            out.publish(self.report, open.report.clone());
            out.count(self.reports_resent, 1);
        }
        self.looking = !self.open.is_empty();
        if self.looking {
            // no schedule of traffic: looks that were missed are not made up for
            out.set_timer(LOOK, now.saturating_add(RESEND_EVERY));
        }
    }
}

impl Actor for Scribe {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => self.hear(now, body, out),
            Event::Timer { .. } => self.look(now, out),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Command;
    use rehearsal_core::parts::tally::Tally;

    use super::*;
    use crate::testing::{Experiment, Stage, at};

    fn stage() -> Stage {
        Experiment::default().build::<Logger>(&ServiceParams {}).expect("it builds")
    }

    fn snapshot(actor: &str, second: u32) -> GroupSnapshot {
        GroupSnapshot {
            node: "lab".into(),
            actor: actor.into(),
            kind: "sensor".into(),
            instances: 1,
            second,
            totals: Tally { generated: u64::from(second) * 10, ..Tally::default() },
            queue_length: 0,
            histograms: Vec::new(),
            counts: Vec::new(),
            requests: None,
        }
    }

    fn sample(second: u32) -> HostSample {
        HostSample { node: "lab".into(), second, cpu_percent: Some(12.5), ..HostSample::default() }
    }

    fn ack(second: u32) -> ReportAck {
        ReportAck { node: "lab".into(), second }
    }

    fn look(stage: &mut Stage, now: u64) -> Vec<Command> {
        stage.tell(at(now), Event::Timer { key: LOOK, due: at(now) })
    }

    fn set(wishes: &[Command]) -> Vec<Time> {
        wishes.iter().filter_map(|w| if let Command::SetTimer { at, .. } = w { Some(*at) } else { None }).collect()
    }

    fn seconds(stage: &Stage, wishes: &[Command]) -> Vec<u32> {
        stage.published::<NodeReport>(wishes).into_iter().map(|(_, report)| report.second).collect()
    }

    #[test]
    fn it_answers_every_call_to_be_ready() {
        let mut stage = stage();
        for round in 1..3 {
            let wishes = stage.say(at(1), Prepare { round });
            let ready = ("lab.v1.r1.ctl.lab.main.ready".to_owned(), Ready { node: "lab".into() });
            assert_eq!(stage.published(&wishes), [ready]);
        }
    }

    #[test]
    fn a_report_holds_the_second_of_its_node() {
        let mut stage = stage();
        assert_eq!(stage.say(at(1000), snapshot("main", 0)), []);
        assert_eq!(stage.say_wire(at(1000), snapshot("other", 0)), []);
        let foreign = HostSample { node: "receiver".into(), ..sample(0) };
        assert_eq!(stage.say(at(1000), foreign), []);
        let wishes = stage.say_wire(at(1001), sample(0));
        let report = NodeReport {
            node: "lab".into(),
            second: 0,
            host: Some(sample(0)),
            groups: vec![snapshot("main", 0), snapshot("other", 0)],
            ..NodeReport::default()
        };
        assert_eq!(stage.published(&wishes), [("lab.v1.r1.tel.lab.main.report".to_owned(), report)]);
        let wishes = stage.say(at(2001), sample(1));
        assert_eq!(stage.published::<NodeReport>(&wishes)[0].1.groups, [], "each snapshot once");
    }

    #[test]
    fn what_is_around_the_node_is_reported_with_its_second() {
        let mut stage = stage();
        let [process, machine] = [Scope::Process, Scope::Machine].map(|scope| HostSample::of(scope, "box", 0));
        for around in [&process, &machine, &machine] {
            assert_eq!(stage.say_wire(at(1000), around.clone()), []);
        }
        let wishes = stage.say(at(1001), sample(0));
        assert_eq!(stage.published::<NodeReport>(&wishes)[0].1.around, [process, machine], "two at most");
        let wishes = stage.say(at(2001), sample(1));
        assert_eq!(stage.published::<NodeReport>(&wishes)[0].1.around, [], "each once");
    }

    #[test]
    fn a_report_is_sent_again_until_it_is_acknowledged() {
        let mut stage = stage();
        assert_eq!(set(&stage.say(at(0), sample(0))), [at(1000)]);
        assert_eq!(set(&stage.say(at(1000), sample(1))), [], "the timer is set already");
        let wishes = look(&mut stage, 1000);
        assert_eq!((seconds(&stage, &wishes), set(&wishes)), (vec![], vec![at(2000)]));
        let wishes = look(&mut stage, 2000);
        assert_eq!(seconds(&stage, &wishes), [0]);
        assert_eq!(stage.counted(&wishes, "reports_resent"), 1);
        stage.say(at(2500), ReportAck { node: "receiver".into(), ..ack(0) });
        stage.say_wire(at(2500), ack(0));
        let wishes = look(&mut stage, 3000);
        assert_eq!(seconds(&stage, &wishes), [1]);
        stage.say(at(3001), ack(1));
        stage.say(at(3001), ack(1));
        assert_eq!(look(&mut stage, 4000), [], "nothing is open: the timer rests");
        assert_eq!(set(&stage.say(at(5000), sample(5))), [at(6000)], "and is set again when it is needed");
    }

    #[test]
    fn a_late_look_does_not_make_up_for_missed_ones() {
        let mut stage = stage();
        stage.say(at(0), sample(0));
        let wishes = stage.tell(at(9500), Event::Timer { key: LOOK, due: at(1000) });
        assert_eq!((seconds(&stage, &wishes), set(&wishes)), (vec![0], vec![at(10_500)]));
    }

    #[test]
    fn without_an_aggregator_memory_is_bounded_and_the_loss_is_told() {
        let mut stage = stage();
        let mut dropped = 0;
        for second in 0..650 {
            let wishes = stage.say(at(u64::from(second)), sample(second));
            dropped += stage.counted(&wishes, "reports_dropped");
            let told = stage.published::<NodeReport>(&wishes)[0].1.dropped;
            assert_eq!(told, u64::from(second.saturating_sub(599)));
        }
        assert_eq!(dropped, 50);
        let wishes = look(&mut stage, 10_000);
        assert_eq!(seconds(&stage, &wishes), (50..82).collect::<Vec<_>>(), "the oldest 32 of those that are left");
        let wishes = look(&mut stage, 11_000);
        assert_eq!(seconds(&stage, &wishes), (82..114).collect::<Vec<_>>());
    }

    #[test]
    fn without_samples_snapshots_are_bounded_too() {
        let mut stage = stage();
        let dropped: u64 = (0..4100)
            .map(|second| {
                let wishes = stage.say(at(0), snapshot("main", second));
                stage.counted(&wishes, "snapshots_dropped")
            })
            .sum();
        assert_eq!(dropped, 4);
        let wishes = stage.say(at(1), sample(4100));
        let report = &stage.published::<NodeReport>(&wishes)[0].1;
        assert_eq!((report.groups.len(), report.groups[0].second), (4096, 4));
    }

    #[test]
    fn it_hears_its_own_node() {
        let mut stage = stage();
        for (subject, heard) in [
            ("lab.v1.r1.ctl.services.controller.prepare", true),
            ("lab.v1.r1.ctl.services.aggregator.ack", true),
            ("lab.v1.r1.tel.lab.main.snapshot", true),
            ("lab.v1.r1.tel.lab.host", true),
            ("lab.v1.r1.tel.receiver.main.snapshot", false),
            ("lab.v1.r1.tel.receiver.host", false),
        ] {
            assert_eq!(stage.hears(subject), heard, "{subject}");
        }
        let second = Experiment { first: 1, ..Experiment::default() };
        assert!(second.build::<Logger>(&ServiceParams {}).is_ok(), "one in each instance of a node");
        let two = Experiment { count: 2, ..Experiment::default() };
        assert_eq!(two.refusal::<Logger>(&ServiceParams {}).0, Some("count"));
    }
}
