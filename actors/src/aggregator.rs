//! The aggregator: stores every report and life-cycle event once, and acknowledges it when it is stored.

use std::collections::{BTreeMap, BTreeSet};

use rehearsal_core::messages::{EventAck, LifeEvent, NodeReport, ReportAck};
use rehearsal_core::subject::{PREFIX, Plane};
use rehearsal_core::{
    Actor, Body, BuildError, Event, GroupContext, Kind, MetricId, Outbox, Pool, Role, SubjectId, Time, Wiring, Work,
    WorkKey, WorkResult,
};

use crate::service::{Alone, ServiceParams, check_alone};

/// Records that may be under way to the sink; a report beyond that is left to be sent again, an event is lost.
const UNDER_WAY_MAX: usize = 4096;
/// Nodes whose reports are told apart.
const NODES_MAX: usize = 65_536;
/// Events that are recognised when they come again, the latest ones. Assumed: far more than a run has; a fault repeats
/// itself at most this often before it is stored twice.
const EVENTS_MAX: usize = 65_536;
/// Seconds of one node that may be stored out of order. More than a logger keeps.
const OUT_OF_ORDER_MAX: usize = 1024;

/// Collects the results.
pub struct Aggregator;

impl Kind for Aggregator {
    const NAME: &'static str = "aggregator";
    const SUMMARY: &'static str = "stores reports and life-cycle events";
    const ROLE: Role = Role::Service;
    type Params = ServiceParams;

    fn build(_: &ServiceParams, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        check_alone(cx, Self::NAME, Alone::InRun)?;
        let run = &cx.run.run;
        wiring.subscribe(&format!("{PREFIX}.{run}.tel.*.*.report"))?;
        wiring.subscribe(&format!("{PREFIX}.{run}.tel.*.*.event"))?;
        Ok(Box::new(vec![Collector {
            ack: wiring.own(Plane::Control, "ack"),
            store_failed: wiring.metric("store_failed"),
            store_full: wiring.metric("store_full"),
            repeated: wiring.metric("reports_repeated"),
            under_way: BTreeMap::new(),
            stored: BTreeMap::new(),
            events: BTreeMap::new(),
            next: 0,
        }]))
    }
}

#[derive(Debug)]
struct Collector {
    ack: SubjectId,
    store_failed: MetricId,
    store_full: MetricId,
    repeated: MetricId,
    under_way: BTreeMap<u64, Record>,
    stored: BTreeMap<String, Seconds>,
    /// Numbered events that were stored, by their ids, with the key that each was stored under.
    events: BTreeMap<String, u64>,
    next: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Record {
    Report(ReportAck),
    Event(EventAck),
}

impl Collector {
    fn hear(&mut self, body: &Body, out: &mut Outbox) {
        if let Ok(report) = body.get::<NodeReport>() {
            let key = ReportAck { node: report.node.clone(), second: report.second };
            self.report(key, body, out);
        } else if let Ok(event) = body.get::<LifeEvent>() {
            self.event(EventAck { id: event.id.clone() }, body, out);
        }
    }

    /// An event without an id comes once, and is not acknowledged.
    fn event(&mut self, key: EventAck, body: &Body, out: &mut Outbox) {
        if self.events.contains_key(&key.id) {
            out.publish(self.ack, key);
            return;
        }
        let record = Record::Event(key);
        let known = |key: &EventAck| !key.id.is_empty() && self.under_way.values().any(|r| *r == record);
        if !matches!(&record, Record::Event(key) if known(key)) {
            self.store(record, body, out);
        }
    }

    fn report(&mut self, key: ReportAck, body: &Body, out: &mut Outbox) {
        let known = self.stored.get(&key.node);
        if known.is_some_and(|seconds| seconds.holds(key.second)) {
            out.count(self.repeated, 1);
            out.publish(self.ack, key);
        } else if known.is_none() && self.stored.len() == NODES_MAX {
            out.count(self.store_full, 1);
        } else {
            self.stored.entry(key.node.clone()).or_default();
            let record = Record::Report(key);
            if self.under_way.values().any(|r| *r == record) {
                out.count(self.repeated, 1);
            } else {
                self.store(record, body, out);
            }
        }
    }

    fn store(&mut self, record: Record, body: &Body, out: &mut Outbox) {
        if self.under_way.len() == UNDER_WAY_MAX {
            out.count(self.store_full, 1);
            return;
        }
        let key = self.next;
        self.next += 1;
        self.under_way.insert(key, record);
        out.work(WorkKey(key), Work::Store(body.clone()));
    }

