//! What an emulation may be told beside the experiment: shards, wake-ups, limits, and whom it may talk to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::Span;
use rehearsal_core::life::Succession;
use rehearsal_host::cgroup::Meter;
use thiserror::Error;

use crate::frames::FramePorts;

/// Options of an emulation.
#[derive(Clone)]
pub struct EmuOptions {
    /// Threads that run actors and their connections; `None`: one per core, at most one per local node.
    pub shards: Option<usize>,
    /// Wake-ups are rounded up to multiples of the smaller of this and half the shortest gap. Zero: not at all.
    pub quantum: Span,
    /// Busy-wait for the last 80 µs before a wake-up. Costs a core for each shard.
    pub spin: bool,
    /// Tell each second; otherwise only the end has counts, and there are no times.
    pub telemetry: bool,
    /// Addresses that traffic may go to, and that may be listened on.
    pub allow: Vec<Network>,
    /// Where receivers without a fixed address listen.
    pub listen: IpAddr,
    /// Connections that may be open at once, at either end.
    pub connections_max: usize,
    /// A shard that did not come by for so long is stuck: a fault that ends the run.
    pub stuck_after: Span,
    /// Messages between actors are serialised and read again, as between processes.
    pub wire: bool,
    /// Checks what receivers get.
    pub validate: Arc<dyn Validate>,
    /// The NATS server that traffic with the carrier `nats` goes over; `None`: that of `remote`, if there is one.
    pub traffic: Option<ConnectSettings>,
    /// Where the nodes that are not local run: `None` if nobody knows, and nothing is said to them.
    pub remote: Option<Remote>,
    /// The control group that this process stands in, alone: what its one measured node uses is read from there.
    pub meter: Option<Meter>,
    /// The name of the machine, if this process speaks for it: one process of a machine does. Without it, what the machine
    /// does is not told, nor what this process uses where its nodes cannot be told apart.
    pub machine: Option<String>,
    /// Whether this process stands in a network namespace of its own.
    pub own_network: bool,
    /// Sends and takes whole frames for links with the carrier `frames`; without it there can be none.
    pub frames: Option<Arc<dyn FramePorts>>,
    /// Start with fewer file descriptors than may be needed; [`crate::doubts`] says so.
    pub force: bool,
}

/// How a process reaches the others of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// How to connect to the NATS server.
    pub nats: ConnectSettings,
    /// The run's creation on CLOCK_MONOTONIC, ns, the same for all processes of a host.
    pub epoch_ns: u64,
    /// Whether the controller runs here: this engine then gathers how the others end.
    pub leads: bool,
    /// The name that this process reads the run's telemetry under, if the aggregator runs here.
    pub reader: Option<String>,
    /// The node that stores in a process of its own, if another does: its silence is no loss, for telemetry waits for
    /// it on the server, and whoever started it watches over it.
    pub apart: Option<String>,
    /// What this process knows of those that ran its node before.
    pub succession: Succession,
}

impl Remote {
    /// CLOCK_MONOTONIC now, ns: the creation of a run that begins here.
    pub fn epoch_now() -> u64 {
        crate::clock::monotonic_ns()
    }
}

impl Default for EmuOptions {
    fn default() -> Self {
        EmuOptions {
            shards: None,
            // Measured: at 10,000 requests/s, 23.7 µs of CPU a request instead of 37.4 µs, for 60 µs of lag more.
            quantum: Span::from_micros(250),
            spin: false,
            telemetry: true,
            allow: Network::LOOPBACK.to_vec(),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            connections_max: 10_000,
            // Assumed: twice the time after which an agent counts as lost.
            stuck_after: Span::from_secs(10),
            wire: false,
            validate: Arc::new(|_: &str, _: &[Bytes], _: bool| true),
            traffic: None,
            remote: None,
            meter: None,
            machine: None,
            own_network: false,
            frames: None,
            force: false,
        }
    }
}

impl fmt::Debug for EmuOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmuOptions")
            .field("shards", &self.shards)
            .field("quantum", &self.quantum)
            .field("spin", &self.spin)
            .field("telemetry", &self.telemetry)
            .field("allow", &self.allow)
            .field("listen", &self.listen)
            .field("connections_max", &self.connections_max)
            .field("stuck_after", &self.stuck_after)
            .field("wire", &self.wire)
            .field("remote", &self.remote)
            .field("meter", &self.meter)
            .field("machine", &self.machine)
            .field("own_network", &self.own_network)
            .finish_non_exhaustive()
    }
}

impl EmuOptions {
    /// The NATS server that traffic goes over.
    pub fn traffic_server(&self) -> Option<&ConnectSettings> {
        self.traffic.as_ref().or_else(|| self.remote.as_ref().map(|remote| &remote.nats))
    }

    /// Whether traffic may go to `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(address))
    }
}

/// Checks a request's body by its announced media type. Any such function will do.
pub trait Validate: Send + Sync {
    /// Whether the body, in the pieces it came in, is what its type promises: its form, and with `decode` all of it.
    /// The form is checked between two events of an actor and must be cheap; decoding has a thread of its own.
    fn check(&self, content_type: &str, body: &[Bytes], decode: bool) -> bool;
}

impl<F: Fn(&str, &[Bytes], bool) -> bool + Send + Sync> Validate for F {
    fn check(&self, content_type: &str, body: &[Bytes], decode: bool) -> bool {
        self(content_type, body, decode)
    }
}

/// A range of addresses, `192.0.2.0/24` (CIDR, RFC 4632).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text is no range of addresses.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no address range; write an address, or one with a prefix length such as `192.0.2.0/24`")]
pub struct NetworkError(String);

impl Network {
    /// This machine alone, the default (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
    pub const LOOPBACK: [Network; 2] = [
        Network { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 },
        Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
    ];

    /// One address.
    pub const fn host(address: IpAddr) -> Self {
        Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(a)) => {
                (net.to_bits() ^ a.to_bits()).checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(a)) => {
                (net.to_bits() ^ a.to_bits()).checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), |p| p.parse().map_err(|_| wrong()))?;
        if prefix > longest {
            return Err(wrong());
        }
        Ok(Network { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_their_prefix_says() {
        let within = |net: &str, a: &str| net.parse::<Network>().expect(net).contains(a.parse().expect(a));
        assert!(within("192.0.2.0/24", "192.0.2.255"));
        assert!(!within("192.0.2.0/24", "192.0.3.0"));
        assert!(within("0.0.0.0/0", "198.51.100.7"));
        assert!(!within("0.0.0.0/0", "2001:db8::1"));
        assert!(within("192.0.2.7", "192.0.2.7"));
        assert!(!within("192.0.2.7", "192.0.2.6"));
        assert!(within("2001:db8::/32", "2001:db8:1::1"));
        assert!(within("127.0.0.0/8", "::ffff:127.0.0.1"), "a mapped address is the address");
        for bad in ["", "host", "192.0.2.0/33", "192.0.2.0/", "::/129"] {
            assert_eq!(bad.parse::<Network>(), Err(NetworkError(bad.to_owned())));
        }
    }

    #[test]
    fn only_this_machine_is_allowed_by_default() {
        let options = EmuOptions::default();
        assert!(options.allows(IpAddr::V4(Ipv4Addr::LOCALHOST)) && options.allows(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert!(!options.allows(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        assert!(!options.allows(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))));
    }
}
