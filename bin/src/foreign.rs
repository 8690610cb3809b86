//! Foreign nodes: somebody else's program runs them, in any language, and joins the run over NATS. This program starts
//! nothing for them; it says what their programs need, and what a run cannot have.

use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_scenario::{Experiment, NodeSpec};

use crate::cli::Placement;
use crate::exit::Refused;
use crate::node::Orders;

/// What such a program has to speak.
const PROTOCOL: &str = "framework/bus/PROTOCOL.md";

/// Refuses an experiment whose foreign nodes cannot join.
///
/// # Errors
/// In embedded placement, where there is no server to join over; where traffic of a foreign node would be datagrams, of
/// which this program alone knows how they are settled.
pub fn check(experiment: &Experiment, placement: Placement) -> Result<(), Refused> {
    let Some(first) = foreign(experiment).next() else { return Ok(()) };
    if placement == Placement::Embedded {
        return Err(Refused(format!(
            "`{0}` is foreign: a program of yours runs it and joins over NATS, so it needs `--placement processes`; \
             `rehearsal simulate` runs this file without that program",
            first.name
        )));
    }
    for node in foreign(experiment) {
        let senders = node.actors.iter().filter_map(|actor| Some((actor, actor.sender.as_ref()?)));
        let datagrams = |to: &str| {
            let link = experiment.link_to(&node.name, to);
            !(link.is_answered() && link.is_exchange())
        };
        if let Some((actor, sender)) = senders.into_iter().find(|(_, sender)| datagrams(&sender.to)) {
            return Err(Refused(format!(
                "`{}/{}` is foreign and sends datagrams to `{}`, which nobody could settle; give that link \
                 `carrier = \"http1\"`",
                node.name, actor.name, sender.to
            )));
        }
    }
    Ok(())
}

/// What each foreign node's program must be told, a line for each: whoever starts it reads stderr.
pub fn instructions(plan: &Plan, orders: &Orders) -> Vec<String> {
    let (url, run) = (orders.nats.shown(), &orders.run);
    let line = |node: &NodePlan| {
        format!("waiting for the program of foreign node `{0}`: --nats {url} --run {run} --node {0}", node.name)
    };
    plan.nodes.iter().filter(|n| n.foreign).map(line).collect()
}

/// What a reader of the bundle must know of foreign nodes.
pub fn note(plan: &Plan) -> Option<String> {
    let names: Vec<&str> = plan.nodes.iter().filter(|n| n.foreign).map(|n| n.name.as_str()).collect();
    let of = names.join(", ");
    (!names.is_empty())
        .then(|| format!("{of}: run by a program of its own ({PROTOCOL}); its numbers are what that program reported"))
}

fn foreign(experiment: &Experiment) -> impl Iterator<Item = &NodeSpec> {
    experiment.nodes.iter().filter(|node| node.foreign)
}
