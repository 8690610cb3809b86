//! The flow: datagrams of one size at a rate too high to be an event each. The engine sends them by a schedule of its own,
//! in either engine the same, and reports each second.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rehearsal_core::flow::{Arrivals, FlowReport, FlowSchedule, FlowSet, FlowSpec};
use rehearsal_core::kind::Weight;
use rehearsal_core::life::{Rejoin, Word};
use rehearsal_core::messages::StartAt;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::plan::Carrier;
use rehearsal_core::steer::{Steer, Steering};
use rehearsal_core::units::{ByteSize, Rate};
use rehearsal_core::{
    Actor, BuildError, Event, FlowId, GroupContext, Kind, MetricId, Outbox, Pool, Recipe, RecipeId, RngStream, Role,
    Span, SubjectId, Time, Wiring,
};
use rehearsal_models::SourceSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends datagrams at speed.
pub struct Flow;

/// The flow's own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowParams {
    /// Payload of each datagram.
    pub bytes: ByteSize,
    /// The gaps between departures at `rate`, which each stream has for itself.
    pub gaps: Gaps,
}

/// The law of the gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gaps {
    /// All the same.
    #[default]
    Even,
    /// Independent and exponential: a Poisson process.
    Exponential,
}

impl Default for FlowParams {
    /// Assumed: 1 kB fits every frame.
    fn default() -> Self {
        FlowParams { bytes: ByteSize(1000), gaps: Gaps::Even }
    }
}

impl Kind for Flow {
    const NAME: &'static str = "flow";
    const SUMMARY: &'static str = "sends datagrams of one size at a high rate, which the engine paces";
    const ROLE: Role = Role::Sender;
    type Params = FlowParams;

    fn build(params: &FlowParams, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        let recipe = wiring.recipe(Arc::new(Filling::of(params.bytes.0 as usize)));
        let spec = SourceSpec::new(cx, wiring, recipe)?;
        spec.check_bytes("bytes", params.bytes.0, params.bytes.0)?;
        wiring.weight(Weight::of(params.bytes.0 as f64, params.bytes.0));
        let sender = cx.sender.ok_or_else(|| BuildError::of("to", "a sender needs to know where to"))?;
        let targets = wiring.target(&sender.to)?;
        if targets.exchange || targets.carrier != Carrier::Udp {
            let reason = "a flow is one-way datagrams: its link needs `carrier = \"udp\"` and no `mode`";
            return Err(BuildError::of("to", reason));
        }
        let Some(rate) = sender.rate else {
            return Err(BuildError::of(
                "rate",
                "a flow has an even rate or exponential gaps: give `rate`, not `arrivals`",
            ));
        };
        if sender.malformed.0 > 0.0 {
            return Err(BuildError::of("malformed", "nobody looks at what datagrams hold; leave it out"));
        }
        let stream = |member: u32, stream: u32, wiring: &dyn Wiring| Stream {
            to: targets.base.member((member * sender.streams + stream) % targets.len),
            phase: Span::from_nanos(wiring.rng(member, stream, "phase").below(rate.gap().as_nanos())),
            rng: wiring.rng(member, stream, "flow"),
        };
        let member = |member: u32| Member {
            node: cx.node.to_owned(),
            streams: (0..sender.streams).map(|s| stream(member, s, wiring)).collect(),
            rate,
            gaps: params.gaps,
            limit: sender.requests.unwrap_or(u64::MAX),
            bytes: params.bytes.0 as u32,
            recipe,
            begun: false,
            ended: 0,
            steered: Vec::new(),
        };
        Ok(Box::new(cx.members.clone().map(member).collect::<Vec<_>>()))
    }
}

/// One flowing actor.
#[derive(Debug)]
struct Member {
    node: String,
    streams: Box<[Stream]>,
    rate: Rate,
    gaps: Gaps,
    limit: u64,
    bytes: u32,
    recipe: RecipeId,
    begun: bool,
    ended: u32,
    /// Steers that it has acted on; at most as many as a run has.
    steered: Vec<u32>,
}

