//! An actor that panics: its fault is named, the run drains, the books balance, and the verdict is INVALID.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rehearsal::clips::{Clips, Use};
use rehearsal::facts::{Roster, meta};
use rehearsal::registry::registry;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::{
    Actor, Body, BuildError, Event, GroupContext, Kind, Outbox, Payload, Pool, Reply, Role, Status, Time, Wiring,
};
use rehearsal_emu::{Control, EmuOptions, run};
use rehearsal_export::{BundleWriter, Engine};
use rehearsal_scenario::{LoadOptions, load};

use crate::support::{Bundle, Scratch, beside};

/// A receiver that breaks at its fifth request.
struct Fragile;

struct Breaks {
    left: u32,
}

impl Kind for Fragile {
    const NAME: &'static str = "fragile";
    const SUMMARY: &'static str = "answers four requests, then breaks";
    const ROLE: Role = Role::Receiver;
    type Params = rehearsal_actors::receiver::AnalyzerParams;

    fn build(_: &Self::Params, _: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        wiring.serve(None);
        Ok(Box::new(vec![Breaks { left: 4 }]))
    }
}

impl Actor for Breaks {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        if let Event::Request { exchange, .. } = event {
            assert!(self.left > 0, "this receiver was built to break");
            self.left -= 1;
            out.respond(exchange, Reply { status: Status::Success, payload: Payload::EMPTY });
        }
    }
}

const EXPERIMENT: &str = r#"[experiment]
name = "trial"
stop = "all-requests-done"

[nodes.sender.actors.main]
kind = "sensor"
to = "receiver/main"
requests = 200
rate = "20/s"

[nodes.receiver.actors.main]
kind = "fragile"

[nodes.receiver.actors.sound]
kind = "receiver"

[nodes.other.actors.main]
kind = "sensor"
to = "receiver/sound"
requests = 200
rate = "20/s"
"#;

/// The engine takes the sink; the test keeps the other half.
struct Shared(Arc<Mutex<Option<BundleWriter>>>);

impl Sink for Shared {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        let mut writer = self.0.lock().expect("nobody else writes");
        writer.as_mut().expect("the run goes on").store(record)
    }
}

#[test]
fn an_actor_that_panics_is_a_named_fault_of_the_run() {
    let _busy = beside();
    let scratch = Scratch::new();
    let file = scratch.write("trial.toml", EXPERIMENT);
    let experiment = load(&file, &registry().with::<Fragile>(), &LoadOptions::default()).expect("a good experiment");
    let plan = experiment.plan(0);
    let facts = meta(&experiment, &plan, Engine::Emulate, false);
    let mut silent = |_: &Path, _, _| ();
    let assembly = Assembly::build(plan, &mut Clips::new(Use::Emulation, &mut silent)).expect("it can be built");
    let roster = Roster::of(&assembly);
    let writer = BundleWriter::create(&scratch.path("b"), facts).expect("a folder");
    let kept = Arc::new(Mutex::new(Some(writer)));
    let sink = Box::new(Shared(kept.clone()));
    let end = run(assembly, EmuOptions::default(), sink, Control::new(), Box::new(|_| {})).expect("it begins");

    let [fault] = &end.faults[..] else { panic!("one fault, not {:?}", end.faults) };
    assert_eq!((fault.node.as_str(), fault.actor.as_str()), ("receiver", "main"));
    assert!(fault.text.contains("built to break"), "{}", fault.text);
    let writer = kept.lock().expect("the run is over").take().expect("a bundle");
    let finished = writer.finish(roster.facts(end, Engine::Emulate, false)).expect("a whole bundle");
    assert_eq!(finished.exit_code, 20);

    let bundle = Bundle::read(&scratch.path("b"));
    assert_eq!((bundle.status(), bundle.doubts().contains(&"fault")), ("INVALID", true));
    let reason = bundle.verdict["reasons"][0]["text"].as_str().expect("a text");
    assert!(reason.contains("receiver/main") && reason.contains("built to break"), "{reason}");
    // the run drains long before its end (printing where it broke takes a while): whatever had come due is settled,
    // by an answer or because the run stopped
    let [generated, success, aborted] = ["generated", "success", "aborted"].map(|c| bundle.total_of("other", c));
    assert!(success > 0 && generated < 200 && generated == success + aborted, "{success} and {aborted} of {generated}");
    assert_eq!(bundle.total_of("sender", "success"), 4);
    assert!((5..200).contains(&bundle.total_of("sender", "generated")), "{:#}", bundle.summary["templates"]);
}
