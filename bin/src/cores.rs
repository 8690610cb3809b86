//! Whether the cores suffice: what the load of an experiment costs by a calibration, against the cores that its nodes have.
//! Only what clearly does not fit is a reason not to start. A closed loop takes what it gets, but no more than those under way
//! by the time that each exchange takes without any core: its ways and the receiver's pause. Without these it has no
//! bound, and is not counted. A flow's datagrams leave many at a time, whose fixed cost no calibration tells: it is counted as if
//! trains were as long as they can be, which is the least that they cost.

use std::collections::BTreeMap;

use rehearsal_core::Role;
use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::calibration::{Calibration, Cost};
use rehearsal_core::kind::Weight;
use rehearsal_core::plan::{Carrier, Connection, Impose, LinkSpec, TlsHandshake};

use crate::cli::Placement;

/// How many times the cores that there are a load must cost to be clearly too much, by costs that were measured. Assumed:
/// twice what held-out points of calibrations were off by.
const CLEAR: f64 = 1.2;
/// The same by costs that nobody measured. Assumed: they tell orders of magnitude.
const CLEAR_UNMEASURED: f64 = 3.0;
/// Datagrams of a flow that leave and come in together at most. Source: `UDP_MAX_SEGMENTS` of Linux.
const TRAIN_MAX: f64 = 64.0;
/// An echo of a datagram: the header alone.
const ECHO_BYTES: f64 = rehearsal_models::wire::ECHO_BYTES as f64;

/// What nodes may use.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Where they run.
    pub placement: Placement,
    /// Whether somebody holds them to their vCPU.
    pub enforced: bool,
    /// Cores of this machine.
    pub cores: u32,
}

/// Cores that one node's load needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Need {
    /// Of its one thread that sends and receives.
    traffic: f64,
    /// For what its actors compute.
    work: f64,
    /// Exchanges and datagrams in a second, sent and received.
    rate: f64,
}

/// Reasons not to start: nodes whose load clearly costs more cores than they have, each with what to do about it.
pub fn doubts(assembly: &Assembly, calibration: &Calibration, given: Given) -> Vec<String> {
    let needs = needs(assembly, calibration);
    let judge = Judge { assembly, calibration, given };
    let mut found: BTreeMap<(usize, &str), (String, u32)> = BTreeMap::new();
    for (row, need) in needs.iter().enumerate() {
        let node = &assembly.plan.nodes[row];
        if node.foreign || node.outside.is_some() || (given.placement == Placement::Embedded && !node.local) {
            continue;
        }
        let Some((bound, text)) = judge.node(row, need) else { continue };
        // the instances of a node are alike: one stands for all
        found.entry((bound, node.template.as_str())).or_insert((text, 0)).1 += 1;
    }
    let mut found: Vec<String> = found
        .into_values()
        .map(|(text, alike)| if alike > 1 { format!("{text} (so do {} more like it)", alike - 1) } else { text })
        .collect();
    found.extend(judge.machine(&needs));
    found
}

struct Judge<'a> {
    assembly: &'a Assembly,
    calibration: &'a Calibration,
    given: Given,
}

impl Judge<'_> {
    fn clear(&self) -> f64 {
        if self.calibration.host.measured { CLEAR } else { CLEAR_UNMEASURED }
    }

    /// What a node lacks: which bound, and the words.
    fn node(&self, row: usize, need: &Need) -> Option<(usize, String)> {
        let node = &self.assembly.plan.nodes[row];
        let (title, rate) = (self.calibration.title(), need.rate);
        let threads = f64::from(self.calibration.cpu.io_threads);
        if need.traffic > self.clear() * threads {
            let (needed, share) = (need.traffic, 100.0 * threads / need.traffic);
            let nodes = (need.traffic / threads).ceil();
            return Some((
                0,
                format!(
                    "`{}` needs {needed:.1} cores for its {rate:.0} messages of traffic in a second (by the calibration {title}), \
                     and a node's traffic has one thread: lower its load to {share:.0} % or less, or share it among {nodes:.0} \
                     nodes or more",
                    node.name
                ),
            ));
        }
        let needed = need.traffic + need.work + self.calibration.cpu.rest_cores;
        let vcpu = node.vcpu.filter(|_| self.given.enforced)?;
        (needed > self.clear() * vcpu).then(|| {
            (
                1,
                format!(
                    "`{}` needs {needed:.2} cores for its {rate:.0} messages of traffic in a second and what it computes (by \
                     the calibration {title}), and has `vcpu = {vcpu}`: lower its load to {:.0} % or less, or write \
                     `vcpu = {}`",
                    node.name,
                    100.0 * vcpu / needed,
                    (needed * 10.0).ceil() / 10.0
                ),
            )
        })
    }

    /// What this machine lacks for all nodes that run on it.
    fn machine(&self, needs: &[Need]) -> Option<String> {
        if self.given.placement == Placement::Agents {
            return None;
        }
        let nodes = &self.assembly.plan.nodes;
        let embedded = self.given.placement == Placement::Embedded;
        let here = |row: usize| {
            let node = &nodes[row];
            !node.foreign && node.outside.is_none() && (node.local || !embedded)
        };
        let needed: f64 = needs
            .iter()
            .enumerate()
            .filter(|(row, need)| here(*row) && need.rate > 0.0)
            .map(|(_, need)| need.traffic + need.work + self.calibration.cpu.rest_cores)
            .sum();
        let cores = self.given.cores;
        let there_are = f64::from(cores) * self.calibration.speed(cores);
        (needed > self.clear() * there_are).then(|| {
            format!(
                "the nodes that run here need {needed:.1} cores together (by the calibration {}), and this machine has {cores}: \
                 lower the load to {:.0} % or less, or spread the nodes over several hosts with --placement agents",
                self.calibration.title(),
                100.0 * there_are / needed
            )
        })
    }
}