#[derive(Debug)]
struct Stream {
    to: SubjectId,
    phase: Span,
    rng: RngStream,
}

impl Member {
    fn begin(&mut self, start: &StartAt, again: Option<&Rejoin>, out: &mut Outbox) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let mut away = 0;
        for number in 0..self.streams.len() as u32 {
            let spec = self.flow(number, start, again);
            if let Some(again) = again {
                away += missed(&spec, again.known_until);
            }
            out.flow(spec);
        }
        if away > 0 {
            out.count(MetricId::AWAY, away);
        }
    }

    fn flow(&self, number: u32, start: &StartAt, again: Option<&Rejoin>) -> FlowSpec {
        let stream = &self.streams[number as usize];
        FlowSpec {
            flow: FlowId(number),
            to: stream.to,
            stream: number,
            recipe: self.recipe,
            bytes: self.bytes,
            arrivals: match self.gaps {
                Gaps::Even => Arrivals::Constant(self.rate),
                Gaps::Exponential => Arrivals::Poisson(self.rate),
            },
            from: start.at.saturating_add(stream.phase),
            after: again.map_or(Time::ZERO, |again| again.from),
            until: start.until.unwrap_or(Time::MAX),
            limit: self.limit,
            rng: stream.rng.clone(),
        }
    }

    /// A steer acts when it is due, at the datagram that the engine is at: who knows of it ahead waits.
    fn steered(&mut self, now: Time, steer: &Steer, out: &mut Outbox) {
        if !steer.is_for(&self.node) || steer.at > now || self.steered.contains(&steer.number) {
            return;
        }
        self.steered.push(steer.number);
        let set = match steer.step {
            Steering::Pause => FlowSet::Pause,
            Steering::Resume => FlowSet::Resume,
            Steering::Stop => FlowSet::Stop,
            Steering::Rate(rate) => FlowSet::Rate(rate),
            // a factor beyond what a rate can be was refused by whoever said it
            Steering::Factor(factor) => match self.rate.scaled(factor) {
                Ok(rate) => FlowSet::Rate(rate),
                Err(_) => return,
            },
        };
        for number in 0..self.streams.len() as u32 {
            out.set_flow(FlowId(number), set);
        }
    }

    fn reported(&mut self, report: &FlowReport, out: &mut Outbox) {
        self.ended += u32::from(report.ended);
        if report.ended && self.ended == self.streams.len() as u32 {
            out.finish();
        }
    }
}

/// Departures since `known`, up to where a flow begins that was lost meanwhile.
fn missed(spec: &FlowSpec, known: Time) -> u64 {
    let mut schedule = FlowSchedule::new(&FlowSpec { after: known, ..spec.clone() });
    let before = std::iter::from_fn(|| schedule.advance()).take_while(|(_, at)| *at < spec.after);
    before.count() as u64
}

impl Actor for Member {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => match Word::read(body, &self.node) {
                Some(Word::Begin(start, again)) => self.begin(&start, again.as_deref(), out),
                Some(Word::Steer(steer)) => self.steered(now, &steer, out),
                None => {}
            },
            Event::FlowReport(report) => self.reported(report, out),
            _ => {}
        }
    }
}

/// Bytes that are the same in each datagram, but for the header over the first of them.
#[derive(Debug)]
struct Filling(Bytes);

impl Filling {
    fn of(bytes: usize) -> Self {
        Filling(Bytes::from_iter((0..bytes).map(|n| n as u8)))
    }
}