    fn stored(&mut self, key: u64, result: WorkResult, out: &mut Outbox) {
        match self.under_way.remove(&key) {
            None => {}
            Some(_) if result != WorkResult::Done => out.count(self.store_failed, 1),
            Some(Record::Event(ack)) if ack.id.is_empty() => {}
            Some(Record::Event(ack)) => {
                if self.events.len() == EVENTS_MAX {
                    self.forget();
                }
                self.events.insert(ack.id.clone(), key);
                out.publish(self.ack, ack);
            }
            Some(Record::Report(ack)) => {
                if let Some(seconds) = self.stored.get_mut(&ack.node) {
                    seconds.add(ack.second);
                }
                out.publish(self.ack, ack);
            }
        }
    }
}

impl Collector {
    /// Forgets the older half of the events that were stored.
    fn forget(&mut self) {
        let mut keys: Vec<u64> = self.events.values().copied().collect();
        keys.sort_unstable();
        let middle = keys.get(keys.len() / 2).copied().unwrap_or_default();
        self.events.retain(|_, key| *key >= middle);
    }
}

impl Actor for Collector {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, _now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Message { body, .. } => self.hear(body, out),
            Event::WorkDone { key, result } => self.stored(key.0, *result, out),
            _ => {}
        }
    }
}

/// A set of seconds: all below a bound, and a few above it.
#[derive(Debug, Default)]
struct Seconds {
    below: u32,
    above: BTreeSet<u32>,
}

impl Seconds {
    fn holds(&self, second: u32) -> bool {
        second < self.below || self.above.contains(&second)
    }

