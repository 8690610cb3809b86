//! What is checked before anything starts: addresses against the allow-list, ports, file descriptors. Nothing is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::plan::{Carrier, Connection};
use rehearsal_core::{ActorId, Role};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::EmuError;
use crate::frames;
use crate::http::client::LINGERING_MAX;
use crate::options::EmuOptions;
use crate::placement;
use crate::tls;

mod bind;
mod doubts;
mod mtu;

pub(crate) use bind::Bound;
pub use doubts::doubts;
pub use mtu::{Way, fragmented};

/// What an emulation would need and use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    /// Threads that would run actors.
    pub shards: usize,
    /// File descriptors needed: both ends of connections as far as they are here, listeners, and the process itself.
    pub descriptors: u64,
    /// File descriptors allowed; raised to the hard limit if that was needed.
    pub descriptors_allowed: u64,
    /// Where each receiving actor here would listen; port 0 is the operating system's choice.
    pub listen: Vec<(ActorId, SocketAddr)>,
    /// Receiving actors elsewhere.
    pub elsewhere: Vec<(ActorId, SocketAddr)>,
}

/// Descriptors of the process itself: standard streams, the bundle's files, event loops.
const DESCRIPTORS_OWN: u64 = 32;
/// Descriptors of a shard: its event loop, its wake-up, its alarm, and a spare.
const DESCRIPTORS_SHARD: u64 = 4;

/// Checks whether `assembly` can be emulated here. Binds every address once and lets go of it; raises the soft limit on
/// file descriptors if it must.
///
/// # Errors
/// [`EmuError`] names the actor and what to change; [`EmuError::is_refusal`] holds for all that the user can cause.
pub fn preflight(assembly: &Assembly, options: &EmuOptions) -> Result<Preflight, EmuError> {
    let checked = check(assembly, options)?;
    bind::bind(assembly, &checked.listen, &BTreeMap::new()).map(|_| checked)
}

/// The same, and keeps what it has bound.
pub(crate) fn prepare(assembly: &Assembly, options: &EmuOptions) -> Result<(Preflight, Vec<Bound>), EmuError> {
    let checked = check(assembly, options)?;
    let before = options.remote.as_ref().map(|remote| &remote.succession.listen);
    let bound = bind::bind(assembly, &checked.listen, before.unwrap_or(&BTreeMap::new()))?;
    Ok((checked, bound))
}

fn check(assembly: &Assembly, options: &EmuOptions) -> Result<Preflight, EmuError> {
    tls::check(assembly)?;
    framed(assembly, options)?;
    let listen = listen(assembly, options)?;
    let elsewhere = elsewhere(assembly, options)?;
    brokers(assembly, options)?;
    let shards = placement::shards(assembly, options.shards);
    let connections = connections(assembly, options);
    let descriptors =
        DESCRIPTORS_OWN + DESCRIPTORS_SHARD * shards as u64 + listen.len() as u64 + connections + ports(assembly);
    let descriptors_allowed = match allow_descriptors(descriptors) {
        Err(EmuError::Descriptors { limit, .. }) if options.force => limit,
        allowed => allowed?,
    };
    Ok(Preflight { shards, descriptors, descriptors_allowed, listen, elsewhere })
}

/// Who sends or takes whole frames here needs an interface for them.
fn framed(assembly: &Assembly, options: &EmuOptions) -> Result<(), EmuError> {
    let here = assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row));
    let mut using = here.filter(|(_, group)| frames::uses(assembly, group));
    match using.next().filter(|_| options.frames.is_none()) {
        Some((_, group)) => Err(EmuError::Frames { actor: title(assembly, group) }),
        None => Ok(()),
    }
}

/// Where receivers here listen: at their fixed address, the port counted up by the instance's number, or at a port of
/// this machine alone that the operating system chooses.
fn listen(assembly: &Assembly, options: &EmuOptions) -> Result<Vec<(ActorId, SocketAddr)>, EmuError> {
    let mut all = Vec::new();
    for (row, group) in assembly.groups.iter().enumerate() {
        let Some(serve) = group.serve.filter(|_| assembly.is_local(row)) else { continue };
        if carriers(assembly, group).iter().all(|carrier| !carrier.is_addressed()) {
            // it has a subject and no address
            continue;
        }
        let fixed = serve.listen.unwrap_or(SocketAddr::new(options.listen, 0));
        for (index, member) in group.members.clone().enumerate() {
            let address = member_address(assembly, group, fixed, member)?;
            if !options.allows(address.ip()) {
                return Err(EmuError::ListenNotAllowed { actor: title(assembly, group), address });
            }
            all.push((ActorId(group.base.0 + index as u32), address));
        }
    }
    Ok(all)
}

