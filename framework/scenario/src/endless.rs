//! Closed loops that cost nothing: in real time each round takes a while, in virtual time all of them fall on one instant.

use rehearsal_core::plan::Stop;
use rehearsal_core::sender::SenderParams;

use crate::error::{Problem, ScenarioError, ScenarioErrors};
use crate::experiment::{ActorSpec, Experiment, NodeSpec};

const WHY: &str = "a closed loop that costs nothing never ends in virtual time";
const WAY_OUT: &str = "give the link a delay or rate, the receiver an analyzer pause, or the sender a rate";

impl Experiment {
    /// Whether virtual time gets to the end of the run.
    ///
    /// # Errors
    /// Every sender whose loop costs nothing and has no count, with its place in the file.
    pub fn ends_in_virtual_time(&self) -> Result<(), ScenarioErrors> {
        let endless = self.endless().into_iter().map(|(node, actor)| ScenarioError {
            place: actor.keys.as_ref().map(|keys| self.sources.place(keys.at("to"))),
            problem: Problem::Rule { reason: format!("`{}`: {WHY}", node.path(actor)) },
            help: Some(WAY_OUT.to_owned()),
        });
        let errors: Vec<ScenarioError> = endless.collect();
        if errors.is_empty() { Ok(()) } else { Err(ScenarioErrors { errors, more: 0 }) }
    }

    /// The same as notes.
    pub(crate) fn endless_notes(&self) -> Vec<String> {
        let endless = self.endless();
        endless
            .into_iter()
            .map(|(node, actor)| format!("{}: `simulate` refuses this, {WHY}: {WAY_OUT}", node.path(actor)))
            .collect()
    }

    fn endless(&self) -> Vec<(&NodeSpec, &ActorSpec)> {
        if self.stop == Stop::AllRequestsDone {
            return Vec::new();
        }
        let endless =
            self.senders().filter(|(node, actor, sender)| actor.offers.is_none() && self.costs_nothing(node, sender));
        endless.map(|(node, actor, _)| (node, actor)).collect()
    }

    fn costs_nothing(&self, node: &NodeSpec, sender: &SenderParams) -> bool {
        let Some((to, receiver)) = self.target(&sender.to) else { return false };
        // a lost attempt costs its timeout, jitter costs its share: time goes on
        let instant = |from: &str, to: &str| !self.link_to(from, to).shapes();
        let open = !sender.is_paced() && sender.requests.is_none();
        let free = receiver.analysis().is_some_and(|analysis| analysis.is_zero());
        open && free && instant(&node.name, &to.name) && instant(&to.name, &node.name)
    }
}
