//! What the nodes of this host are held to: whether the kernel enforces their limits, what to say where it cannot or where
//! there are not enough cores, and the network they see. Known before anything starts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::plan::Plan;
use rehearsal_core::run::RunEnd;
use rehearsal_emu::EmuOptions;
use rehearsal_export::Overcommit;
use rehearsal_host::cgroup::Cgroups;
use rehearsal_host::network::{Network, sweep};

use super::{carried, network};
use crate::cli::{Emulate, Placement};
use crate::facts::Enforcement;
use crate::report::chain;

/// What the nodes of this host are held to.
#[derive(Default)]
pub struct Confinement {
    groups: Option<Cgroups>,
    enforcement: Enforcement,
    network: Option<Arc<Network>>,
}

impl Confinement {
    /// Finds it out and makes the network, and says on stderr what a user should know before the start. Where nodes are no
    /// processes of this one there is nothing to find out. Call it before any process is started: where this program's own
    /// control group has to be divided, it must be alone in it.
    ///
    /// # Errors
    /// When the network that is asked for cannot be made. Limits that cannot be enforced are no error.
    pub fn find(args: &Emulate, plan: &Plan) -> Result<Confinement> {
        if args.placement != Placement::Processes {
            network::create(args, plan)?;
            return Ok(Confinement::default());
        }
        // what a killed run left behind goes with the next one, whether that has namespaces of its own or not
        sweep();
        let measured = || plan.nodes.iter().filter(|n| n.measured && !n.foreign);
        let limited = measured().any(|n| n.vcpu.is_some() || n.memory.is_some());
        let (groups, why) = match Cgroups::open() {
            Ok(groups) => (Some(groups), None),
            Err(why) => (None, Some(chain(&why))),
        };
        let overcommitted = groups.as_ref().and_then(|_| overcommitted(measured().filter_map(|n| n.vcpu).sum()));
        if let Some(over) = &overcommitted {
            let Overcommit { host, vcpu, cores } = over;
            eprintln!(
                "warning: host_overcommitted: {host} has {cores} cores for {vcpu} vCPU that will be enforced; the run is \
                 DEGRADED, since no node is sure of its share"
            );
        }
        if let Some(why) = why.as_ref().filter(|_| limited) {
            eprintln!("note: vCPU and memory limits will not be enforced: {why}");
        }
        let enforcement =
            Enforcement { enforced: groups.is_some(), why, overcommitted: overcommitted.into_iter().collect() };
        let network = network::create(args, plan)?.map(Arc::new);
        Ok(Confinement { groups, enforcement, network })
    }

    /// Where nodes' control groups are made, if they can be.
    pub fn groups(&self) -> Option<Cgroups> {
        self.groups.clone()
    }

    /// The network that nodes see, if it is not the host's.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.as_ref()
    }

    /// Where a private server must listen so that nodes reach it.
    pub fn server_address(&self) -> IpAddr {
        IpAddr::V4(self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, |network| network.gateway()))
    }

    /// Permits traffic in the nodes' network.
    pub fn permit(&self, options: &mut EmuOptions) {
        let range = self.network.as_ref().map(|network| network.range().to_string());
        options
            .allow
            .extend(range.map(|text| text.parse::<rehearsal_emu::Network>().expect("a range is written as one")));
    }

    /// Adds to the end of a run of `plan` what links did that the kernel imposed.
    pub fn complete(&self, plan: &Plan, end: &mut RunEnd) {
        if let Some(network) = &self.network {
            carried::add(plan, network, end);
        }
    }

    /// Gets ready for one more run.
    ///
    /// # Errors
    /// When the experiment asks for what the nodes' network does not have.
    pub fn begin(&self, assembly: &Assembly) -> Result<()> {
        self.network.as_ref().map_or(Ok(()), |network| network::begin(network, assembly))
    }

    /// What the bundle says of it.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement.clone()
    }
}

/// This machine, if it has fewer cores than `vcpu`.
fn overcommitted(vcpu: f64) -> Option<Overcommit> {
    // a sum of tenths is not the number that a reader would write
    let vcpu = (vcpu * 1000.0).round() / 1000.0;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (vcpu > f64::from(cores)).then_some(Overcommit { host, vcpu, cores })
}
