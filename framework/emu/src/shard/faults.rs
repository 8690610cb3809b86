//! What goes wrong in a shard: written down, and published as a life-cycle event.

use rehearsal_core::Body;
use rehearsal_core::messages::{LifeEvent, StopReason};
use rehearsal_core::run::Fault;

use super::State;

impl State {
    pub(super) fn panicked(&mut self, who: u32, panic: &(dyn std::any::Any + Send)) {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        self.dead.insert(who);
        let world = self.world.clone();
        let (node, actor) = world.names(who);
        self.fault(node, &actor, format!("panicked: {text}"), world.groups[world.group_of(who)].node);
        self.fail_inbound(who);
        self.notes.stop(StopReason::Fault);
    }

    /// Writes a fault down, and publishes it as a life-cycle event of the node at row `row`.
    pub(super) fn fault(&mut self, node: &str, actor: &str, text: String, row: usize) {
        let at = self.now();
        let (node, actor) = (node.to_owned(), actor.to_owned());
        self.faults.push(Fault { at, node: node.clone(), actor: actor.clone(), text: text.clone() });
        self.tell_event(row, LifeEvent { at, kind: "fault".to_owned(), node, actor, text, ..LifeEvent::default() });
    }

    /// Publishes a life-cycle event of the node at row `row`.
    pub(super) fn tell_event(&mut self, row: usize, event: LifeEvent) {
        let subject = self.world.subjects.event(row);
        self.publish(None, subject, Body::new(event));
    }
}