/// Brokers that nodes here talk to must be known and allowed.
fn brokers(assembly: &Assembly, options: &EmuOptions) -> Result<(), EmuError> {
    for (row, sender) in assembly.groups.iter().enumerate() {
        for receiver in targets(assembly, sender) {
            let link = assembly.link(sender.node, receiver.node);
            let here = assembly.is_local(row) || assembly.plan.nodes[receiver.node].local;
            // one outside is looked up and judged as all targets outside are
            let ours = link.carrier == Carrier::Mqtt && !link.outside && here;
            let Some(spec) = link.mqtt.as_deref().filter(|_| ours) else { continue };
            let unknown = |why| EmuError::Broker { broker: spec.broker.clone(), why };
            let address = crate::mqtt::broker(spec).map_err(unknown)?;
            if !options.allows(address.ip()) {
                return Err(EmuError::TargetNotAllowed { actor: title(assembly, sender), address });
            }
        }
    }
    Ok(())
}

/// Where targets elsewhere listen. They must have a fixed address that is allowed, unless their own process tells it.
fn elsewhere(assembly: &Assembly, options: &EmuOptions) -> Result<Vec<(ActorId, SocketAddr)>, EmuError> {
    let mut all = BTreeMap::new();
    for sender in assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row)).map(|(_, g)| g) {
        let by_address = |t: &&Group| {
            let link = assembly.link(sender.node, t.node);
            link.carrier.is_addressed() || link.outside
        };
        let elsewhere = targets(assembly, sender).filter(|t| !assembly.plan.nodes[t.node].local);
        for target in elsewhere.filter(by_address) {
            let actor = title(assembly, sender);
            if let Some(outside) = &assembly.plan.nodes[target.node].outside {
                let Some(address) = outside.address else {
                    return Err(EmuError::TargetUnresolved { actor, target: outside.origin.clone() });
                };
                if !options.allows(address.ip()) {
                    return Err(EmuError::TargetNotAllowed { actor, address });
                }
                all.insert(target.base, address);
                continue;
            }
            let fixed = target.serve.and_then(|s| s.listen).filter(|l| l.port() != 0);
            let Some(fixed) = fixed else {
                if options.remote.is_some() {
                    continue;
                }
                return Err(EmuError::TargetUnknown { actor, target: title(assembly, target) });
            };
            for (index, member) in target.members.clone().enumerate() {
                let address = member_address(assembly, target, fixed, member)?;
                if !options.allows(address.ip()) {
                    return Err(EmuError::TargetNotAllowed { actor, address });
                }
                all.insert(ActorId(target.base.0 + index as u32), address);
            }
        }
    }
    Ok(all.into_iter().collect())
}

fn member_address(assembly: &Assembly, group: &Group, fixed: SocketAddr, member: u32) -> Result<SocketAddr, EmuError> {
    if fixed.port() == 0 {
        return Ok(fixed);
    }
    let port = u32::from(fixed.port()) + member;
    let number = u16::try_from(port).map_err(|_| EmuError::Port { actor: title(assembly, group), member, port })?;
    Ok(SocketAddr::new(fixed.ip(), number))
}

/// Receivers elsewhere that senders here aim at.
pub(crate) fn aimed_at(assembly: &Assembly) -> BTreeSet<ActorId> {
    let local = assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row));
    let aims = local.flat_map(|(_, sender)| targets(assembly, sender).filter(|t| !assembly.plan.nodes[t.node].local));
    aims.flat_map(|t| (0..t.pool.len()).map(|i| ActorId(t.base.0 + i))).collect()
}

