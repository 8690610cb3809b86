//! Which node goes to which agent: the largest first, each to the first that has room and what its host asks for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rehearsal_core::fleet::{Card, Need};
use rehearsal_core::plan::{HostPlan, NodePlan, Plan};
use rehearsal_core::units::ByteSize;

/// Agents by name, each with what its nodes need.
pub(super) type Placement = BTreeMap<String, Vec<Need>>;

/// An agent with what is left of it while nodes are placed.
struct Room<'a> {
    card: &'a Card,
    vcpu: f64,
    memory: ByteSize,
    /// The experiment's host that it stands for.
    host: Option<usize>,
    nodes: Vec<Need>,
}

/// Places every node of `plan` that is run elsewhere. The same fleet gives the same placement.
///
/// A host of the experiment is one agent: the one that it names, or the first with its labels and room for all its nodes.
/// Hosts that ask for something come first, then other hosts, then nodes without one; within these, nodes are taken by
/// decreasing vCPU, then memory. A node without limits and without a host goes to the agent that has the fewest nodes.
///
/// # Errors
/// Names the node that finds no place, and why each agent is none.
pub(super) fn place(plan: &Plan, cards: &[Card]) -> Result<Placement, String> {
    let mut rooms: Vec<Room<'_>> = cards.iter().map(Room::new).collect();
    let mut nodes: Vec<&NodePlan> =
        plan.nodes.iter().filter(|node| !node.local && node.measured && !node.foreign).collect();
    // stable: equal ones stay in the order of the experiment
    nodes.sort_by_key(|node| {
        let (vcpu, memory) = size(node);
        let free =
            node.host.map_or(2, |row| u8::from(plan.hosts[row].agent.is_none() && plan.hosts[row].labels.is_empty()));
        (free, Reverse((vcpu * 1e6) as u64), Reverse(memory))
    });
    for node in &nodes {
        let wanted = Wanted::new(node, plan, &nodes, &rooms);
        let Some(at) = wanted.best(&rooms) else { return Err(wanted.nowhere(&rooms)) };
        let (vcpu, memory) = size(node);
        let room = &mut rooms[at];
        room.vcpu -= vcpu;
        room.memory = ByteSize(room.memory.0 - memory.0);
        room.host = room.host.or(node.host);
        room.nodes.push(Need { node: node.name.clone(), vcpu, memory });
    }
    let used = rooms.into_iter().filter(|room| !room.nodes.is_empty());
    Ok(used.map(|room| (room.card.agent.clone(), room.nodes)).collect())
}

/// The placement in words, a line for each agent.
pub(super) fn words(placement: &Placement) -> String {
    let line = |(agent, needs): (&String, &Vec<Need>)| {
        let nodes: Vec<&str> = needs.iter().map(|need| need.node.as_str()).collect();
        format!("  {agent}: {}\n", nodes.join(", "))
    };
    placement.iter().map(line).collect()
}

impl<'a> Room<'a> {
    fn new(card: &'a Card) -> Self {
        let (vcpu, memory) = card.free();
        Room { card, vcpu, memory, host: None, nodes: Vec::new() }
    }

    fn holders(&self) -> String {
        let held = self.card.held.iter();
        held.map(|h| format!(", run {} of {} holds {} vCPU and {}", h.run, h.leader, h.vcpu, h.memory)).collect()
    }
}

/// What a node needs of an agent.
struct Wanted<'a> {
    node: &'a NodePlan,
    host: Option<(usize, &'a HostPlan)>,
    /// The agent that stands for the host already.
    home: Option<usize>,
    /// What must be free: for the node, or for all of its host while that has no agent.
    vcpu: f64,
    memory: ByteSize,
}

