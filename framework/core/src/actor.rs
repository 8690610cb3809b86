//! The central interface: an actor, and the pool in which actors of one group stand side by side.

use crate::event::Event;
use crate::outbox::Outbox;
use crate::parts::near::fetch;
use crate::time::Time;

/// Anything that behaves. The same code runs in the simulator and in the emulator.
///
/// ```
/// use rehearsal_core::{Actor, Command, Event, Outbox, Span, Time, TimerKey};
///
/// struct Metronome;
/// impl Actor for Metronome {
///     fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
///         match event {
///             Event::Start => out.set_timer(TimerKey(0), now + Span::from_secs(1)),
///             // chained from `due`, so a late wake-up never shifts the beat
///             Event::Timer { key, due } => out.set_timer(key, due + Span::from_secs(1)),
///             _ => {}
///         }
///     }
/// }
///
/// // a unit test feeds events and compares commands
/// let (mut actor, mut out) = (Metronome, Outbox::default());
/// actor.handle(Time::ZERO, Event::Start, &mut out);
/// let wishes: Vec<_> = out.drain().collect();
/// assert_eq!(wishes, [Command::SetTimer { key: TimerKey(0), at: Time::from_nanos(1_000_000_000) }]);
/// ```
pub trait Actor: Send {
    /// How many timers it has. Fixed for its life.
    fn timers(&self) -> u32 {
        1
    }

    /// Reacts to one event. Never blocks; never reads a clock, file, socket or global.
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox);
}

/// Members of one group, side by side. Engines hold `Box<dyn Pool>` and never name a kind.
pub trait Pool: Send {
    /// How many actors stand here.
    fn len(&self) -> u32;
    /// Whether none does.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The largest number of timers among them.
    fn timers(&self) -> u32;
    /// Hands `event` to the actor at `index`.
    fn handle(&mut self, index: u32, now: Time, event: Event<'_>, out: &mut Outbox);
    /// The actor at `index` will have an event soon: a good moment to bring near what it is.
    fn expect(&self, _index: u32) {}
}

impl<A: Actor> Pool for Vec<A> {
    fn len(&self) -> u32 {
        Vec::len(self) as u32
    }

    fn timers(&self) -> u32 {
        self.iter().map(Actor::timers).max().unwrap_or(0)
    }

    #[inline]
    fn handle(&mut self, index: u32, now: Time, event: Event<'_>, out: &mut Outbox) {
        self[index as usize].handle(now, event, out);
    }

    #[inline]
    fn expect(&self, index: u32) {
        fetch(self, index as usize);
    }
}
