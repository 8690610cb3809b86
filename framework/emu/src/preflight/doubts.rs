//! What would make a run's numbers worthless and can be known before the start: targets that do not answer, ports, memory
//! and the clock. Each is a reason not to start; whoever starts all the same is reminded of it in the verdict.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rehearsal_core::Role;
use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::plan::{Carrier, Connection};
use rustix::time::{ClockId, clock_getres};

use super::{Preflight, elsewhere, plan_of, targets, title};
use crate::options::EmuOptions;

/// How long a target may take to accept a connection. Assumed: several round trips around the world, lost packets and all.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long Linux keeps a closed connection's port, s. Source: `TCP_TIMEWAIT_LEN` in the kernel's `include/net/tcp.h`.
const TIME_WAIT_S: f64 = 60.0;
/// Linux's usual range. Source: `ip_local_port_range` in the kernel's `Documentation/networking/ip-sysctl.rst`.
const PORTS: (u16, u16) = (32_768, 60_999);
/// Share of the memory available that payloads may take. Assumed: the rest is for sockets, books and everybody else.
const MEMORY_SHARE: f64 = 0.5;
/// Coarsest clock that times can be told by, ns.
const RESOLUTION_NS: i64 = 1_000_000;

/// Reasons not to start `assembly`, as [`super::preflight`] has checked it; each says what to do about it. Connects once
/// to every target outside over TCP, and closes the connection.
pub fn doubts(assembly: &Assembly, options: &EmuOptions, checked: &Preflight) -> Vec<String> {
    let mut found = Vec::new();
    if checked.descriptors > checked.descriptors_allowed {
        let (needed, allowed) = (checked.descriptors, checked.descriptors_allowed);
        found.push(format!(
            "{needed} file descriptors are needed, {allowed} are allowed: raise `ulimit -n`, or lower `streams` or `in_flight`"
        ));
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    found.extend(ports(assembly, options, range_of(&range)));
    found.extend(memory(assembly, &fs::read_to_string("/proc/meminfo").unwrap_or_default()));
    found.extend(clock());
    found.extend(unreachable(assembly, options));
    found
}

fn senders(assembly: &Assembly) -> impl Iterator<Item = &Group> {
    let local = assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row)).map(|(_, g)| g);
    local.filter(|group| group.role == Role::Sender)
}

/// First and last port of connections that go out.
fn range_of(text: &str) -> (u16, u16) {
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => (first, last),
        _ => PORTS,
    }
}

/// Ports that connections to one address need at the same time, of those that there are.
fn ports(assembly: &Assembly, options: &EmuOptions, (first, last): (u16, u16)) -> Vec<String> {
    let there_are = f64::from(last - first) + 1.0;
    let mut open: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for group in senders(assembly) {
        let Some(streams) = group.streams else { continue };
        let count = f64::from(group.pool.len()) * f64::from(streams.per_member);
        for target in targets(assembly, group) {
            let link = assembly.link(group.node, target.node);
            if !matches!(link.carrier, Carrier::Http1 | Carrier::Tcp) {
                continue;
            }
            let under_way = (count * f64::from(streams.in_flight)).min(options.connections_max as f64);
            // a target of ours closes first, so that the port is free again at once
            let leaves =
                link.connection == Connection::PerRequest && assembly.plan.nodes[target.node].outside.is_some();
            let rate = streams.gap.filter(|_| leaves).map_or(0.0, |gap| count / gap.as_secs_f64());
            let one = open.entry(name(assembly, target)).or_default();
            let instances = f64::from(target.pool.len()).max(1.0);
            *one = (one.0 + under_way / instances, one.1 + rate / instances);
        }
    }
    let tell = |(target, (under_way, rate)): (String, (f64, f64))| {
        let needed = under_way + rate * TIME_WAIT_S;
        (needed > there_are).then(|| {
            format!(
                "connections to {target} need {needed:.0} ports, there are {there_are:.0} (a closed connection may keep its \
                 port for {TIME_WAIT_S:.0} s): write `connection = \"keep-alive\"`, lower the rate or `in_flight`, or widen \
                 net.ipv4.ip_local_port_range"
            )
        })
    };
    open.into_iter().filter_map(tell).collect()
}

