//! What the engine does for each event and keeps for each device, by counts. Allocations are counted by an allocator that
//! all tests here share, so they take turns.

use std::alloc::System;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rehearsal_core::{ActorId, Event, Span, Time};
use rehearsal_sim::{Crossing, SimOptions, Witness};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

mod model;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocations and live bytes so far.
fn counted() -> (usize, usize) {
    let stats = GLOBAL.stats();
    (stats.allocations + stats.reallocations, stats.bytes_allocated - stats.bytes_deallocated)
}

#[test]
fn an_event_allocates_nothing_but_its_message_and_a_device_is_small() {
    let _turn = alone();
    // an eighth of a million: just below a power of two, to which some tables are rounded up
    let (sensors, seconds) = (125_000, 6);
    let (_, before) = counted();
    let simulation = model::simulation(sensors, Span::from_secs(seconds), SimOptions::default());
    let mut marks = Vec::with_capacity(64);
    let end = simulation.run(&mut model::Nothing, &mut |at| {
        let (allocations, live) = counted();
        marks.push((at.events, at.settled, allocations, live, at.stopping));
    });
    assert_eq!(end.faults, []);
    let running: Vec<_> = marks.iter().filter(|mark| !mark.4).collect();
    let (first, last) = (running[running.len() / 2], running[running.len() - 1]);
    let (events, settled, allocations) = (last.0 - first.0, last.1 - first.1, last.2 - first.2);
    let seconds = (running.len() - 1 - running.len() / 2) as u64;
    // a counter message of each sensor each second
    let messages = seconds * u64::from(sensors);
    let beyond = allocations as f64 - messages as f64;
    let bytes = (last.3 - before) as f64 / f64::from(sensors);
    println!(
        "{events} events, {settled} exchanges, {allocations} allocations for {messages} messages, {bytes} B a device"
    );
    // buffers of the queue that still grow, and the second's samples
    assert!(beyond.abs() < 1e-3 * events as f64, "{beyond} allocations beyond {messages} messages");
    // an exchange is a timer, a request, its work and its outcome; a message is a timer and itself
    let each = (events - 2 * messages) as f64 / settled as f64;
    assert!((each - 4.0).abs() < 0.01, "{each} events of an exchange");
    assert!(bytes < 200.0, "{bytes} B for each device, its actor among them");
}

/// Counts what it is told.
#[derive(Default)]
struct Counting(Arc<Mutex<(u64, u64, u64)>>);

impl Witness for Counting {
    fn due(&mut self, at: Time) -> Result<(), String> {
        let mut counts = self.0.lock().expect("one thread");
        assert!(at.as_nanos() >= counts.2, "time moves back");
        counts.2 = at.as_nanos();
        Ok(())
    }

    fn event(&mut self, _: Time, _: ActorId, _: &Event<'_>) {
        self.0.lock().expect("one thread").0 += 1;
    }

    fn crossing(&mut self, _: &Crossing) {
        self.0.lock().expect("one thread").1 += 1;
    }

    fn end(&mut self) -> Vec<String> {
        vec!["seen".to_owned()]
    }
}

#[test]
fn a_witness_changes_nothing_and_sees_all() {
    let _turn = alone();
    let run = |options: SimOptions, witness: Option<Box<dyn Witness>>| {
        let simulation = model::simulation(50, Span::from_secs(5), options);
        let simulation = match witness {
            Some(witness) => simulation.witnessed(witness),
            None => simulation,
        };
        simulation.run(&mut model::Nothing, &mut |_| {})
    };
    let bare = run(SimOptions::default(), None);
    let seen = Counting::default();
    let counts = seen.0.clone();
    let mut watched = run(SimOptions::default(), Some(Box::new(seen)));
    assert_eq!(watched.notes.pop().as_deref(), Some("seen"));
    assert_eq!(watched, bare, "the same run, to the digest");
    let counts = *counts.lock().expect("one thread");
    assert_eq!(counts.0, bare.events, "every event that an actor handled");
    let offered: u64 = bare.links.iter().map(|link| link.offered).sum();
    assert_eq!(counts.1, offered, "everything that was offered to a link");
    let wire = run(SimOptions { wire: true, ..SimOptions::default() }, None);
    assert_eq!((wire.fingerprint, wire.schedule_digest()), (bare.fingerprint, bare.schedule_digest()));
    // runs side by side on threads are what they are one by one
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(move || run(SimOptions::default(), None))).collect();
    for thread in threads {
        assert_eq!(thread.join().expect("it ends"), bare);
    }
}

/// Lets time pass for a while.
struct Impatient(Time);

impl Witness for Impatient {
    fn due(&mut self, at: Time) -> Result<(), String> {
        if at < self.0 { Ok(()) } else { Err("too late".to_owned()) }
    }
}

#[test]
fn virtual_time_stops_where_it_is_told_to() {
    let _turn = alone();
    use rehearsal_core::messages::StopReason;
    let run = |until| {
        let options = SimOptions { until, ..SimOptions::default() };
        model::simulation(50, Span::from_secs(5), options).run(&mut model::Nothing, &mut |_| {})
    };
    let (whole, cut, beyond) = (run(None), run(Some(Span::from_millis(2500))), run(Some(Span::from_secs(50))));
    assert_eq!(beyond, whole, "a run that ends before is as it was");
    assert_eq!(cut.reason, StopReason::Interrupted);
    assert_eq!(cut.stop, Time::ZERO + Span::from_millis(2500), "to the nanosecond");
    assert!(cut.notes.iter().any(|note| note.contains("virtual time was stopped 2500ms")), "{:?}", cut.notes);
    let (cut, whole) = (cut.groups[0].tally, whole.groups[0].tally);
    assert!(cut.generated * 3 > whole.generated && cut.generated * 3 < whole.generated * 2, "half of it");
    assert_eq!(cut.open(), 0, "what was under way is settled");
    let impatient = Box::new(Impatient(Time::ZERO + Span::from_secs(1)));
    let simulation = model::simulation(50, Span::from_secs(5), SimOptions::default()).witnessed(impatient);
    let end = simulation.run(&mut model::Nothing, &mut |_| {});
    assert_eq!((end.reason, end.faults.len()), (StopReason::Fault, 1));
    assert_eq!(end.faults[0].text, "too late");
}