impl Recipe for Filling {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        out.extend_from_slice(&self.0[..cx.bytes as usize]);
    }

    fn shared(&self, _: u64) -> Option<Bytes> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Command;
    use rehearsal_core::plan::{DatagramMode, LinkSpec};
    use rehearsal_core::sender::SenderParams;

    use super::*;
    use crate::testing::{Experiment, Stage, at, sender};

    fn params() -> SenderParams {
        SenderParams { rate: Some(Rate::per_second(2_000_000)), streams: 2, requests: Some(50), ..sender() }
    }

    fn build(sender: SenderParams, link: LinkSpec) -> Stage {
        let experiment = Experiment { sender: Some(sender), link, ..Experiment::default() };
        experiment.build::<Flow>(&FlowParams::default()).expect("it builds")
    }

    fn udp() -> LinkSpec {
        LinkSpec { carrier: Carrier::Udp, ..LinkSpec::default() }
    }

    #[test]
    fn each_stream_is_a_flow_and_all_are_done_when_the_last_has_ended() {
        let mut stage = build(params(), udp());
        let wishes = stage.say(at(0), StartAt { at: at(1000), until: Some(at(3000)) });
        let flows: Vec<&FlowSpec> = wishes
            .iter()
            .map(|wish| match wish {
                Command::Flow(spec) => &**spec,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            flows.iter().map(|f| (f.stream, f.bytes, f.limit)).collect::<Vec<_>>(),
            [(0, 1000, 50), (1, 1000, 50)]
        );
        for flow in &flows {
            assert!(flow.from >= at(1000) && flow.from < at(1000) + Span::from_nanos(500), "within one gap");
            assert_eq!(flow.until, at(3000));
        }
        assert_eq!(stage.say(at(1), StartAt { at: at(1000), until: None }), [], "it begins once");
        let report = |flow| FlowReport { flow: FlowId(flow), sent: 50, bytes: 50_000, skipped: 0, ended: true };
        assert_eq!(stage.tell(at(3000), Event::FlowReport(&report(0))), []);
        assert_eq!(stage.tell(at(3000), Event::FlowReport(&report(1))), [Command::Finished]);
    }

    #[test]
    fn a_steer_acts_once_and_when_it_is_due() {
        let mut stage = build(params(), udp());
        stage.say(at(0), StartAt { at: at(1000), until: None });
        let steer = Steer { number: 4, at: at(2000), node: None, step: Steering::Factor(0.5) };
        assert_eq!(stage.say(at(1500), steer.clone()), [], "said ahead");
        let micro = Rate::new(1, Span::from_micros(1)).expect("a million in a second");
        let wanted: Vec<Command> =
            (0..2).map(|n| Command::FlowSet { flow: FlowId(n), set: FlowSet::Rate(micro) }).collect();
        assert_eq!(stage.say(at(2000), steer.clone()), wanted);
        assert_eq!(stage.say(at(2001), steer), [], "and once more");
        let other = Steer { number: 5, at: at(0), node: Some("elsewhere".to_owned()), step: Steering::Stop };
        assert_eq!(stage.say(at(2002), other), []);
    }

    #[test]
    fn one_that_comes_back_goes_on_and_counts_what_it_missed() {
        let sender =
            SenderParams { rate: Some(Rate::per_second(1000)), streams: 1, requests: Some(100_000), ..sender() };
        let mut stage = build(sender, udp());
        let again = Rejoin {
            node: "lab".to_owned(),
            at: at(1000),
            until: Some(at(9000)),
            known_until: at(2000),
            from: at(4000),
            generated: Default::default(),
        };
        let wishes = stage.say(at(4000), again);
        assert!(matches!(&wishes[0], Command::Flow(spec) if spec.after == at(4000)), "{wishes:?}");
        assert_eq!(wishes[1], Command::Count { metric: MetricId::AWAY, by: 2000 });
    }

    #[test]
    fn what_is_no_flow_is_refused() {
        let refused = |sender: SenderParams, link: LinkSpec, bytes: u64| {
            let experiment = Experiment { sender: Some(sender), link, ..Experiment::default() };
            experiment
                .refusal::<Flow>(&FlowParams { bytes: ByteSize(bytes), ..FlowParams::default() })
                .0
                .expect("a key")
        };
        assert_eq!(refused(params(), LinkSpec::default(), 1000), "to");
        assert_eq!(refused(params(), LinkSpec { mode: DatagramMode::Echo, ..udp() }, 1000), "to");
        assert_eq!(refused(SenderParams { rate: None, ..params() }, udp(), 1000), "rate");
        assert_eq!(refused(params(), udp(), 31), "bytes");
        assert_eq!(refused(params(), udp(), 65_508), "bytes");
    }
}
