//! The loop: take the next event, lend it to its actor, apply what the actor asks for. Nothing else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rehearsal_core::assembly::Assembly;
use rehearsal_core::event::Head;
use rehearsal_core::exchange::Times;
use rehearsal_core::messages::StopReason;
use rehearsal_core::parts::heap::Entry;
use rehearsal_core::run::{Progress, RunEnd};
use rehearsal_core::sink::Sink;
use rehearsal_core::{ActorId, Outbox, Pool};

use crate::world::{Class, Phase, What, World};
use crate::{SimOptions, Witness};

/// A run in virtual time, ready to go.
///
/// Three parts, so that an event can borrow from the world's tables while its actor is at work: the actors, the
/// outbox that one of them is writing into, and the world.
///
/// ```
/// use rehearsal_core::assembly::{Assembly, AssemblyError, NoMedia};
/// use rehearsal_core::plan::Plan;
/// use rehearsal_core::run::RunEnd;
/// use rehearsal_core::sink::Sink;
/// use rehearsal_sim::{SimOptions, Simulation};
///
/// fn dry_run(plan: Plan, sink: &mut dyn Sink) -> Result<RunEnd, AssemblyError> {
///     let assembly = Assembly::build(plan, &mut NoMedia)?;
///     let mut progress = |p: rehearsal_core::run::Progress| eprintln!("{}: {} exchanges settled", p.at, p.settled);
///     Ok(Simulation::new(assembly, SimOptions::default()).run(sink, &mut progress))
/// }
/// ```
pub struct Simulation {
    pools: Vec<Box<dyn Pool>>,
    outbox: Outbox,
    world: World,
    witness: Option<Box<dyn Witness>>,
    /// Who is told next that the run begins or drains, while all are.
    telling: Option<(u32, What)>,
    /// Whose event is being handled, and which.
    at_work: Option<(u32, What)>,
}

impl Simulation {
    /// Prepares a run of `assembly`.
    pub fn new(mut assembly: Assembly, options: SimOptions) -> Self {
        let routes = assembly.routes();
        let groups = std::mem::take(&mut assembly.groups);
        let (pools, world) = World::new(assembly, groups, routes, options);
        Simulation { pools, outbox: Outbox::default(), world, witness: None, telling: None, at_work: None }
    }

    /// Lets `witness` look on.
    #[must_use]
    pub fn witnessed(mut self, witness: Box<dyn Witness>) -> Self {
        self.world.crossings = Some(Vec::new());
        self.witness = Some(witness);
        self
    }

