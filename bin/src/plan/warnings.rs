//! What may go wrong, told before anything is booked.

use rehearsal_core::plan::{Carrier, Connection, Stop};
use rehearsal_core::time::Span;
use rehearsal_scenario::ActorSpec;

use super::arithmetic::{BUSY, DESCRIPTORS, EPHEMERAL_PORTS, TIME_WAIT_S, ports, under_way};
use super::estimate::{Estimate, Sender};
use super::sheet::{Link, Node, Times, Volume, Warning};

/// Share by which a volume may be another than the published one. Assumed: published volumes have two digits.
const OFF: f64 = 0.1;

/// Everything that is worth a warning.
pub fn all(
    of: &Estimate<'_>,
    senders: &[Sender<'_>],
    links: &[Link],
    nodes: &[Node],
    time: &Times,
    volume: &Volume,
) -> Vec<Warning> {
    let mut found = Vec::new();
    for (sender, link) in senders.iter().zip(links) {
        found.extend(used_ports(sender, link));
        found.extend(descriptors(sender));
        found.extend(pace(of, sender));
        found.extend(full_link(link));
    }
    found.extend(shared_address(of, senders, links));
    found.extend(workers(of, links));
    found.extend(nodes.iter().filter_map(interface));
    found.extend(nodes.iter().filter_map(|node| size(of, node)));
    found.extend(cores(of));
    found.extend(deadline(of, senders, time));
    found.extend(other_volume(volume));
    if let Some(fault) = &of.pilot.fault {
        let text = "the short dry run did not come to its end, so sizes and peaks are of its beginning";
        found.push(warning("dry-run", format!("{text}: {fault}")));
    }
    if !of.experiment.control.is_empty() {
        let text = "the experiment changes its load on the way: rates and durations here are of the file's own load";
        found.push(warning("control", text.to_owned()));
    }
    found
}

/// A published volume that the file's own requests do not come to.
fn other_volume(volume: &Volume) -> Option<Warning> {
    let (published, own) = (volume.published_bytes?, volume.payload_bytes.expected);
    let off = own / published - 1.0;
    (off.abs() > OFF).then(|| {
        let than = if off > 0.0 { "more" } else { "less" };
        let text = format!(
            "a run sends {:.0} % {than} than was published: its clip has frames of other sizes",
            off.abs() * 100.0
        );
        warning("volume", text)
    })
}

fn warning(code: &str, text: String) -> Warning {
    Warning { code: code.to_owned(), text }
}

/// Connections per second that end at the sender's side, of one node instance.
fn opened(sender: &Sender<'_>, link: &Link) -> f64 {
    let opens = matches!(sender.link.carrier, Carrier::Http1 | Carrier::Http2)
        && sender.link.connection == Connection::PerRequest;
    if opens { link.requests_per_second * sender.sent.attempts() } else { 0.0 }
}

fn used_ports(sender: &Sender<'_>, link: &Link) -> Option<Warning> {
    let needed = ports(opened(sender, link) / f64::from(sender.node.count()));
    (needed > BUSY * EPHEMERAL_PORTS).then(|| {
        let what = if needed > EPHEMERAL_PORTS { "more than all" } else { "most" };
        warning(
            "ports",
            format!(
                "each `{}` needs {needed:.0} ports, {what} of the {EPHEMERAL_PORTS} that Linux has for one server: a closed \
                 connection keeps its port for {TIME_WAIT_S} s; keep connections alive, or raise ip_local_port_range",
                sender.node.name
            ),
        )
    })
}

/// The same for all nodes of one host, where they share its address.
fn shared_address(of: &Estimate<'_>, senders: &[Sender<'_>], links: &[Link]) -> Option<Warning> {
    let needed = ports(senders.iter().zip(links).map(|(sender, link)| opened(sender, link)).sum());
    let several = senders.iter().map(|s| s.node.count()).sum::<u32>() > 1;
    let each = |(s, l): (&Sender<'_>, &Link)| ports(opened(s, l) / f64::from(s.node.count())) > EPHEMERAL_PORTS;
    let told = senders.iter().zip(links).any(each);
    (needed > EPHEMERAL_PORTS && several && !told).then(|| {
        warning(
            "ports",
            format!(
                "from one address all senders of `{}` would need {needed:.0} ports, Linux has {EPHEMERAL_PORTS}: give each \
                 node an address of its own, as a machine or a network namespace does",
                of.experiment.name
            ),
        )
    })
}

fn descriptors(sender: &Sender<'_>) -> Option<Warning> {
    let keys = sender.keys;
    let needed = u64::from(sender.actor.count) * u64::from(keys.streams) * u64::from(keys.in_flight);
    (needed > DESCRIPTORS).then(|| {
        warning(
            "descriptors",
            format!(
                "each `{}` may have {needed} connections open, the usual limit is {DESCRIPTORS} descriptors: raise `ulimit -n`",
                sender.node.name
            ),
        )
    })
}

/// A paced stream whose requests take so long that `in_flight` of them do not reach the rate.
fn pace(of: &Estimate<'_>, sender: &Sender<'_>) -> Option<Warning> {
    let rate = sender.keys.mean_rate()?.as_f64();
    let (_, receiver) = of.experiment.target(&sender.keys.to)?;
    let stay = receiver.analysis()?.as_secs_f64() + 2.0 * sender.link.delay.as_secs_f64();
    let needed = under_way(rate, stay);
    (needed > f64::from(sender.keys.in_flight)).then(|| {
        warning(
            "pace",
            format!(
                "`{}/{}`: at {rate}/s and {stay} s for each request {needed:.1} are under way (Little's law), in_flight allows \
                 {}: the rate is not reached",
                sender.node.name, sender.actor.name, sender.keys.in_flight
            ),
        )
    })
}

fn full_link(link: &Link) -> Option<Warning> {
    let (share, capacity) = link.utilisation.zip(link.capacity_mbps)?;
    let peak = link.peak_utilisation.unwrap_or(share);
    (share > BUSY).then(|| {
        let (share, peak) = (share * 100.0, peak * 100.0);
        let ends = format!("{} -> {}", link.from, link.to);
        let which = if link.capacity_is_lowest { ", the lowest rate of its trace," } else { "" };
        warning("link", format!("{ends}: {share:.0} % of {capacity} Mbit/s{which} on average, {peak:.0} % in peaks"))
    })
}

/// Little's law at each receiver, for each of its pools.
fn workers(of: &Estimate<'_>, links: &[Link]) -> Vec<Warning> {
    let mut found = Vec::new();
    for node in &of.experiment.nodes {
        for actor in &node.actors {
            let Some((stay, desks)) = actor.analysis().zip(desks(actor)) else { continue };
            let name = format!("{}/{}", node.name, actor.name);
            let instances = f64::from(node.count()) * f64::from(actor.count);
            let own = |from: &str| desks.iter().position(|(whom, _)| whom.iter().any(|name| name == from));
            for (row, (_, workers)) in desks.iter().enumerate() {
                let here = links.iter().filter(|l| l.to == name && own(&l.from).unwrap_or(0) == row);
                let arriving: f64 = here.map(|l| l.requests_per_second).sum();
                found.extend(busy(&name, arriving / instances, stay, *workers));
            }
        }
    }
    found
}

/// Pools of workers, with whom they serve; the first is for all that no other serves.
fn desks(actor: &ActorSpec) -> Option<Vec<(Vec<String>, f64)>> {
    let workers = |table: &toml::Table| Some(table.get("workers")?.as_integer()? as f64);
    let mut desks = vec![(Vec::new(), workers(&actor.own)?)];
    for pool in actor.own.get("pools").and_then(toml::Value::as_array).into_iter().flatten() {
        let pool = pool.as_table()?;
        let whom = pool.get("from")?.as_array()?.iter().filter_map(|name| Some(name.as_str()?.to_owned()));
        desks.push((whom.collect(), workers(pool)?));
    }
    Some(desks)
}

fn busy(name: &str, per_second: f64, stay: Span, workers: f64) -> Option<Warning> {
    let needed = under_way(per_second, stay.as_secs_f64());
    (needed > BUSY * workers).then(|| {
        let then = if needed >= workers { "it cannot keep up" } else { "requests will queue" };
        warning(
            "workers",
            format!(
                "`{name}`: {per_second:.1} requests/s that stay {stay} keep {needed:.1} of {workers} workers busy (Little's law): \
                 {then}"
            ),
        )
    })
}

fn interface(node: &Node) -> Option<Warning> {
    let (share, booked) = node.utilisation.zip(node.booked.as_ref())?;
    (share > BUSY).then(|| {
        let text =
            format!("each `{}`: {:.0} % of its interface's {} Mbit/s", node.name, share * 100.0, booked.nic_mbps);
        warning("interface", text)
    })
}

fn size(of: &Estimate<'_>, node: &Node) -> Option<Warning> {
    node.booked.is_none().then(|| {
        let text = format!("`{}` asks for more than the largest machine of {}", node.name, of.facility.facility.name);
        warning("size", text)
    })
}

fn cores(of: &Estimate<'_>) -> Vec<Warning> {
    let experiment = of.experiment;
    let asked = |row: usize| -> f64 {
        let here = experiment.nodes.iter().filter(|node| node.host == Some(row));
        here.filter_map(|node| Some(node.vcpu? * f64::from(node.count()))).sum()
    };
    let over = experiment.hosts.iter().enumerate().map(|(row, host)| (host, asked(row)));
    over.filter(|(host, asked)| *asked > f64::from(host.cores))
        .map(|(host, asked)| {
            let text = format!("host `{}` has {} cores, its nodes ask for {asked}", host.name, host.cores);
            warning("cores", text)
        })
        .collect()
}

/// Requests that on average take longer than their limit.
fn deadline(of: &Estimate<'_>, senders: &[Sender<'_>], time: &Times) -> Vec<Warning> {
    let late = |sender: &&Sender<'_>| {
        let closed = !sender.keys.is_paced() && of.experiment.stop == Stop::AllRequestsDone;
        let Some(limit) = sender.keys.limit.filter(|_| closed) else { return false };
        let each = f64::from(sender.node.count()) * f64::from(sender.actor.count) * f64::from(sender.keys.streams);
        time.run_s.expected * each * f64::from(sender.keys.in_flight) / sender.requests > limit.deadline.as_secs_f64()
    };
    let told = |sender: &Sender<'_>| {
        let text =
            format!("`{}/{}`: at this pace a request takes longer than its limit", sender.node.name, sender.actor.name);
        warning("deadline", text)
    };
    senders.iter().filter(late).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_busy_from_four_fifths_on() {
        let said = |rate: f64, workers: f64| busy("r/main", rate, Span::from_millis(20), workers).map(|w| w.text);
        // 136/s that stay 20 ms: 2.72
        assert_eq!(said(136.0, 4.0), None);
        assert!(said(136.0, 3.0).is_some_and(|t| t.contains("2.7 of 3 workers") && t.contains("queue")));
        assert!(said(136.0, 2.0).is_some_and(|t| t.contains("cannot keep up")));
    }
}
