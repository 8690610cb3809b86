//! Plans that are put together in Rust and not read from a file: for tests and benchmarks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{GroupPlan, LinkSpec, NodePlan, OnLoss, Plan, RunInfo, Stop};
use crate::actor::Pool;
use crate::kind::{Build, BuildError, GroupContext, Role, Wiring};
use crate::time::Span;
use crate::units::Fraction;

type Make = dyn Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync;

struct ByHand(Box<Make>);

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByHand")
    }
}

impl Build for ByHand {
    fn build(&self, cx: &GroupContext<'_>, wiring: &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> {
        (self.0)(cx, wiring)
    }
}

/// What builds a group, from a closure.
pub fn built(
    make: impl Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync + 'static,
) -> Arc<dyn Build> {
    Arc::new(ByHand(Box::new(make)))
}

impl GroupPlan {
    /// All instances of an actor, without the common keys of senders.
    pub fn by_hand(actor: &str, role: Role, count: u32, build: Arc<dyn Build>) -> Self {
        GroupPlan { actor: actor.to_owned(), kind: "by-hand", role, count, first: 0, sender: None, build }
    }
}

impl NodePlan {
    /// A node without host and limits that runs in this process and is measured.
    pub fn by_hand(name: &str, groups: Vec<GroupPlan>) -> Self {
        NodePlan {
            name: name.to_owned(),
            template: name.to_owned(),
            host: None,
            vcpu: None,
            memory: None,
            measured: true,
            local: true,
            foreign: false,
            outside: None,
            groups,
        }
    }
}

impl RunInfo {
    /// A run of which everything is measured, and that waits for nothing at its beginning and its end.
    pub fn by_hand(run: &str, stop: Stop) -> Self {
        RunInfo {
            run: run.to_owned(),
            stop,
            warmup: Span::ZERO,
            cooldown: Span::ZERO,
            lead: Span::ZERO,
            grace: Span::ZERO,
            on_loss: OnLoss::default(),
            control: Vec::new(),
            nodes: Vec::new(),
        }
    }
}

impl Plan {
    /// Nodes that one link joins, whichever of them; with seed 1, and no machines.
    pub fn by_hand(info: RunInfo, nodes: Vec<NodePlan>, link: LinkSpec) -> Self {
        Plan {
            info,
            seed: 1,
            record_requests: Fraction(0.0),
            repetition: 0,
            base: PathBuf::new(),
            hosts: Vec::new(),
            nodes,
            links: vec![link],
            routes: Vec::new(),
        }
    }
}
