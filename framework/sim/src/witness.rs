//! Who looks on while a run goes by: told of events and of what goes over links, and asked before time moves. A run is
//! the same with a witness and without.

use rehearsal_core::plan::Carrier;
use rehearsal_core::{ActorId, Event, Time};

/// A message or datagram that is offered to a link, as its sender's side sees it: what is lost or finds no room later is
/// among them, and each time that it is offered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// When.
    pub at: Time,
    /// Row of the plan's nodes that it leaves.
    pub from: u32,
    /// Row of the plan's nodes that it is for.
    pub to: u32,
    /// Who sent the request or datagram.
    pub sender: ActorId,
    /// Who receives it.
    pub receiver: ActorId,
    /// What carries it.
    pub carrier: Carrier,
    /// Whether it is an answer, which goes from receiver to sender.
    pub reply: bool,
    /// Its payload, bytes.
    pub payload: u32,
    /// Its number within its stream.
    pub seq: u64,
}

/// Looks on. Every method may be left as it is.
pub trait Witness: Send {
    /// The next event is due at `at`, which is never earlier than before. A real-time pace waits here.
    ///
    /// # Errors
    /// Why the run must not go on: it ends with this fault.
    fn due(&mut self, at: Time) -> Result<(), String> {
        let _ = at;
        Ok(())
    }

    /// An actor is handed an event.
    fn event(&mut self, now: Time, actor: ActorId, event: &Event<'_>) {
        let _ = (now, actor, event);
    }

    /// Something is offered to a link.
    fn crossing(&mut self, crossing: &Crossing) {
        let _ = crossing;
    }

    /// The run is over: what the verdict's notes should say of it.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }
}
