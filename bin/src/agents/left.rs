//! What a run left on its agents, and what that means for the bundle.

use std::collections::BTreeMap;

use rehearsal_bus::clock::Tracked;
use rehearsal_core::fleet::Card;
use rehearsal_export::{Clock, HostClock, Overcommit, RunFacts};

/// Agents that a reason names before it counts the rest.
const NAMES_MAX: usize = 6;

/// What a run left on its agents.
#[derive(Debug, Default)]
pub struct Left {
    /// Agents, their nodes, and what is known of their clocks.
    pub hosts: Vec<HostLeft>,
    /// For the verdict's notes.
    pub notes: Vec<String>,
}

/// What a run left on one agent.
#[derive(Debug)]
pub struct HostLeft {
    /// The agent.
    pub card: Card,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// Cores that they hold together.
    pub vcpu: f64,
    /// Its clock; `None` if it was never read.
    pub clock: Option<Tracked>,
}

impl Left {
    /// Tells the bundle.
    pub fn complete(self, facts: &mut RunFacts) {
        facts.clock = self.clock();
        facts.clocks = self.hosts.iter().map(HostLeft::clock).collect();
        let unenforced: Vec<&str> =
            self.hosts.iter().filter(|host| !host.card.enforces).map(|host| host.card.agent.as_str()).collect();
        facts.limits_enforced = facts.limits_enforced.map(|_| unenforced.is_empty());
        facts.limits_why = cannot(&unenforced);
        facts.overcommitted = self.overcommitted();
        facts.notes.extend(self.start(facts));
        facts.notes.extend(self.notes);
    }

    /// How the start went, in words.
    fn start(&self, facts: &RunFacts) -> Option<String> {
        let late = facts.starts.iter().map(|start| start.late_ns).max()?;
        let [skew, late] = [facts.start_skew_ns?, late].map(|ns| ns as f64 / 1e6);
        let agents = match self.hosts.len() {
            1 => "1 agent".to_owned(),
            several => format!("{several} agents"),
        };
        Some(format!("nodes on {agents} began within {skew:.2} ms, the last one {late:.2} ms after the agreed time"))
    }

    /// Kernels with fewer cores than the vCPU that their agents enforce together. An agent by itself never holds too many.
    fn overcommitted(&self) -> Vec<Overcommit> {
        let mut kernels: BTreeMap<&str, (Vec<&str>, f64, u32)> = BTreeMap::new();
        for host in self.hosts.iter().filter(|host| host.card.enforces) {
            let kernel = host.card.clock.id.split(' ').next().unwrap_or_default();
            let (agents, vcpu, cores) = kernels.entry(kernel).or_default();
            agents.push(&host.card.agent);
            *vcpu += host.vcpu;
            *cores = host.card.host_cores;
        }
        let over = kernels.into_values().filter(|(_, vcpu, cores)| *vcpu > f64::from(*cores));
        over.map(|(agents, vcpu, cores)| Overcommit { host: format!("of {}", agents.join(", ")), vcpu, cores })
            .collect()
    }

    /// How far times of two hosts can be compared: both may be wrong, each by its own uncertainty.
    fn clock(&self) -> Clock {
        let mut known = Vec::new();
        for host in &self.hosts {
            match host.clock {
                Some(clock) if clock.one_clock => {}
                Some(clock) => known.push(clock.uncertainty_ns),
                None => return Clock::Unknown,
            }
        }
        known.sort_unstable_by(|a, b| b.cmp(a));
        match known[..] {
            [] => Clock::One,
            [only] => Clock::Measured { uncertainty_ns: only },
            [first, second, ..] => Clock::Measured { uncertainty_ns: first.saturating_add(second) },
        }
    }
}

impl HostLeft {
    fn clock(&self) -> HostClock {
        HostClock {
            agent: self.card.agent.clone(),
            nodes: self.nodes.clone(),
            offset_ns: self.clock.map(|clock| clock.offset_ns),
            uncertainty_ns: self.clock.map(|clock| clock.uncertainty_ns),
            drift_ppb: self.clock.and_then(|clock| clock.drift_ppb),
            readings: self.clock.map_or(0, |clock| clock.readings),
            one_clock: self.clock.is_some_and(|clock| clock.one_clock),
            source: self.card.clock.source.clone(),
        }
    }
}

