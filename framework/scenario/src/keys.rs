//! What the whole of an experiment needs to know of a kind's own keys: where a receiver listens, how long it analyses.

use std::net::SocketAddr;

use rehearsal_core::kind::Role;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::time::Span;

use crate::experiment::{ActorSpec, Experiment, NodeSpec};

impl Experiment {
    /// Every sending actor with its node.
    pub fn senders(&self) -> impl Iterator<Item = (&NodeSpec, &ActorSpec, &SenderParams)> {
        let all = self.nodes.iter().flat_map(|node| node.actors.iter().map(move |actor| (node, actor)));
        all.filter_map(|(node, actor)| Some((node, actor, actor.sender.as_ref()?)))
    }

    /// Every receiving actor with its node.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = (&NodeSpec, &ActorSpec)> {
        let all = self.nodes.iter().flat_map(|node| node.actors.iter().map(move |actor| (node, actor)));
        all.filter(|(_, actor)| actor.role == Role::Receiver)
    }

    /// The node and the actor that `to` names.
    pub fn target(&self, to: &str) -> Option<(&NodeSpec, &ActorSpec)> {
        let (node, actor) = to.split_once('/')?;
        self.receivers().find(|(n, a)| n.name == node && a.name == actor)
    }
}

impl NodeSpec {
    /// Whether this process runs any of its instances.
    pub(crate) fn is_here(&self) -> bool {
        self.local.contains(&true)
    }

    /// Whether another process runs any of its instances.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.local.contains(&false)
    }

    /// `node/actor`.
    pub(crate) fn path(&self, actor: &ActorSpec) -> String {
        format!("{}/{}", self.name, actor.name)
    }
}

impl ActorSpec {
    /// The fixed address that others can know; port 0 is the operating system's choice and no address.
    pub(crate) fn listen(&self) -> Option<SocketAddr> {
        let text = self.own.get("listen")?.as_str()?;
        text.parse().ok().filter(|address: &SocketAddr| address.port() != 0)
    }

    /// How long the analysis of one request takes; `None` for a kind that does not say.
    pub fn analysis(&self) -> Option<Span> {
        let analyzer = self.own.get("analyzer")?.as_table()?;
        let span = |key: &str| analyzer.get(key)?.as_str()?.parse::<Span>().ok();
        let (pause, spin) = (span("pause")?, span("spin")?);
        Some(Span::from_nanos(pause.as_nanos().saturating_add(spin.as_nanos())))
    }
}