/// What each node of the plan needs.
fn needs(assembly: &Assembly, calibration: &Calibration) -> Vec<Need> {
    let mut needs = vec![Need::default(); assembly.plan.nodes.len()];
    for sender in assembly.groups.iter().filter(|group| group.role == Role::Sender) {
        let Some(weight) = sender.weight else { continue };
        let to = &assembly.plan.nodes[sender.node].groups[sender.row].sender;
        let to = to.as_ref().and_then(|params| assembly.plan.path_to(&params.to)).unwrap_or_default();
        let named = |group: &&Group| {
            to.split_once('/') == Some((assembly.plan.nodes[group.node].template.as_str(), group.actor.as_str()))
        };
        let targets: Vec<&Group> = assembly.groups.iter().filter(named).collect();
        let instances: f64 = targets.iter().map(|target| f64::from(target.pool.len())).sum();
        let Some(rate) = rate(assembly, sender).or_else(|| loops(assembly, sender, &targets)) else { continue };
        for target in targets {
            let rate = rate * f64::from(target.pool.len()) / instances;
            let link = assembly.link(sender.node, target.node);
            let train = if sender.kind == "flow" { TRAIN_MAX } else { 1.0 };
            let [sent, received] = each(calibration, link, &weight, target.weight.as_ref(), train);
            for (node, cost) in [(sender.node, sent), (target.node, received)] {
                let need = &mut needs[node];
                need.traffic += rate * cost.traffic;
                need.work += rate * cost.work;
                need.rate += rate;
            }
        }
    }
    needs
}

/// Exchanges or datagrams of a group in a second, in the mean; `None` for a closed loop.
fn rate(assembly: &Assembly, sender: &Group) -> Option<f64> {
    let members = f64::from(sender.pool.len());
    let streams = sender.streams?;
    if let Some(gap) = streams.gap {
        return Some(members * f64::from(streams.per_member) / gap.as_secs_f64());
    }
    let build = &assembly.plan.nodes[sender.node].groups[sender.row].build;
    build.offers()?.per_second.map(|rate| members * rate)
}

/// Exchanges of a closed loop in a second at most: of each that may be under way, one in the time that it takes without any
/// core, and no more than the receivers' workers can have at once. `None` if that time is not known or nothing.
fn loops(assembly: &Assembly, sender: &Group, targets: &[&Group]) -> Option<f64> {
    let group = &assembly.plan.nodes[sender.node].groups[sender.row];
    // what paces itself is no closed loop, though its rate may not be known
    if group.build.offers().is_some() || group.sender.as_ref().is_none_or(|params| params.is_paced()) {
        return None;
    }
    let streams = sender.streams?;
    let under_way = f64::from(sender.pool.len()) * f64::from(streams.per_member) * f64::from(streams.in_flight);
    let (mut bound, mut cycle) = (0.0, f64::INFINITY);
    for target in targets {
        let answer = target.weight?;
        let held = (answer.pause + answer.compute).as_secs_f64();
        // a delay that is stated and not imposed holds nobody back
        let delay = |link: &LinkSpec| if link.impose == Impose::None { 0.0 } else { link.delay.as_secs_f64() };
        let way = delay(assembly.link(sender.node, target.node)) + delay(assembly.link(target.node, sender.node));
        cycle = cycle.min(held + way);
        let workers = answer.at_once.filter(|_| held > 0.0).map_or(f64::INFINITY, f64::from);
        bound += f64::from(target.pool.len()) * workers / held;
    }
    (cycle > 0.0 && cycle.is_finite()).then(|| (under_way / cycle).min(bound))
}

