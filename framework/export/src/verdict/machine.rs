//! Rules on the machine below a run: what it took from a node, what it ran out of, and who else used it.

use super::limits::{Limits, Rule};
use super::rules::Findings;
use super::{Code, Evidence, NodeEvidence, Severity};

/// What others than the run used of its machines while it went on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contention {
    /// Share of all its cores that was busy with something else, per cent.
    pub others_percent: f64,
    /// Share of all its cores that the run used, per cent.
    pub own_percent: f64,
}

/// What a receive buffer of UDP is called. The kernel counts what it holds together as one, and it holds datagrams of a flow that
/// come together so (UDP_GRO).
pub(super) const UDP_RECEIVE_BUFFER: &str = "a UDP receive buffer";

/// What the kernel dropped of a node's traffic because a buffer was full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BufferDrops {
    /// Which buffer, in words.
    pub what: String,
    /// How often.
    pub count: u64,
    /// In per cent of what came in or left there.
    pub percent: f64,
}

/// All rules on one node's resources.
pub(super) fn node(node: &NodeEvidence, limits: &Limits, found: &mut Findings) {
    throttled(node, limits, found);
    let name = &node.node;
    if let Some(percent) = node.steal_percent
        && let Some((severity, limit)) = limits.judge(Rule::Stolen, percent)
    {
        let text = format!("the hypervisor took {percent:.1} % of the time from {name}");
        found.of_node(Code::Stolen, severity, name).measured(percent, limit, "%").says(text);
    }
    let shares = [
        (node.descriptors_percent, Rule::DescriptorsExhausted, Code::DescriptorsExhausted, "file descriptors"),
        (node.ports_percent, Rule::PortsExhausted, Code::PortsExhausted, "ephemeral ports"),
    ];
    for (percent, rule, code, what) in shares {
        if let Some(percent) = percent
            && let Some((severity, limit)) = limits.judge(rule, percent)
        {
            let text = format!("{name} used {percent:.1} % of its {what}: connections may have failed for want of one");
            found.of_node(code, severity, name).measured(percent, limit, "%").says(text);
        }
    }
    for drops in node.buffer_drops.iter().filter(|drops| drops.count > 0) {
        let Some((severity, limit)) = limits.judge(Rule::BuffersExhausted, drops.percent) else { continue };
        let BufferDrops { what, count, percent } = drops;
        let train = if what == UDP_RECEIVE_BUFFER { "; datagrams that came as one train count once" } else { "" };
        let text = format!(
            "{what} of {name} overflowed {count} times ({percent:.2} %{train}): that loss is not the network's"
        );
        found.of_node(Code::BuffersExhausted, severity, name).measured(*percent, limit, "%").says(text);
    }
}

fn throttled(node: &NodeEvidence, limits: &Limits, found: &mut Findings) {
    let Some(percent) = node.throttled_percent else { return };
    let Some((severity, limit)) = limits.judge(Rule::Throttled, percent) else { return };
    let name = &node.node;
    let (code, severity, text) = if node.sends {
        let text = format!("{name} sends and was held back by its CPU quota for {percent:.1} % of the time");
        (Code::Throttled, severity, text)
    } else {
        let text = format!("{name} was held back by its CPU quota for {percent:.1} % of the time");
        (Code::ReceiverThrottled, Severity::Note, text)
    };
    found.of_node(code, severity, name).measured(percent, limit, "%").says(text);
}

/// Who else used the machines.
pub(super) fn hosts(evidence: &Evidence, limits: &Limits, found: &mut Findings) {
    let Some(Contention { others_percent: others, own_percent: own }) = evidence.contention else { return };
    let Some((severity, limit)) = limits.judge(Rule::Contended, others) else { return };
    let text = format!("others used {others:.0} % of the machine's CPU, the run's own nodes {own:.0} %");
    found.add(Code::Contended, severity).measured(others, limit, "%").says(text);
}
