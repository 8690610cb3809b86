//! What is let in: messages of this run whose kind, version and body are understood, from whom the subject says. The rest
//! is counted and ignored, and moves no numbers: nobody can make a publisher's next message look like an old one.

use rehearsal_core::message::Sealed;
use rehearsal_core::messages::{self, NodeReport, StartAt};
use rehearsal_core::{Body, Message, Time};

use super::{Bridge, node_of, publisher};

/// Subjects whose numbers are told apart: far more than the largest run has.
pub(super) const SUBJECTS_MAX: usize = 262_144;

impl Bridge {
    /// The envelope of a message that is let in.
    pub(super) fn let_in(&self, subject: &str, body: &Body) -> Option<Sealed> {
        let sealed = body.sealed().ok().flatten()?;
        let ours = sealed.run == self.world.plan.info.run;
        // who does not number messages need not say who it is
        let true_name = sealed.seq == 0 || sealed.from == publisher(subject);
        (ours && true_name && self.is_known(subject) && self.is_sound(subject, body, &sealed)).then_some(sealed)
    }

    /// A subject of an actor, or an engine's own.
    fn is_known(&self, subject: &str) -> bool {
        let node = node_of(subject);
        self.world.subjects.find(subject).is_some()
            || (publisher(subject).ends_with(".host") && self.world.plan.nodes.iter().any(|n| n.name == node))
    }

    /// Whether the body is what the envelope says, and within what the run can have.
    fn is_sound(&self, subject: &str, body: &Body, sealed: &Sealed) -> bool {
        match sealed.kind.as_str() {
            NodeReport::KIND => body.get::<NodeReport>().is_ok_and(|report| self.is_own_report(subject, &report)),
            StartAt::KIND => body.get::<StartAt>().is_ok_and(|start| start.at < Time::MAX),
            kind => messages::check(body, kind).is_ok(),
        }
    }

    /// A node reports on itself, and on the actors that the experiment gives it.
    fn is_own_report(&self, subject: &str, report: &NodeReport) -> bool {
        let node = self.world.plan.nodes.iter().find(|n| n.name == report.node);
        node.is_some_and(|node| {
            let knows = |actor: &str| node.groups.iter().any(|group| group.actor == actor);
            node_of(subject) == node.name && report.groups.iter().all(|g| g.node == node.name && knows(&g.actor))
        })
    }
}
