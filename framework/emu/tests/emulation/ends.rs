//! Every way a run can end leaves whole books.

use rehearsal_core::Span;
use rehearsal_core::messages::{LifeEvent, StopReason};
use rehearsal_core::plan::{Carrier, Connection, Plan, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Rate;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

const SENSOR: usize = 0;
const RECEIVER: usize = 1;

fn endless(temper: Temper, after: Option<Span>) -> Plan {
    let params =
        SenderParams { requests: None, rate: Some(Rate::per_second(500)), streams: 2, ..sender("receiver/main", 0) };
    let nodes =
        vec![sensors("sensor", 2, params, 100), receivers("receiver", 1, temper), controller(1, after), logger()];
    plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::After(after.unwrap_or(Span::from_secs(3600))))
}

fn two_shards() -> EmuOptions {
    EmuOptions { shards: Some(2), ..EmuOptions::default() }
}

#[test]
fn a_duration_ends_with_every_due_exchange_generated() {
    let plan = endless(Temper::Prompt, Some(Span::from_millis(300)));
    let end = emulate(plan, two_shards(), &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!((end.reason, end.faults.len()), (StopReason::Duration, 0));
    // 4 streams of 500/s for 0.3 s; those due at the very end may be stopped in their gate
    assert_eq!(group(&end, SENSOR).tally.generated, 600);
    assert_eq!(group(&end, SENSOR).tally.success, group(&end, RECEIVER).tally.served);
}

#[test]
fn an_interrupt_drains_what_is_under_way() {
    let plan = endless(Temper::Paused(Span::from_millis(30)), None);
    let control = Control::new();
    let from_outside = control.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        from_outside.stop(StopReason::Interrupted);
    });
    let end = emulate(plan, two_shards(), &Records::default(), control);
    stopper.join().expect("it only sleeps");
    check_identities(&end);
    let sent = &group(&end, SENSOR).tally;
    assert_eq!((end.reason, end.faults.len()), (StopReason::Interrupted, 0));
    assert!(sent.success > 0);
    assert_eq!(sent.aborted_attempts, 0, "what was under way came to its end: {sent:?}");
    assert_eq!(sent.success, group(&end, RECEIVER).tally.served);
    assert!(sent.aborted > 0, "what waited in its gate did not leave");
}

#[test]
fn the_end_of_grace_aborts_what_nobody_answers() {
    let mut plan = endless(Temper::Silent, Some(Span::from_millis(100)));
    plan.info.grace = Span::from_millis(100);
    let end = emulate(plan, two_shards(), &Records::default(), Control::new());
    check_identities(&end);
    let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
    assert_eq!((sent.attempts, sent.aborted_attempts, sent.success), (4, 4, 0), "one for each stream: {sent:?}");
    assert_eq!((got.received, got.unserved), (4, 4));
}

#[test]
fn a_second_interrupt_does_not_wait_for_grace() {
    let mut plan = endless(Temper::Silent, None);
    plan.info.grace = Span::from_secs(3600);
    let control = Control::new();
    let from_outside = control.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        from_outside.stop(StopReason::Interrupted);
        std::thread::sleep(std::time::Duration::from_millis(50));
        from_outside.stop(StopReason::Interrupted);
    });
    let end = emulate(plan, two_shards(), &Records::default(), control);
    stopper.join().expect("it only sleeps");
    check_identities(&end);
    assert_eq!(end.reason, StopReason::Interrupted);
}

#[test]
fn a_panic_is_a_named_fault_and_the_run_drains() {
    let records = Records::default();
    let end = emulate(endless(Temper::Panics(10), None), two_shards(), &records, Control::new());
    check_identities(&end);
    assert_eq!(end.reason, StopReason::Fault);
    let fault = &end.faults[0];
    assert_eq!((fault.node.as_str(), fault.actor.as_str()), ("receiver", "main"));
    assert_eq!(fault.text, "panicked: request 10 is one too many");
    let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
    assert_eq!((sent.success, got.served), (10, 10));
    assert!(sent.failed >= 1 && got.unserved >= 1, "the request that it was at is answered as failed");
    let events: Vec<_> =
        records.all().iter().filter_map(|b| b.get::<LifeEvent>().ok().map(|e| e.into_owned())).collect();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind.as_str(), events[0].node.as_str()), ("fault", "receiver"));
}

#[test]
fn a_sink_that_fails_is_one_fault() {
    struct Full;
    impl rehearsal_core::sink::Sink for Full {
        fn store(&mut self, _: &rehearsal_core::Body) -> Result<(), rehearsal_core::sink::SinkError> {
            Err(rehearsal_core::sink::SinkError("the disk is full".to_owned()))
        }
    }
    let plan = endless(Temper::Prompt, Some(Span::from_millis(100)));
    let assembly = rehearsal_core::assembly::Assembly::build(plan, &mut rehearsal_core::assembly::NoMedia)
        .expect("a plan that can be built");
    let end = rehearsal_emu::run(assembly, two_shards(), Box::new(Full), Control::new(), Box::new(|_| {}))
        .expect("a run that may start");
    check_identities(&end);
    assert_eq!(end.faults.len(), 1, "{:?}", end.faults);
    assert_eq!((end.faults[0].node.as_str(), end.faults[0].actor.as_str()), ("logger", "main"));
    assert_eq!(end.faults[0].text, "cannot store a record: the disk is full");
}

#[test]
fn runs_follow_each_other_on_one_thread_and_progress_is_told() {
    for _ in 0..2 {
        let plan = endless(Temper::Prompt, Some(Span::from_millis(1200)));
        let assembly = rehearsal_core::assembly::Assembly::build(plan, &mut rehearsal_core::assembly::NoMedia)
            .expect("a plan that can be built");
        let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let list = told.clone();
        let progress = move |p: rehearsal_core::run::Progress| list.lock().expect("not poisoned").push(p);
        let end = rehearsal_emu::run(
            assembly,
            two_shards(),
            Box::new(Records::default()),
            Control::new(),
            Box::new(progress),
        )
        .expect("a run that may start");
        check_identities(&end);
        let told = told.lock().expect("not poisoned");
        assert!(
            !told.is_empty() && told[0].generated >= told[0].settled && told[0].settled > 0 && told[0].events > 0,
            "{told:?}"
        );
    }
}

#[test]
fn a_shard_that_is_stuck_ends_the_run_and_the_others_keep_their_books() {
    let mut plan = endless(Temper::Blocks(20), None);
    plan.info.grace = Span::from_millis(100);
    let options = EmuOptions { stuck_after: Span::from_millis(700), ..two_shards() };
    let end = emulate(plan, options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.reason, StopReason::Fault);
    assert_eq!(end.faults[0].text, "shard 0 did not answer for 0.7 s: an actor blocks");
    assert!(group(&end, SENSOR).tally.success >= 20);
    assert!(end.groups.iter().all(|g| g.group != RECEIVER), "whose shard is stuck cannot be asked");
}