/// Who cannot hold nodes to their limits.
fn cannot(agents: &[&str]) -> Option<String> {
    let quoted = |agents: &[&str]| agents.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match agents {
        [] => None,
        [one] => Some(format!("agent `{one}` cannot")),
        all if all.len() <= NAMES_MAX => Some(format!("agents {} cannot", quoted(all))),
        all => Some(format!("agents {} and {} more cannot", quoted(&all[..NAMES_MAX]), all.len() - NAMES_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::fleet::ClockFacts;
    use rehearsal_core::units::ByteSize;

    use super::*;

    fn host(kernel: &str, uncertainty_ns: Option<u64>, vcpu: f64) -> HostLeft {
        let one_clock = uncertainty_ns == Some(0);
        let clock = |uncertainty_ns| Tracked { offset_ns: 5, uncertainty_ns, drift_ppb: None, readings: 2, one_clock };
        let card = Card {
            agent: format!("on-{kernel}"),
            version: String::new(),
            architecture: String::new(),
            kernel: String::new(),
            address: [127, 0, 0, 1].into(),
            cores: 2.0,
            host_cores: 2,
            memory: ByteSize(0),
            labels: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            clock: ClockFacts { id: format!("{kernel} time:[1]"), ..ClockFacts::default() },
            allow: Vec::new(),
            rate_max: None,
            bit_rate_max: None,
            enforces: true,
            held: Vec::new(),
        };
        HostLeft { card, nodes: vec!["n".to_owned()], vcpu, clock: uncertainty_ns.map(clock) }
    }

    fn left(hosts: Vec<HostLeft>) -> Left {
        Left { hosts, notes: Vec::new() }
    }

    #[test]
    fn times_of_two_hosts_may_be_wrong_by_both_uncertainties() {
        let clock = |of: &[Option<u64>]| left(of.iter().map(|u| host("k", *u, 0.0)).collect()).clock();
        assert_eq!(clock(&[Some(0), Some(0)]), Clock::One);
        assert_eq!(clock(&[Some(0), Some(70)]), Clock::Measured { uncertainty_ns: 70 });
        assert_eq!(clock(&[Some(20), Some(70), Some(50)]), Clock::Measured { uncertainty_ns: 120 });
        assert_eq!(clock(&[Some(20), None]), Clock::Unknown);
    }

    #[test]
    fn agents_that_cannot_hold_nodes_are_named() {
        assert_eq!(cannot(&[]), None);
        assert_eq!(cannot(&["a"]).as_deref(), Some("agent `a` cannot"));
        assert_eq!(cannot(&["a", "b"]).as_deref(), Some("agents `a`, `b` cannot"));
        let many = cannot(&["a", "b", "c", "d", "e", "f", "g", "h"]);
        assert_eq!(many.as_deref(), Some("agents `a`, `b`, `c`, `d`, `e`, `f` and 2 more cannot"));
    }

    #[test]
    fn agents_of_one_kernel_share_its_cores() {
        let over = |hosts| left(hosts).overcommitted();
        assert_eq!(over(vec![host("k", None, 1.5), host("l", None, 1.5)]), []);
        let both = over(vec![host("k", None, 1.5), host("k", None, 1.0)]);
        assert_eq!((both[0].vcpu, both[0].cores), (2.5, 2));
    }

    #[test]
    fn the_bundle_is_told_how_the_start_went() {
        let start = |node: &str, late_ns| rehearsal_export::NodeStart { node: node.to_owned(), late_ns };
        let mut facts = RunFacts {
            starts: vec![start("a", 100_000), start("b", 1_600_000)],
            start_skew_ns: Some(1_500_000),
            limits_enforced: Some(false),
            ..RunFacts::default()
        };
        left(vec![host("k", Some(30), 1.0)]).complete(&mut facts);
        assert_eq!(facts.limits_enforced, Some(true), "the agent does, whatever the leader can");
        assert_eq!(facts.clocks[0].uncertainty_ns, Some(30));
        let note = "nodes on 1 agent began within 1.50 ms, the last one 1.60 ms after the agreed time";
        assert!(facts.notes.contains(&note.to_owned()), "{:?}", facts.notes);
    }
}
