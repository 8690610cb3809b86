//! Datagrams and flows over UDP: what is sent is what arrives or is lost, and the books say so.

use rehearsal_core::flow::{Arrivals, FlowSet, FlowSpec};
use rehearsal_core::kind::StreamSpec;
use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{Carrier, Connection, LinkSpec, NodePlan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::Rate;
use rehearsal_core::{
    Actor, Datagram, Event, FlowId, Outbox, Payload, RecipeId, RngStream, Role, Span, SubjectId, Time, TimerKey,
};
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Letters, Temper, controller, receivers};
use crate::lab::{Records, built, check_identities, emulate, group, node, plan, sender};

/// Sends datagrams one by one, or as a flow.
struct Source {
    to: SubjectId,
    recipe: RecipeId,
    rng: RngStream,
    way: Way,
    told: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// So many, half of them planned ahead.
    Single(u64),
    /// A flow of so many each second, for 0.4 s; paused meanwhile if asked.
    Flow { rate: u64, pause: bool },
}

fn sources(count: u32, way: Way, bytes_note: &'static str) -> NodePlan {
    let build = built(move |cx, wiring| {
        wiring.streams(StreamSpec {
            per_member: 1,
            in_flight: 1,
            queue: 0,
            burst: false,
            gap: None,
            requests: None,
            threshold: None,
            scatter: None,
            offered: None,
            ports: 1,
        });
        wiring.subscribe("lab.v1.test.ctl.*.*.start")?;
        let target = wiring.target("receiver/main")?;
        assert!(!target.exchange);
        let recipe = wiring.recipe(std::sync::Arc::new(Letters(bytes_note)));
        let source = |member| {
            let rng = wiring.rng(member, 0, "flow");
            Source { to: target.base, recipe, rng, way, told: 0 }
        };
        Ok(Box::new(cx.members.clone().map(source).collect::<Vec<_>>()))
    });
    node("source", Role::Sender, count, Some(sender("receiver/main", 0)), build)
}

impl Source {
    fn begin(&mut self, start: Time, out: &mut Outbox) {
        match self.way {
            Way::Single(count) => {
                for seq in 0..count {
                    let at = start + Span::from_millis(if seq % 2 == 0 { 0 } else { 20 });
                    let payload = Payload::new(100, self.recipe, seq);
                    out.send(Datagram { to: self.to, stream: 0, seq, intended: at, at, payload });
                }
                out.set_timer(TimerKey(0), start + Span::from_millis(100));
            }
            Way::Flow { rate, pause } => {
                out.flow(FlowSpec {
                    flow: FlowId(1),
                    to: self.to,
                    stream: 0,
                    recipe: self.recipe,
                    bytes: 20,
                    arrivals: Arrivals::Constant(Rate::per_second(rate)),
                    from: start,
                    after: Time::ZERO,
                    until: start + Span::from_millis(400),
                    limit: u64::MAX,
                    rng: self.rng.clone(),
                });
                if pause {
                    out.set_flow(FlowId(1), FlowSet::Pause);
                }
            }
        }
    }
}

impl Actor for Source {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => {
                if let Ok(start) = body.get::<StartAt>() {
                    self.begin(start.at, out);
                }
            }
            Event::Timer { .. } => out.finish(),
            Event::FlowReport(report) => {
                self.told += report.sent + report.skipped;
                if report.ended {
                    assert_eq!(self.told, 400, "the reports add up to the flow");
                    out.finish();
                }
            }
            _ => {}
        }
    }
}

fn run(count: u32, way: Way) -> RunEnd {
    let nodes = vec![sources(count, way, "text/plain"), receivers("receiver", 1, Temper::Prompt), controller(1, None)];
    let plan = plan(nodes, Carrier::Udp, Connection::KeepAlive, Stop::AllRequestsDone);
    let options = EmuOptions { shards: Some(2), ..EmuOptions::default() };
    let end = emulate(plan, options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    end
}

/// Datagrams of one source over a link.
pub fn datagrams_over(link: LinkSpec, number: u64) -> RunEnd {
    let way = Way::Single(number);
    let nodes = vec![sources(1, way, "text/plain"), receivers("receiver", 1, Temper::Prompt), controller(1, None)];
    let mut plan = plan(nodes, Carrier::Udp, Connection::KeepAlive, Stop::AllRequestsDone);
    plan.links = vec![link];
    let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    end
}

#[test]
fn datagrams_are_settled_by_what_arrived() {
    let end = run(3, Way::Single(50));
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.datagrams_sent, sent.bytes_sent), (150, 150, 15_000));
    assert_eq!((sent.success, sent.lost), (got.datagrams_received, 150 - got.datagrams_received));
    assert_eq!(sent.unacknowledged, sent.lost);
    assert_eq!((got.datagrams_received, got.datagrams_duplicate), (150, 0), "loopback loses none of so few");
    assert_eq!(got.bytes_received, 15_000);
    assert_eq!(
        got.datagrams_reordered, 72,
        "the even ones leave first: all odd ones but the last come after a later one"
    );
}

#[test]
fn a_flow_is_sent_by_its_schedule_and_reported() {
    let end = run(2, Way::Flow { rate: 1000, pause: false });
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.skipped, sent.success), (800, 0, 800));
    assert_eq!((got.datagrams_received, got.datagrams_reordered, got.datagrams_duplicate), (800, 0, 0));
    assert_eq!((sent.bytes_sent, got.bytes_received), (16_000, 800 * 32), "short payloads are padded on the wire");
}

#[test]
fn a_paused_flow_gives_its_departures_up() {
    let end = run(1, Way::Flow { rate: 1000, pause: true });
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.skipped, got.datagrams_received), (0, 400, 0));
}