impl<'a> Wanted<'a> {
    fn new(node: &'a NodePlan, plan: &'a Plan, nodes: &[&NodePlan], rooms: &[Room<'_>]) -> Self {
        let home = rooms.iter().position(|room| node.host.is_some() && room.host == node.host);
        let alike: Vec<&NodePlan> = if node.host.is_some() && home.is_none() {
            nodes.iter().copied().filter(|other| other.host == node.host).collect()
        } else {
            vec![node]
        };
        let vcpu = alike.iter().map(|node| size(node).0).sum();
        let memory = alike.iter().fold(0_u64, |sum, node| sum.saturating_add(size(node).1.0));
        let host = node.host.map(|row| (row, &plan.hosts[row]));
        Wanted { node, host, home, vcpu, memory: ByteSize(memory) }
    }

    fn best(&self, rooms: &[Room<'_>]) -> Option<usize> {
        let mut fits = rooms.iter().enumerate().filter(|(at, room)| self.against(*at, room).is_none());
        if self.host.is_none() && self.vcpu == 0.0 && self.memory.0 == 0 {
            return fits.min_by_key(|(_, room)| room.nodes.len()).map(|(at, _)| at);
        }
        fits.next().map(|(at, _)| at)
    }

    /// Why the agent at `at` is no place for it.
    fn against(&self, at: usize, room: &Room<'_>) -> Option<String> {
        if let Some((row, host)) = self.host {
            if self.home.is_some_and(|home| home != at) {
                return Some(format!("host `{}` is another agent", host.name));
            }
            if host.agent.as_ref().is_some_and(|agent| *agent != room.card.agent) {
                return Some(format!("host `{}` names another agent", host.name));
            }
            if let Some((key, value)) =
                host.labels.iter().find(|(key, value)| room.card.labels.get(*key) != Some(value))
            {
                return Some(format!("it has no label {key}={value}"));
            }
            if room.host.is_some_and(|taken| taken != row) {
                return Some("it stands for another host already".to_owned());
            }
        }
        if self.vcpu > room.vcpu + 1e-9 {
            return Some(format!("{} of {} vCPU are left{}", room.vcpu, room.card.cores, room.holders()));
        }
        let all = room.card.memory;
        (self.memory > room.memory).then(|| format!("{} of {all} of memory are left{}", room.memory, room.holders()))
    }

    fn nowhere(&self, rooms: &[Room<'_>]) -> String {
        let what = match self.host {
            Some((_, host)) if self.home.is_none() => format!("host `{}` with its nodes", host.name),
            Some((_, host)) => format!("`{}` of host `{}`", self.node.name, host.name),
            None => format!("`{}`", self.node.name),
        };
        let mut text = format!("{what} needs {} vCPU and {}, and no agent has room for it", self.vcpu, self.memory);
        for (at, room) in rooms.iter().enumerate() {
            let why = self.against(at, room).unwrap_or_default();
            text.push_str(&format!("\n  {}: {why}", room.card.agent));
        }
        if rooms.is_empty() {
            text.push_str("\n  there are no agents; start some with `rehearsal agent`, or wait with --expect-agents N");
        }
        text
    }
}

fn size(node: &NodePlan) -> (f64, ByteSize) {
    (node.vcpu.unwrap_or(0.0), node.memory.unwrap_or(ByteSize(0)))
}

#[cfg(test)]
mod tests {
    use rehearsal_core::fleet::{ClockFacts, Held};
    use rehearsal_scenario::{LoadOptions, parse};

    use super::*;
    use crate::registry::registry;

    fn card(agent: &str, cores: f64, labels: &[(&str, &str)]) -> Card {
        Card {
            agent: agent.to_owned(),
            version: String::new(),
            architecture: String::new(),
            kernel: String::new(),
            address: [127, 0, 0, 1].into(),
            cores,
            host_cores: 8,
            memory: ByteSize(1 << 30),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            interfaces: BTreeMap::new(),
            clock: ClockFacts::default(),
            allow: Vec::new(),
            rate_max: None,
            bit_rate_max: None,
            enforces: true,
            held: Vec::new(),
        }
    }

    /// Places the nodes of a file; only their names are wanted.
    fn placed(nodes: &str, cards: &[Card]) -> Result<Vec<(String, Vec<String>)>, String> {
        let text = format!("[experiment]\nname = \"p\"\nduration = \"1s\"\n{nodes}");
        let experiment = parse("p.toml".as_ref(), text, &registry(), &LoadOptions::default()).expect("an experiment");
        let mut plan = experiment.plan(0);
        plan.nodes.iter_mut().for_each(|node| node.local = !node.measured);
        let names = |needs: Vec<Need>| needs.into_iter().map(|need| need.node).collect();
        Ok(place(&plan, cards)?.into_iter().map(|(agent, needs)| (agent, names(needs))).collect())
    }

    fn node(name: &str, lines: &str) -> String {
        format!(
            "[nodes.{name}]\n{lines}\n[nodes.{name}.actors.main]\nkind = \"sensor\"\nto = \"sink/main\"\n{}",
            if name == "last" { "[nodes.sink.actors.main]\nkind = \"receiver\"\n" } else { "" }
        )
    }

    fn found(placed: &[(String, Vec<String>)]) -> Vec<(&str, String)> {
        placed.iter().map(|(agent, nodes)| (agent.as_str(), nodes.join(" "))).collect()
    }

    #[test]
    fn the_largest_come_first_and_each_goes_to_the_first_with_room() {
        let nodes = node("small", "count = 2\nvcpu = 0.5") + &node("large", "vcpu = 2") + &node("last", "vcpu = 1.5");
        let cards = [card("a", 2.0, &[]), card("b", 2.5, &[])];
        let placed = placed(&nodes, &cards).expect("room for all");
        assert_eq!(found(&placed), [("a", "large sink".to_owned()), ("b", "last small-1 small-2".to_owned())]);
    }

    #[test]
    fn nodes_without_limits_are_spread() {
        let placed = placed(&node("last", "count = 3"), &[card("a", 1.0, &[]), card("b", 1.0, &[])]).expect("room");
        assert_eq!(found(&placed), [("a", "last-1 last-3".to_owned()), ("b", "last-2 sink".to_owned())]);
    }

    #[test]
    fn a_host_is_one_agent_with_room_for_all_of_it() {
        let hosts = "[hosts.any]\ncores = 4\n[hosts.air]\ncores = 1\nlabels = { radio = \"5g\" }\n";
        let nodes = node("many", "count = 3\nhost = \"any\"\nvcpu = 1") + &node("last", "host = \"air\"\nvcpu = 1");
        let cards = [card("a", 4.0, &[("radio", "5g")]), card("b", 2.0, &[]), card("c", 3.0, &[])];
        let placed = placed(&(hosts.to_owned() + &nodes), &cards).expect("room");
        let wanted = [("a", "last".to_owned()), ("b", "sink".to_owned()), ("c", "many-1 many-2 many-3".to_owned())];
        assert_eq!(found(&placed), wanted, "the one with labels comes first, b has no room for all three");
    }

    #[test]
    fn who_holds_what_is_missing_is_named() {
        let mut taken = card("a", 2.0, &[]);
        let held = Held { run: "r1".into(), leader: "lab:7".into(), vcpu: 1.5, memory: ByteSize(0), nodes: Vec::new() };
        taken.held.push(held);
        let why = placed(&node("last", "vcpu = 1"), &[taken]).expect_err("no room");
        assert!(why.starts_with("`last` needs 1 vCPU and 0B, and no agent has room for it"), "{why}");
        assert!(why.contains("a: 0.5 of 2 vCPU are left, run r1 of lab:7 holds 1.5 vCPU"), "{why}");
        let nobody = placed(&node("last", ""), &[]).expect_err("nobody");
        assert!(nobody.contains("there are no agents"), "{nobody}");
    }
}
