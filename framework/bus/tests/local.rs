//! The local bus keeps each publisher's order, delivers at most once, and counts what it drops.

use rehearsal_bus::{INBOX_DELIVERIES_MAX, Inbox, Port, local, local_and_beyond};
use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::message::Header;
use rehearsal_core::messages::Prepare;
use rehearsal_core::plan::by_hand::built;
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::{Actor, ActorId, Body, Event, Outbox, Role, SubjectId, Time};

struct Mute;
impl Actor for Mute {
    fn handle(&mut self, _: Time, _: Event<'_>, _: &mut Outbox) {}
}

/// Actors that hear these patterns.
fn node(name: &str, count: u32, hears: &'static [&'static str]) -> NodePlan {
    let build = built(move |cx, wiring| {
        for pattern in hears {
            wiring.subscribe(pattern)?;
        }
        wiring.subject("lab.v1.test.ctl.a.main.one")?;
        wiring.subject("lab.v1.test.ctl.b.main.two")?;
        Ok(Box::new(cx.members.clone().map(|_| Mute).collect::<Vec<_>>()))
    });
    let group = GroupPlan::by_hand("main", Role::Service, count, build);
    NodePlan { measured: false, ..NodePlan::by_hand(name, vec![group]) }
}

/// Three nodes on three shards: actors 0 and 1 hear everything below `ctl`, 2 only `one`, 3 nothing.
fn bus() -> (Vec<(Port, Inbox)>, SubjectId, SubjectId) {
    let (assembly, one, two) = assembly(&[]);
    let shard_of = |actor: ActorId| [0, 0, 1, 2][actor.0 as usize];
    (local(&assembly.routes(), assembly.subjects.len(), 3, &shard_of), one, two)
}

/// The same three nodes; those at the rows of `elsewhere` run in another process.
fn assembly(elsewhere: &[usize]) -> (Assembly, SubjectId, SubjectId) {
    let mut nodes =
        vec![node("a", 2, &["lab.v1.test.ctl.>"]), node("b", 1, &["lab.v1.test.ctl.*.*.one"]), node("c", 1, &[])];
    elsewhere.iter().for_each(|row| nodes[*row].local = false);
    let plan = Plan::by_hand(RunInfo::by_hand("test", Stop::AllRequestsDone), nodes, LinkSpec::default());
    let assembly = Assembly::build(plan, &mut NoMedia).expect("a plan that can be built");
    let names: Vec<_> = assembly.subjects.names().collect();
    let id = |name: &str| SubjectId(names.iter().position(|n| n == name).expect("interned") as u32);
    let (one, two) = (id("lab.v1.test.ctl.a.main.one"), id("lab.v1.test.ctl.b.main.two"));
    (assembly, one, two)
}

fn number(body: &Body) -> u32 {
    body.get::<Prepare>().expect("a number").round
}

fn drain(inbox: &mut Inbox) -> Vec<(SubjectId, u32)> {
    std::iter::from_fn(|| {
        let delivery = inbox.try_receive()?;
        inbox.handled();
        Some((delivery.subject, number(&delivery.body)))
    })
    .collect()
}

#[test]
fn a_message_reaches_each_shard_with_a_hearer_once() {
    let (mut ends, one, two) = bus();
    assert_eq!(ends[0].0.here(one), [ActorId(0), ActorId(1)], "a shard hands over to its own");
    assert_eq!(ends[1].0.here(one), [ActorId(2)]);
    assert!(ends[2].0.here(one).is_empty() && ends[2].0.is_heard_elsewhere(one));
    ends[2].0.send(one, &Body::new(Prepare { round: 1 }));
    ends[2].0.send(two, &Body::new(Prepare { round: 2 }));
    ends[0].0.send(two, &Body::new(Prepare { round: 3 }));
    assert_eq!(ends[0].0.in_transit(), 3);
    assert_eq!(drain(&mut ends[0].1), [(one, 1), (two, 2)], "two hearers in one delivery");
    assert_eq!(drain(&mut ends[1].1), [(one, 1)]);
    assert_eq!(drain(&mut ends[2].1), []);
    assert_eq!((ends[0].0.in_transit(), ends[0].0.dropped()), (0, 0));
}

#[test]
fn each_publishers_order_is_kept_across_threads() {
    let (mut ends, one, _) = bus();
    let (third, _) = ends.pop().expect("three");
    let (second, _) = ends.pop().expect("two");
    let (_, mut inbox) = ends.pop().expect("one");
    let publish = |port: Port, from: u32| {
        std::thread::spawn(move || {
            for n in 0..10_000 {
                port.send(one, &Body::new(Prepare { round: from + n }));
            }
        })
    };
    let publishers = [publish(second, 0), publish(third, 1_000_000)];
    for publisher in publishers {
        publisher.join().expect("it only publishes");
    }
    let got: Vec<u32> = drain(&mut inbox).into_iter().map(|(_, n)| n).collect();
    let (low, high): (Vec<u32>, Vec<u32>) = got.iter().partition(|n| **n < 1_000_000);
    assert_eq!(low, (0..10_000).collect::<Vec<_>>());
    assert_eq!(high, (1_000_000..1_010_000).collect::<Vec<_>>());
}

#[test]
fn a_full_inbox_drops_the_newest_and_counts_every_hearer() {
    let (mut ends, _, two) = bus();
    for round in 0..INBOX_DELIVERIES_MAX as u32 + 3 {
        ends[1].0.send(two, &Body::new(Prepare { round }));
    }
    assert_eq!(ends[1].0.dropped(), 6, "three messages for two hearers");
    let got = drain(&mut ends[0].1);
    assert_eq!((got.len(), got[0].1, got[got.len() - 1].1), (INBOX_DELIVERIES_MAX, 0, INBOX_DELIVERIES_MAX as u32 - 1));
    assert_eq!(ends[0].0.in_transit(), 0);
}

#[test]
fn a_body_in_wire_form_travels_as_well() {
    let (mut ends, one, _) = bus();
    let body = Body::new(Prepare { round: 7 });
    let wire = Body::from_wire(body.to_wire(&Header { run: "test", from: "c.main", seq: 1, t_ns: 2 }));
    ends[2].0.send(one, &wire);
    assert_eq!(drain(&mut ends[1].1), [(one, 7)]);
}

#[test]
fn what_is_heard_elsewhere_goes_out_and_does_not_come_back() {
    let (assembly, one, two) = assembly(&[1]);
    let heard = assembly.heard_elsewhere();
    assert_eq!((heard[one.0 as usize], heard[two.0 as usize]), (true, false), "node b runs elsewhere");
    let mut ends = local_and_beyond(&assembly.routes(), &heard, 1, &|_| 0);
    let (beyond, mut out) = ends.pop().expect("the end that leads out");
    let (port, mut inbox) = ends.pop().expect("the one shard");
    port.send(one, &Body::new(Prepare { round: 1 }));
    port.send(two, &Body::new(Prepare { round: 2 }));
    assert_eq!(drain(&mut out), [(one, 1)]);
    beyond.send(one, &Body::new(Prepare { round: 3 }));
    beyond.send(two, &Body::new(Prepare { round: 4 }));
    assert_eq!(drain(&mut inbox), [(one, 3), (two, 4)], "what comes in is for the hearers here");
    assert_eq!((drain(&mut out), port.in_transit()), (vec![], 0));
}