    fn add(&mut self, second: u32) {
        if second >= self.below {
            self.above.insert(second);
        }
        // the oldest gap is closed when there is no more room: a logger keeps fewer reports than this
        if self.above.len() > OUT_OF_ORDER_MAX {
            self.below = self.above.first().copied().unwrap_or(self.below);
        }
        while self.above.remove(&self.below) {
            self.below += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Command;

    use super::*;
    use crate::testing::{Experiment, Stage, at, messages};

    fn stage() -> Stage {
        Experiment::default().build::<Aggregator>(&ServiceParams {}).expect("it builds")
    }

    fn report(node: &str, second: u32) -> NodeReport {
        NodeReport { node: node.into(), second, ..NodeReport::default() }
    }

    /// The keys of the records that are to be stored.
    fn stores(wishes: &[Command]) -> Vec<WorkKey> {
        let key = |wish: &Command| match wish {
            Command::Work { key, work: Work::Store(_) } => Some(*key),
            _ => None,
        };
        wishes.iter().filter_map(key).collect()
    }

    fn end(stage: &mut Stage, key: WorkKey, result: WorkResult) -> Vec<Command> {
        stage.tell(at(0), Event::WorkDone { key, result: &result })
    }

    fn acks(wishes: &[Command]) -> Vec<(String, u32)> {
        messages::<ReportAck>(wishes).into_iter().map(|ack| (ack.node, ack.second)).collect()
    }

    /// A report comes in and is stored.
    fn store(stage: &mut Stage, node: &str, second: u32) -> Vec<Command> {
        let wishes = stage.say(at(0), report(node, second));
        let [key] = stores(&wishes)[..] else { panic!("{node} {second}: {wishes:?}") };
        end(stage, key, WorkResult::Done)
    }

    #[test]
    fn it_acknowledges_what_is_stored_and_not_before() {
        let mut stage = stage();
        let wishes = stage.say_wire(at(0), report("camera-1", 0));
        let [Command::Work { key, work: Work::Store(body) }] = &wishes[..] else { panic!("{wishes:?}") };
        assert_eq!(*body.get::<NodeReport>().expect("the report itself"), report("camera-1", 0));
        let (key, wishes) = (*key, end(&mut stage, *key, WorkResult::Done));
        let ack = ReportAck { node: "camera-1".into(), second: 0 };
        assert_eq!(stage.published(&wishes), [("lab.v1.r1.ctl.lab.main.ack".to_owned(), ack)]);
        assert_eq!(end(&mut stage, key, WorkResult::Done), [], "one end for each beginning");
    }

    #[test]
    fn a_repeated_report_is_stored_once() {
        let mut stage = stage();
        let first = stage.say(at(0), report("camera-1", 7));
        let again = stage.say(at(1), report("camera-1", 7));
        assert_eq!((stores(&first).len(), stores(&again).len()), (1, 0), "the first is under way");
        assert_eq!(acks(&end(&mut stage, stores(&first)[0], WorkResult::Done)), [("camera-1".into(), 7)]);
        let again = stage.say(at(2), report("camera-1", 7));
        assert_eq!((stores(&again).len(), acks(&again)), (0, vec![("camera-1".to_owned(), 7)]));
        assert_eq!(stage.counted(&again, "reports_repeated"), 1);
        assert_eq!(acks(&store(&mut stage, "camera-2", 7)), [("camera-2".into(), 7)], "another node's second");
    }

    #[test]
    fn what_could_not_be_stored_is_not_acknowledged_and_may_come_again() {
        let mut stage = stage();
        let wishes = stage.say(at(0), report("camera-1", 0));
        let wishes = end(&mut stage, stores(&wishes)[0], WorkResult::Invalid);
        assert_eq!((acks(&wishes), stage.counted(&wishes, "store_failed")), (vec![], 1));
        assert_eq!(acks(&store(&mut stage, "camera-1", 0)), [("camera-1".into(), 0)]);
    }

    #[test]
    fn events_without_an_id_are_stored_each_time_and_not_acknowledged() {
        let mut stage = stage();
        let event =
            LifeEvent { at: at(5), kind: "fault".into(), node: "n".into(), actor: "a".into(), ..LifeEvent::default() };
        for _ in 0..2 {
            let wishes = stage.say(at(5), event.clone());
            assert_eq!(end(&mut stage, stores(&wishes)[0], WorkResult::Done), []);
        }
    }

    #[test]
    fn a_numbered_event_is_stored_once_and_acknowledged_each_time() {
        let mut stage = stage();
        let event = |id: &str| LifeEvent { kind: "fault".into(), id: id.into(), ..LifeEvent::default() };
        let acks = |wishes: &[Command]| -> Vec<String> {
            messages::<EventAck>(wishes).into_iter().map(|ack| ack.id).collect()
        };
        let first = stage.say_wire(at(0), event("camera-1.host.1"));
        assert_eq!(stores(&stage.say_wire(at(0), event("camera-1.host.1"))), [], "it is under way");
        let other = stage.say_wire(at(0), event("camera-1.host.2"));
        assert_eq!(acks(&end(&mut stage, stores(&first)[0], WorkResult::Done)), ["camera-1.host.1"]);
        assert_eq!(acks(&end(&mut stage, stores(&other)[0], WorkResult::Invalid)), Vec::<String>::new());
        let again = stage.say_wire(at(1), event("camera-1.host.1"));
        assert_eq!((stores(&again).len(), acks(&again)), (0, vec!["camera-1.host.1".to_owned()]));
        assert_eq!(stores(&stage.say_wire(at(1), event("camera-1.host.2"))).len(), 1, "it was not stored");
    }

    #[test]
    fn a_slow_sink_has_a_bounded_queue() {
        let mut stage = stage();
        let keys: Vec<WorkKey> = (0..4096).flat_map(|s| stores(&stage.say(at(0), report("a", s)))).collect();
        assert_eq!(keys.len(), 4096);
        let wishes = stage.say(at(0), report("a", 4096));
        assert_eq!((stores(&wishes).len(), stage.counted(&wishes, "store_full")), (0, 1));
        end(&mut stage, keys[0], WorkResult::Done);
        assert_eq!(acks(&store(&mut stage, "a", 4096)), [("a".into(), 4096)], "it was left to be sent again");
    }

    #[test]
    fn seconds_may_come_in_any_order() {
        let mut stage = stage();
        for second in [5, 0, 2, 1, 4, 9] {
            store(&mut stage, "a", second);
        }
        for second in [0, 1, 2, 4, 5, 9] {
            assert_eq!(stores(&stage.say(at(0), report("a", second))), [], "{second}");
        }
        store(&mut stage, "a", 3);
        store(&mut stage, "a", 6);
    }

    #[test]
    fn a_set_of_seconds_stays_small() {
        let mut seconds = Seconds::default();
        for second in 0..100_000 {
            seconds.add(second);
        }
        assert_eq!((seconds.below, seconds.above.len()), (100_000, 0));
        // second 100,000 never comes: its place is given up when more than a logger keeps have followed it
        for second in 100_001..100_001 + 1024 {
            seconds.add(second);
        }
        assert!(!seconds.holds(100_000));
        seconds.add(101_025);
        assert_eq!((seconds.below, seconds.above.len()), (101_026, 0));
    }

    #[test]
    fn it_hears_reports_and_events_of_all_nodes() {
        let mut stage = stage();
        for (subject, heard) in [
            ("lab.v1.r1.tel.camera-1.logger.report", true),
            ("lab.v1.r1.tel.camera-1.host.event", true),
            ("lab.v1.r1.tel.services.controller.event", true),
            ("lab.v1.r1.tel.camera-1.main.snapshot", false),
            ("lab.v1.r2.tel.camera-1.logger.report", false),
        ] {
            assert_eq!(stage.hears(subject), heard, "{subject}");
        }
        let two = Experiment { count: 2, ..Experiment::default() };
        assert_eq!(two.refusal::<Aggregator>(&ServiceParams {}).0, Some("count"));
    }
}
