//! What a shard tells as an event because it casts doubt on its numbers: a wall clock that somebody set, a host that ran
//! out of something. Each is told once for each node.

use std::collections::BTreeSet;
use std::io;

use rehearsal_core::messages::LifeEvent;
use rustix::io::Errno;

use super::{Shard, State};
use crate::steps::{self, Steps};

/// Steps of the wall clock that are told one by one. Assumed: who sets it more often has said enough.
const STEPS_MAX: u32 = 16;

/// What a host may run out of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shortage {
    /// EMFILE of the process, ENFILE of the host.
    Descriptors,
    /// EADDRNOTAVAIL: every port of the ephemeral range is taken.
    Ports,
}

/// What was told.
#[derive(Default)]
pub(super) struct Doubts {
    steps: Steps,
    steps_told: u32,
    short: BTreeSet<(usize, Shortage)>,
}

impl Shortage {
    /// Whether a socket failed by this host's shortage, and of what.
    pub(crate) fn of(why: &io::Error) -> Option<Self> {
        if why.kind() == io::ErrorKind::AddrNotAvailable {
            return Some(Shortage::Ports);
        }
        let short = matches!(why.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::MFILE | Errno::NFILE));
        short.then_some(Shortage::Descriptors)
    }

    const fn kind(self) -> &'static str {
        match self {
            Shortage::Descriptors => "descriptors-exhausted",
            Shortage::Ports => "ports-exhausted",
        }
    }

    const fn says(self) -> &'static str {
        match self {
            Shortage::Descriptors => "connections could not be opened: no file descriptor was left",
            Shortage::Ports => "connections could not be opened: no ephemeral port was left",
        }
    }
}

impl Shard {
    /// A connection of the node at row `node` could not be opened, or one to it not accepted, for want of something.
    pub(crate) fn short_of(&mut self, node: usize, what: Shortage) {
        let state = &mut self.state;
        if state.doubts.short.insert((node, what)) && !state.closed {
            let event = LifeEvent { text: what.says().to_owned(), ..LifeEvent::default() };
            state.tell_doubt(node, what.kind(), event);
            self.settle();
        }
    }
}

impl State {
    /// Once a second: whether the wall clock was set. The first node of the first shard speaks for the process.
    pub(super) fn look_at_clock(&mut self) {
        if self.index > 0 {
            return;
        }
        let Some(moved) = self.doubts.steps.look() else { return };
        let Some(node) = self.nodes.first().map(|n| n.node).filter(|_| self.doubts.steps_told < STEPS_MAX) else {
            return;
        };
        self.doubts.steps_told += 1;
        let moved_ns = Some(i64::try_from(moved).unwrap_or(if moved < 0 { i64::MIN } else { i64::MAX }));
        let event = LifeEvent { text: steps::says(moved), moved_ns, ..LifeEvent::default() };
        self.tell_doubt(node, "clock-stepped", event);
    }

    fn tell_doubt(&mut self, node: usize, kind: &str, event: LifeEvent) {
        let name = self.world.plan.nodes[node].name.clone();
        let (at, kind) = (self.now(), kind.to_owned());
        self.tell_event(node, LifeEvent { at, kind, node: name, ..event });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_ran_out_is_told_from_a_peer_that_refuses() {
        let of = |errno: Errno| Shortage::of(&errno.into());
        assert_eq!(of(Errno::MFILE), Some(Shortage::Descriptors));
        assert_eq!(of(Errno::NFILE), Some(Shortage::Descriptors));
        assert_eq!(of(Errno::ADDRNOTAVAIL), Some(Shortage::Ports));
        assert_eq!(of(Errno::CONNREFUSED), None);
    }
}
