//! The loop: take the next event, lend it to its actor, apply what the actor asks for. Nothing else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rehearsal_core::assembly::Assembly;
use rehearsal_core::event::Head;
use rehearsal_core::exchange::Times;
use rehearsal_core::messages::StopReason;
use rehearsal_core::run::{Progress, RunEnd};
use rehearsal_core::sink::Sink;
use rehearsal_core::{ActorId, Outbox, Pool};

use crate::SimOptions;
use crate::world::{Phase, What, World};

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
}

impl Simulation {
    /// Prepares a run of `assembly`.
    pub fn new(mut assembly: Assembly, options: SimOptions) -> Self {
        let routes = assembly.routes();
        let groups = std::mem::take(&mut assembly.groups);
        let (pools, world) = World::new(assembly, groups, routes, options);
        Simulation { pools, outbox: Outbox::default(), world }
    }

    /// Runs until the experiment ends; records go to `sink`, and `progress` is told each second of the run.
    ///
    /// The run ends after the drain that a published `StopRun` begins, or when nothing can happen any more, or at a
    /// fault: a panicking actor, or a run that goes on and on (see [`SimOptions::events_max`]).
    pub fn run(mut self, sink: &mut dyn Sink, progress: &mut dyn FnMut(Progress)) -> RunEnd {
        for actor in 0..self.world.actors() {
            self.deliver(actor, What::Start, sink);
        }
        while self.steer(sink) {
            let Some(entry) = self.world.pop() else {
                self.world.idle();
                continue;
            };
            if let Some((actor, what)) = self.world.take(entry) {
                self.deliver(actor, what, sink);
            }
            if self.world.sampled {
                self.world.sampled = false;
                progress(self.world.progress());
            }
        }
        self.world.end()
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
            for actor in 0..self.world.actors() {
                self.deliver(actor, What::Stop, sink);
            }
        }
    }

    #[inline]
    fn deliver(&mut self, actor: u32, what: What, sink: &mut dyn Sink) {
        let Simulation { pools, outbox, world } = self;
        if world.hears(actor) {
            let (group, index) = world.place(actor);
            let (mut head, mut times) = (Head::default(), Times::default());
            let event = world.event(what, &mut head, &mut times);
            let pool = &mut pools[group];
            let now = world.now;
            // an actor that panics is never called again, so its half-changed state is never seen
            let handled = catch_unwind(AssertUnwindSafe(|| pool.handle(index, now, event, outbox)));
            match handled {
                Ok(()) => world.apply(ActorId(actor), outbox, sink),
                Err(panic) => {
                    outbox.drain();
                    world.panicked(actor, text_of(panic.as_ref()));
                }
            }
        }
        world.release(what);
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the actor panicked: {}", text.unwrap_or("without a text"))
}