/// What a target is called: its origin, or `node/actor`.
fn name(assembly: &Assembly, target: &Group) -> String {
    let outside = assembly.plan.nodes[target.node].outside.as_ref();
    outside.map_or_else(|| format!("`{}`", title(assembly, target)), |outside| outside.origin.clone())
}

/// Payloads that may be held at once, against the memory that is available.
fn memory(assembly: &Assembly, info: &str) -> Option<String> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0;
    let largest = |group: &Group| {
        let sizes = assembly.frame_sizes.iter().flat_map(|sizes| sizes.iter().copied());
        // clips are the only payloads that are held and large, and a group of another kind has none of them
        if group.kind == "camera" { sizes.max().unwrap_or(0) } else { 0 }
    };
    let held: f64 = senders(assembly)
        .filter_map(|group| {
            let streams = group.streams?;
            let count = f64::from(group.pool.len()) * f64::from(streams.per_member);
            let each = f64::from(streams.in_flight) + if streams.burst { f64::from(streams.queue) } else { 0.0 };
            let kept = count * each;
            // both ends hold what is under way between them
            Some(2.0 * kept * f64::from(largest(group)))
        })
        .sum();
    (held > MEMORY_SHARE * available).then(|| {
        format!(
            "payloads under way may take {:.1} GB, and {:.1} GB of memory are available: lower `streams`, `in_flight` or the \
             size of frames",
            held / 1e9,
            available / 1e9
        )
    })
}

fn clock() -> Option<String> {
    let resolution = clock_getres(ClockId::Monotonic);
    let coarse = resolution.tv_sec > 0 || resolution.tv_nsec >= RESOLUTION_NS;
    coarse.then(|| {
        format!(
            "the clock has a resolution of {} ns, so no time below that can be told: choose another clock source \
             (/sys/devices/system/clocksource)",
            resolution.tv_nsec
        )
    })
}

/// Targets outside that do not accept a connection.
fn unreachable(assembly: &Assembly, options: &EmuOptions) -> Vec<String> {
    let Ok(addresses) = elsewhere(assembly, options) else { return Vec::new() };
    let tried = addresses.into_iter().filter_map(|(actor, address)| {
        let group = &assembly.groups[assembly.group_of(actor)];
        let outside = assembly.plan.nodes[group.node].outside.as_ref()?;
        let by_datagrams = senders(assembly)
            .filter(|sender| {
                plan_of(assembly, sender).sender.as_ref().is_some_and(|s| s.to.starts_with(&outside.origin))
            })
            .all(|sender| matches!(assembly.link(sender.node, group.node).carrier, Carrier::Udp | Carrier::Http3));
        Some((outside.origin.clone(), address)).filter(|_| !by_datagrams)
    });
    tried.filter_map(|(origin, address)| refuses(address).map(|why| (origin, address, why))).map(told).collect()
}

fn refuses(address: SocketAddr) -> Option<std::io::Error> {
    TcpStream::connect_timeout(&address, PATIENCE).err()
}

fn told((origin, address, why): (String, SocketAddr, std::io::Error)) -> String {
    let at = if origin.ends_with(&address.to_string()) { String::new() } else { format!(" at {address}") };
    format!("{origin}{at} does not accept a connection ({why}): start it first, or check host and port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_ports_is_read_and_else_the_usual_one() {
        assert_eq!(range_of("1024\t65535\n"), (1024, 65_535));
        assert_eq!(range_of("60000 1000"), PORTS);
        assert_eq!(range_of(""), PORTS);
    }

    #[test]
    fn who_listens_is_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        assert!(refuses(address).is_none());
        drop(listener);
        let why = refuses(address).expect("nobody listens");
        let text = told((format!("http://{address}"), address, why));
        assert!(text.contains("does not accept a connection") && !text.contains(" at 127"), "{text}");
    }
}