/// Cores that one exchange in a second needs at its sender and at its receiver; `train` leave and come in together.
fn each(calibration: &Calibration, link: &LinkSpec, weight: &Weight, answer: Option<&Weight>, train: f64) -> [Need; 2] {
    let mut both = [Need::default(); 2];
    if let Some(costs) = calibration.carriers.get(&link.carrier) {
        let reply = |cost: fn(&rehearsal_core::calibration::ReplyCosts) -> &Cost, other: &Cost| {
            let bytes = if link.is_answered() { answer.map_or(0.0, |answer| answer.bytes) } else { ECHO_BYTES };
            if link.is_exchange() { mean(costs.reply.as_ref().map_or(other, cost), bytes) } else { 0.0 }
        };
        let message = |cost: &Cost| mean(&Cost { fixed_ns: cost.fixed_ns / train, ..cost.clone() }, weight.bytes);
        both[0].traffic = message(&costs.send) + reply(|reply| &reply.receive, &costs.receive);
        both[1].traffic = message(&costs.receive) + reply(|reply| &reply.send, &costs.send);
        both[1].traffic += costs.saturation.filter(|_| train <= 1.0).map_or(0.0, |seen| seen.hidden_ns / 1e9);
        let opens = link.carrier.is_addressed() && link.carrier != Carrier::Udp;
        if opens && link.connection == Connection::PerRequest {
            both[0].traffic += mean(&costs.connect, 0.0);
            both[1].traffic += mean(costs.accept.as_ref().unwrap_or(&costs.connect), 0.0);
            if let Some(tls) = link.security() {
                let handshake = calibration.tls.of(tls.handshake == TlsHandshake::Resumed);
                both[0].traffic += handshake.connect_ns / 1e9;
                both[1].traffic += handshake.accept_ns / 1e9;
            }
        }
    }
    if weight.encode {
        both[0].work += mean(&calibration.work.encode, weight.bytes);
    }
    let answer = answer.copied().unwrap_or_default();
    both[1].work += answer.compute.as_secs_f64();
    if answer.decode {
        both[1].work += mean(&calibration.work.decode, weight.bytes);
    }
    both
}

/// Core time of something in the mean, s: residuals are linear between their quantiles.
fn mean(cost: &Cost, bytes: f64) -> f64 {
    let residual = match cost.residual.as_slice() {
        [] => 1.0,
        [one] => *one,
        table => table.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).sum::<f64>() / (table.len() - 1) as f64,
    };
    // what is too much would keep the node at work all the time
    cost.mean(bytes, 1.0) * residual / 1e9
}

#[cfg(test)]
mod tests {
    use rehearsal_core::Span;
    use rehearsal_core::calibration::{CarrierCosts, HandshakeCosts};
    use rehearsal_core::plan::TlsSpec;

    use super::*;

    #[test]
    fn an_exchange_costs_what_the_calibration_says() {
        let mut calibration = Calibration::free("lab");
        let cost = |fixed_ns, ns_per_byte| Cost { fixed_ns, ns_per_byte, ..Cost::default() };
        let costs = CarrierCosts {
            send: cost(1000.0, 1.0),
            receive: cost(2000.0, 2.0),
            connect: cost(10_000.0, 0.0),
            ..CarrierCosts::default()
        };
        calibration.carriers.insert(Carrier::Http1, costs);
        let link = LinkSpec::default();
        let (request, answer) = (Weight::of(100.0, 100), Weight::of(10.0, 10));
        let ns = |both: [Need; 2]| both.map(|need| (need.traffic * 1e9).round());
        // 1000 + 100 and 2000 + 2·10 at the sender, 2000 + 2·100 and 1000 + 10 at the receiver
        assert_eq!(ns(each(&calibration, &link, &request, Some(&answer), 1.0)), [3120.0, 3210.0]);
        let fresh = LinkSpec { connection: Connection::PerRequest, ..link.clone() };
        assert_eq!(ns(each(&calibration, &fresh, &request, Some(&answer), 1.0)), [13_120.0, 13_210.0]);
        calibration.tls.full = HandshakeCosts { connect_ns: 300.0, accept_ns: 200.0 };
        let encrypted = LinkSpec { tls: Some(TlsSpec::default()), ..fresh.clone() };
        assert_eq!(ns(each(&calibration, &encrypted, &request, Some(&answer), 1.0)), [13_420.0, 13_410.0]);
        let other = LinkSpec { carrier: Carrier::Udp, ..link.clone() };
        assert_eq!(ns(each(&calibration, &other, &request, Some(&answer), 1.0)), [0.0, 0.0], "nothing is known of it");
        let busy = Weight { compute: Span::from_millis(2), ..answer };
        assert_eq!(each(&calibration, &link, &request, Some(&busy), 1.0)[1].work, 0.002);
        // of a train of ten each has a tenth of the fixed part: 100 + 100 and 200 + 200, and nobody answers
        let costs = calibration.carriers[&Carrier::Http1].clone();
        calibration.carriers.insert(Carrier::Udp, costs);
        assert_eq!(ns(each(&calibration, &other, &request, Some(&answer), 10.0)), [200.0, 400.0]);
    }

    #[test]
    fn residuals_count_by_their_mean() {
        let cost = |residual: &[f64]| Cost { fixed_ns: 1e9, residual: residual.to_vec(), ..Cost::default() };
        assert_eq!(mean(&cost(&[]), 0.0), 1.0);
        assert_eq!(mean(&cost(&[3.0]), 0.0), 3.0);
        assert_eq!(mean(&cost(&[0.0, 1.0, 4.0]), 0.0), 1.5);
    }
}
