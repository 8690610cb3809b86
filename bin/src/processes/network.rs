//! A network namespace for each node: made before the run, reached by the server, shaped as its links say.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Result;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::{Impose, Plan};
use rehearsal_host::network::{Network, Shape};

use crate::cli::{Emulate, NetworkMode, Placement};
use crate::exit::{Refused, UsageError};
use crate::report::chain;

/// How long a server on this host may take to accept a connection.
const ACCEPT: Duration = Duration::from_secs(2);

/// Makes a namespace for each node of `plan` that this host runs, if `args` ask for that, and imposes on its links what the
/// kernel shall impose.
///
/// # Errors
/// When it cannot be made, or contradicts the rest.
pub(super) fn create(args: &Emulate, plan: &Plan) -> Result<Option<Network>> {
    if args.network == NetworkMode::Host {
        return Ok(None);
    }
    if args.placement != Placement::Processes {
        let why = "--network namespaces needs --placement processes: a namespace holds a process";
        return Err(UsageError(why.to_owned()).into());
    }
    let refuse = |why| Refused(chain(&why));
    let nodes = plan.nodes.iter().filter(|n| n.measured && !n.foreign);
    let network = Network::create(nodes.map(|n| n.name.as_str())).map_err(refuse)?;
    impose(&network, plan)?;
    Ok(Some(network))
}

/// Imposes on the links of `plan` what the kernel shall impose, and begins to count anew.
fn impose(network: &Network, plan: &Plan) -> Result<()> {
    for (node, paths) in paths(plan, network) {
        let space = network.space(&node).expect("paths begin at nodes with a namespace");
        space.shape(&paths).map_err(|why| Refused(format!("links from `{node}`: {}", chain(&why))))?;
    }
    Ok(())
}

/// Gets the network ready for one more run.
///
/// # Errors
/// When a receiver wants an address that its namespace does not have.
pub(super) fn begin(network: &Network, assembly: &Assembly) -> Result<()> {
    for group in &assembly.groups {
        let node = &assembly.plan.nodes[group.node];
        let fixed = group.serve.and_then(|serve| serve.listen);
        let Some((space, fixed)) = network.space(&node.name).zip(fixed) else { continue };
        if fixed.ip() != IpAddr::V4(space.address()) {
            return Err(Refused(format!(
                "`{}/{}` has the key `listen = \"{fixed}\"`, an address that its network namespace does not have: leave it \
                 out, each node listens on an address of its own",
                node.template, group.actor
            ))
            .into());
        }
    }
    impose(network, &assembly.plan)
}

/// What the kernel imposes on the way from each node to others.
pub(super) fn paths(plan: &Plan, network: &Network) -> Vec<(String, Vec<(Ipv4Addr, Shape)>)> {
    let mut all = Vec::new();
    for (from, node) in plan.nodes.iter().enumerate().filter(|(_, n)| network.space(&n.name).is_some()) {
        let path = |(to, other): (usize, &rehearsal_core::plan::NodePlan)| {
            let link = plan.link(from, to);
            let (rate, queue, delay, jitter, loss) = (link.rate, link.queue, link.delay, link.jitter, link.loss);
            let imposed = to != from && link.impose == Impose::Kernel && link.shapes() && link.carrier.is_addressed();
            let space = network.space(&other.name).filter(|_| imposed)?;
            Some((space.address(), Shape { rate, queue, delay, jitter, loss }))
        };
        let paths: Vec<_> = plan.nodes.iter().enumerate().filter_map(path).collect();
        if !paths.is_empty() {
            all.push((node.name.clone(), paths));
        }
    }
    all
}

/// How nodes in namespaces reach a server that the user named: one on the loopback is there for this host alone, so it must
/// listen on the host's end of the network too.
///
/// # Errors
/// When it does not.
pub(super) fn reached(network: &Network, settings: &ConnectSettings) -> Result<ConnectSettings> {
    let gateway = network.gateway();
    let (moved, ports) = settings.moved(IpAddr::V4(gateway));
    for port in ports {
        let tried = TcpStream::connect_timeout(&SocketAddr::from((gateway, port)), ACCEPT);
        tried.map_err(|_| {
            Refused(format!(
                "the NATS server at port {port} listens on the loopback alone, where nodes in network namespaces cannot \
                 reach it: let it listen on 0.0.0.0 behind a firewall, or leave --nats out for a private server"
            ))
        })?;
    }
    Ok(moved)
}