/// The groups that a sending group's `to` names.
fn targets<'a>(assembly: &'a Assembly, sender: &Group) -> impl Iterator<Item = &'a Group> + use<'a> {
    let to = plan_of(assembly, sender).sender.as_ref().and_then(|s| assembly.plan.path_to(&s.to)).unwrap_or_default();
    assembly.groups.iter().filter(move |g| title(assembly, g) == to)
}

/// What moves traffic to a receiving group, from any sender; HTTP if only foreign clients come.
pub(crate) fn carriers(assembly: &Assembly, receiver: &Group) -> BTreeSet<Carrier> {
    let name = title(assembly, receiver);
    let aims = |g: &&Group| plan_of(assembly, g).sender.as_ref().is_some_and(|s| s.to == name);
    let found: BTreeSet<Carrier> =
        assembly.groups.iter().filter(aims).map(|g| assembly.link(g.node, receiver.node).carrier).collect();
    if found.is_empty() { BTreeSet::from([Carrier::Http1]) } else { found }
}

fn plan_of<'a>(assembly: &'a Assembly, group: &Group) -> &'a rehearsal_core::plan::GroupPlan {
    &assembly.plan.nodes[group.node].groups[group.row]
}

/// `node/actor` as written in the experiment.
fn title(assembly: &Assembly, group: &Group) -> String {
    format!("{}/{}", assembly.plan.nodes[group.node].template, group.actor)
}

/// Ends of connections that may be open here at once.
fn connections(assembly: &Assembly, options: &EmuOptions) -> u64 {
    let mut ends = 0;
    for group in assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row)).map(|(_, g)| g) {
        let Some(streams) = group.streams.filter(|_| group.role == Role::Sender) else { continue };
        let each = u64::from(streams.in_flight) + if streams.burst { u64::from(streams.queue) } else { 0 };
        // datagrams have a socket for all, or one for each port
        let carriers: BTreeSet<Carrier> =
            targets(assembly, group).map(|t| assembly.link(group.node, t.node).carrier).collect();
        if carriers == BTreeSet::from([Carrier::Udp]) {
            continue;
        }
        let streams_here = u64::from(group.pool.len()) * u64::from(streams.per_member);
        let count = (streams_here * each).min(open_at_once(assembly, group, streams_here));
        let count = count.min(options.connections_max as u64);
        let here = targets(assembly, group).any(|t| assembly.plan.nodes[t.node].local);
        ends += count * if here { 2 } else { 1 };
    }
    let used_once = assembly.plan.links.iter().any(|l| l.connection == Connection::PerRequest);
    ends.min(2 * options.connections_max as u64) + if used_once { 2 * LINGERING_MAX as u64 } else { 0 }
}

/// Attempts of an evenly paced group that can be under way at once: each lasts as long as its deadline at most, and every one
/// may be tried again. Devices that hardly ever send need far fewer connections than there are devices.
fn open_at_once(assembly: &Assembly, group: &Group, streams: u64) -> u64 {
    let known = group.streams.filter(|spec| spec.scatter.is_none()).and_then(|spec| spec.gap);
    let Some((gap, params)) = known.zip(plan_of(assembly, group).sender.as_ref()) else { return u64::MAX };
    let rate = streams as f64 / gap.as_secs_f64();
    let tries = f64::from(params.retries) + 1.0;
    (rate * tries * params.timeout.as_secs_f64()).ceil() as u64 + 1
}

/// Sockets of groups whose datagrams have several source ports.
fn ports(assembly: &Assembly) -> u64 {
    let local = assembly.groups.iter().enumerate().filter(|(row, _)| assembly.is_local(*row));
    local
        .filter_map(|(_, group)| group.streams)
        .map(|streams| u64::from(streams.ports))
        .filter(|ports| *ports > 1)
        .sum()
}

/// The number of descriptors allowed, once the soft limit is raised as far as it must.
fn allow_descriptors(needed: u64) -> Result<u64, EmuError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = current.unwrap_or(u64::MAX);
    if needed <= allowed {
        return Ok(allowed);
    }
    let limit = maximum.unwrap_or(u64::MAX);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match raised {
        Ok(()) if needed <= limit => Ok(limit),
        Ok(()) => Err(EmuError::Descriptors { needed, limit }),
        Err(_) => Err(EmuError::Descriptors { needed, limit: allowed }),
    }
}