    /// Runs until the experiment ends; records go to `sink`, and `progress` is told each second of the run.
    ///
    /// The run ends after the drain that a published `StopRun` begins, or when nothing can happen any more, or at a
    /// fault: a panicking actor, or a run that goes on and on (see [`SimOptions::events_max`]).
    pub fn run(mut self, sink: &mut dyn Sink, progress: &mut dyn FnMut(Progress)) -> RunEnd {
        self.telling = Some((0, What::Start));
        // one guard for all events: what it costs each of them would be a tenth of the whole
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.go_on(sink, progress))) {
            self.recover(panic);
        }
        let notes = self.witness.map(|mut witness| witness.end()).unwrap_or_default();
        let mut end = self.world.end();
        end.notes.extend(notes);
        end
    }

    /// An actor panicked: it is never called again, so its half-changed state is never seen, and the others go on.
    #[cold]
    fn recover(&mut self, panic: Box<dyn Any + Send>) {
        // a panic of the engine's own is no actor's
        let Some((actor, what)) = self.at_work.take() else { resume_unwind(panic) };
        self.outbox.drain();
        self.world.panicked(actor, text_of(panic.as_ref()));
        self.world.release(what);
    }

    /// Event after event, until the end.
    fn go_on(&mut self, sink: &mut dyn Sink, progress: &mut dyn FnMut(Progress)) {
        self.tell(sink);
        while self.steer(sink) {
            let Some(entry) = self.world.pop() else {
                self.world.idle();
                continue;
            };
            if let Some(place) = self.world.look_ahead() {
                self.pools[place.group].expect(place.index);
            }
            if self.witness.is_some() {
                self.pace();
            }
            // what is frequent has its own code from here to its actor, where its class is known
            match Class::of(&entry) {
                Class::Timer => self.handle(Class::Timer, entry, sink),
                Class::Request => self.handle(Class::Request, entry, sink),
                Class::Work => self.handle(Class::Work, entry, sink),
                Class::Outcome => self.handle(Class::Outcome, entry, sink),
                Class::Message => self.handle(Class::Message, entry, sink),
                class => self.handle_seldom(class, entry, sink),
            }
            if self.witness.is_some() {
                self.cross();
            }
            if self.world.sampled {
                self.world.sampled = false;
                progress(self.world.progress());
            }
        }
    }

    /// Tells every actor that was not told yet that the run begins, or drains.
    #[cold]
    fn tell(&mut self, sink: &mut dyn Sink) {
        while let Some((actor, what)) = self.telling.filter(|(actor, _)| *actor < self.world.actors()) {
            self.telling = Some((actor + 1, what));
            self.deliver(actor, what, sink);
        }
        self.telling = None;
    }

    /// Asks the witness whether time may move to the present instant.
    #[cold]
    fn pace(&mut self) {
        let Some(witness) = &mut self.witness else { return };
        if let Err(why) = witness.due(self.world.now) {
            self.world.halted(why);
        }
    }

    /// Tells the witness what was offered to links.
    #[cold]
    fn cross(&mut self) {
        let (Some(witness), Some(crossings)) = (&mut self.witness, &mut self.world.crossings) else { return };
        for crossing in crossings.drain(..) {
            witness.crossing(&crossing);
        }
    }

    /// Turns from running to draining to closing when it is time; false at the end. Cheap while nothing changes.
    #[inline]
    fn steer(&mut self, sink: &mut dyn Sink) -> bool {
        if let Some(reason) = self.world.stop_wanted.take() {
            self.stop(reason, sink);
        }
        if self.world.phase != Phase::Running {
            self.world.drained();
        }
        self.world.phase != Phase::Ended
    }

    #[cold]
    fn stop(&mut self, reason: StopReason, sink: &mut dyn Sink) {
        if self.world.begin_stop(reason) {
            self.telling = Some((0, What::Stop));
            self.tell(sink);
        }
    }

    #[inline(always)]
    fn handle(&mut self, class: Class, entry: Entry, sink: &mut dyn Sink) {
        if let Some((actor, what)) = self.world.take(class, entry) {
            self.deliver(actor, what, sink);
        }
    }

    #[inline(never)]
    fn handle_seldom(&mut self, class: Class, entry: Entry, sink: &mut dyn Sink) {
        self.handle(class, entry, sink);
    }

    #[inline(always)]
    fn deliver(&mut self, actor: u32, what: What, sink: &mut dyn Sink) {
        let Simulation { pools, outbox, world, witness, at_work, .. } = self;
        if let Some(at) = world.place_of_living(actor) {
            let (mut head, mut times) = (Head::default(), Times::default());
            if let Some(witness) = witness {
                show(witness.as_mut(), world, actor, what);
            }
            *at_work = Some((actor, what));
            // made where it is handed over: a copy of what was just written costs more than making it
            pools[at.group].handle(at.index, world.now, world.event(what, &mut head, &mut times), outbox);
            *at_work = None;
            world.apply(at, outbox, sink);
        }
        world.release(what);
    }
}

/// Shows a witness the event that an actor is about to have.
#[cold]
fn show(witness: &mut dyn Witness, world: &World, actor: u32, what: What) {
    let (mut head, mut times) = (Head::default(), Times::default());
    witness.event(world.now, ActorId(actor), &world.event(what, &mut head, &mut times));
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the actor panicked: {}", text.unwrap_or("without a text"))
}
