//! Messages: order, latency, bounds, the wire, and what is told each second.

use std::sync::{Arc, Mutex};

use rehearsal_core::messages::Prepare;
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::subject::Plane;
use rehearsal_core::{Actor, Event, Outbox, Role, Span, SubjectId, Time};
use rehearsal_sim::SimOptions;

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, group, node, plan, run, run_with};

#[test]
fn on_the_wire_every_message_says_the_same() {
    let build = || {
        let is = Sending { gap: Some((Span::from_millis(10), true)), requests: 300, ..Sending::default() };
        plan(vec![senders("s", 5, is), receiver(Serving::default()), services(1, None)], LinkSpec::default())
    };
    let (typed, kept) = run(build());
    let mut wired = Kept::default();
    let wire = run_with(build(), SimOptions { wire: true, ..SimOptions::default() }, &mut wired);
    assert_eq!(typed, wire, "fingerprints, totals and all");
    assert_eq!(kept.snapshots, wired.snapshots);
    assert_eq!(kept.hosts, wired.hosts);
    assert!(kept.snapshots.len() >= 12 && kept.hosts.len() >= 9);
}

#[test]
fn every_group_and_node_reports_each_second_in_order() {
    let is = Sending { requests: 250, ..Sending::default() };
    let (end, kept) =
        run(plan(vec![senders("s", 2, is), receiver(Serving::default()), services(1, None)], LinkSpec::default()));
    let of = |node: &str, actor: &str| {
        let wanted = kept.snapshots.iter().filter(|s| s.node == node && s.actor == actor);
        wanted.map(|s| (s.second, s.totals.generated)).collect::<Vec<_>>()
    };
    // 100 a second and sender; the one due at the full second comes before the sample
    assert_eq!(of("s", "main"), [(0, 202), (1, 402), (2, 500)]);
    assert_eq!(of("services", "recorder"), [(0, 0), (1, 0), (2, 0)]);
    let hosts: Vec<(u32, &str)> = kept.hosts.iter().map(|h| (h.second, h.node.as_str())).collect();
    let expected: Vec<(u32, &str)> =
        (0..3).flat_map(|second| ["s", "receiver", "services"].map(|node| (second, node))).collect();
    assert_eq!(hosts, expected);
    assert!(kept.hosts.iter().all(|h| h.cpu_percent.is_none() && h.memory_bytes.is_none()), "unknown is not zero");
    assert_eq!(end.groups[0].tally.generated, 500);
}

/// Publishes a burst at the start.
struct Loud(SubjectId, u32);

impl Actor for Loud {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        if matches!(event, Event::Start) {
            (0..self.1).for_each(|round| out.publish(self.0, Prepare { round }));
        }
    }
}

/// Notes when it heard what.
struct Ear(Arc<Mutex<Vec<(Time, u32)>>>);

impl Actor for Ear {
    fn handle(&mut self, now: Time, event: Event<'_>, _: &mut Outbox) {
        if let Event::Message { body, .. } = event {
            let round = body.get::<Prepare>().expect("nothing else is said").round;
            self.0.lock().expect("one thread").push((now, round));
        }
    }
}

#[test]
fn an_inbox_is_bounded_and_keeps_the_publishers_order() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = heard.clone();
    let loud = group("loud", Role::Service, 1, |_, wiring| {
        let subject = wiring.own(Plane::Control, "prepare");
        Ok(Box::new(vec![Loud(subject, 70_000)]))
    });
    let ear = group("ear", Role::Service, 1, move |_, wiring| {
        wiring.subscribe("lab.v1.t.ctl.n.loud.>")?;
        Ok(Box::new(vec![Ear(ears.clone())]))
    });
    let (end, _) = run(plan(vec![node("n", vec![loud, ear])], LinkSpec::default()));
    assert_eq!(end.messages_dropped, 70_000 - 65_536);
    let heard = heard.lock().expect("one thread");
    assert_eq!(heard.len(), 65_536);
    let latency = Time::ZERO + Span::from_micros(100);
    assert!(heard.iter().enumerate().all(|(i, (at, round))| *at == latency && *round == i as u32));
}
