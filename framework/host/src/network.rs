//! A network of its own for each node of a run: namespaces on a bridge, in a range that nobody else uses.
//!
//! ```text
//!   host                      rh-TAG-0.hub             rh-TAG-0.1, rh-TAG-0.2, …
//!   rhTAG.0 198.18.x.1 ─ veth ─ host ┐
//!                                  ├ br0 ┬ n1 ─ veth ─ eth0 198.18.x.2
//!                                  ┘     └ n2 ─ veth ─ eth0 198.18.x.3
//! ```
//!
//! The bridge stands in a namespace too, so the host sees one interface more and no traffic between nodes. TAG is that of the
//! process that made them, the number behind it tells its networks apart: whatever a dead owner left behind is removed before the next network is made. All is done with
//! the commands of iproute2, `ip` and `tc`; it needs root.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

use crate::owner::Owner;

mod carried;
mod command;
mod range;
mod shape;

pub use carried::Carried;
pub use range::Range;
pub use shape::Shape;

use command::{batch, run};

/// Where iproute2 keeps namespaces by their names (ip-netns(8)).
const SPACES: &str = "/run/netns";
/// The node's end of its veth pair, as its namespace calls it.
pub const NODE_END: &str = "eth0";
/// What the interface of a node takes in one piece, bytes. Source: kernel, a veth pair has `ETH_DATA_LEN`.
pub const NODE_MTU: u64 = 1500;
/// Nodes of one network. Source: kernel, a bridge has at most 1024 ports (`BR_MAX_PORTS`); a few are spare.
pub const NODES_MAX: usize = 1000;

/// Networks that one process may have at a time; the next one is refused its names.
const NETWORKS_MAX: u32 = 36;

/// Why there is no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// A program is not there.
    #[error("`{program}` was not found; `apt-get install iproute2` brings it")]
    Missing {
        /// Which.
        program: &'static str,
    },
    /// A program cannot be started.
    #[error("`{program}` cannot be started")]
    Start {
        /// Which.
        program: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// We may not.
    #[error("network namespaces need root: `{command}` failed: {said}")]
    NotPermitted {
        /// What was run.
        command: String,
        /// What it said.
        said: String,
    },
    /// A command failed.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// What was run.
        command: String,
        /// What it said.
        said: String,
    },
    /// Every range is taken.
    #[error("every network of {} is in use on this host; `ip -4 route` lists them", Range::ALL)]
    NoRange,
    /// More nodes than a bridge has ports.
    #[error("{nodes} nodes do not fit on one bridge; at most {NODES_MAX} can have a network namespace each")]
    TooMany {
        /// Nodes.
        nodes: usize,
    },
    /// Delay, jitter and loss need netem.
    #[error(
        "this kernel has no netem, so it cannot impose delay, jitter or loss; write `impose = \"userspace\"`, or load the \
         module sch_netem"
    )]
    NoNetem,
}

/// The networks of one run. They are removed when this is dropped.
#[derive(Debug)]
pub struct Network {
    owner: Owner,
    number: char,
    range: Range,
    spaces: Vec<Space>,
}

/// The namespace of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    name: String,
    node: String,
    address: Ipv4Addr,
}

impl Network {
    /// Makes a namespace for each of `nodes`, after removing what dead processes left behind.
    ///
    /// # Errors
    /// [`NetworkError`]; then nothing is left behind.
    pub fn create<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Result<Network, NetworkError> {
        sweep();
        let nodes: Vec<&str> = nodes.into_iter().collect();
        if nodes.len() > NODES_MAX {
            return Err(NetworkError::TooMany { nodes: nodes.len() });
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (owner, number) = (Owner::this(), COUNT.fetch_add(1, Ordering::Relaxed) % NETWORKS_MAX);
        let number = char::from_digit(number, NETWORKS_MAX).expect("it is one digit");
        // a range is ours once our end of it has its address: nobody else may look meanwhile
        let _lock = range::lock();
        let range = Range::free()?;
        let space = |(row, node): (usize, &&str)| Space {
            name: format!("rh-{owner}-{number}.{}", row + 1),
            node: (*node).to_owned(),
            address: range.address(row as u32 + 2),
        };
        let spaces = nodes.iter().enumerate().map(space).collect();
        let network = Network { owner, number, range, spaces };
        network.build()?;
        Ok(network)
    }

    /// The addresses of all nodes, and of the host's end.
    pub fn range(&self) -> Range {
        self.range
    }

    /// The host's end: nodes reach this machine there, and nothing behind it unless the host forwards packets.
    pub fn gateway(&self) -> Ipv4Addr {
        self.range.address(1)
    }

    /// The namespace of a node.
    pub fn space(&self, node: &str) -> Option<&Space> {
        self.spaces.iter().find(|space| space.node == node)
    }

    fn hub(&self) -> String {
        format!("rh-{}-{}.hub", self.owner, self.number)
    }

    /// The host's interface: at most 15 characters, as the kernel wants.
    fn uplink(&self) -> String {
        format!("rh{}.{}", self.owner, self.number)
    }

    fn build(&self) -> Result<(), NetworkError> {
        let (hub, uplink, prefix) = (self.hub(), self.uplink(), Range::PREFIX);
        run("ip", &["netns", "add", &hub])?;
        for space in &self.spaces {
            run("ip", &["netns", "add", &space.name])?;
        }
        let mut host = vec![
            format!("link add dev {uplink} type veth peer name host netns {hub}"),
            format!("addr add {}/{prefix} dev {uplink}", self.gateway()),
            format!("link set dev {uplink} up"),
        ];
        let mut inside = vec!["link add dev br0 type bridge".to_owned(), "link set dev br0 up".to_owned()];
        let attach = |port: &str| [format!("link set dev {port} master br0"), format!("link set dev {port} up")];
        inside.extend(attach("host"));
        for (row, space) in self.spaces.iter().enumerate() {
            let port = format!("n{}", row + 1);
            host.push(format!("link add dev {port} netns {hub} type veth peer name {NODE_END} netns {}", space.name));
            inside.extend(attach(&port));
        }
        batch(None, &host)?;
        batch(Some(&hub), &inside)?;
        for space in &self.spaces {
            let lines = [
                "link set dev lo up".to_owned(),
                format!("addr add {}/{prefix} dev {NODE_END}", space.address),
                format!("link set dev {NODE_END} up"),
                format!("route add default via {}", self.gateway()),
            ];
            batch(Some(&space.name), &lines)?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // the pair goes with either end; one that was never made cannot be removed
        let _ = run("ip", &["link", "del", "dev", &self.uplink()]);
        for name in self.spaces.iter().map(|space| space.name.clone()).chain([self.hub()]) {
            if space_path(&name).exists() {
                let _ = run("ip", &["netns", "del", &name]);
            }
        }
    }
}

impl Space {
    /// The node that it is for.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The node's address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// What a process must [`enter`].
    pub fn path(&self) -> PathBuf {
        space_path(&self.name)
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Moves this thread to a namespace; what it executes then runs there.
///
/// # Errors
/// What the kernel says.
pub fn enter(space: &Path) -> io::Result<()> {
    let file = fs::File::open(space)?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Removes namespaces and interfaces whose owner is gone; how many there were.
pub fn sweep() -> usize {
    let named = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let dead = |tag: Option<String>| tag.and_then(|tag| Owner::parse(&tag)).is_some_and(|owner| !owner.lives());
    let of_link = |name: &str| Some(name.strip_prefix("rh")?.rsplit_once('.')?.0.to_owned());
    let of_space = |name: &str| Some(name.strip_prefix("rh-")?.rsplit_once('-')?.0.to_owned());
    let links = named("/sys/class/net").into_iter().filter(|name| dead(of_link(name)));
    let gone = links.filter(|name| run("ip", &["link", "del", "dev", name]).is_ok()).count();
    let spaces = named(SPACES).into_iter().filter(|name| dead(of_space(name)));
    gone + spaces.filter(|name| run("ip", &["netns", "del", name]).is_ok()).count()
}

fn space_path(name: &str) -> PathBuf {
    Path::new(SPACES).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehearsal_core::Span;
    use rehearsal_core::units::{BitRate, ByteSize, Fraction};

    /// Whether this test may make namespaces.
    fn able() -> bool {
        let able = rustix::process::geteuid().is_root() && run("ip", &["-V"]).is_ok();
        if !able {
            eprintln!("skipped: network namespaces need root and iproute2");
        }
        able
    }

    #[test]
    fn nodes_reach_each_other_and_the_host_and_nothing_is_left() {
        if !able() {
            return;
        }
        let network = Network::create(["a", "b"]).expect("a network");
        let [a, b] = ["a", "b"].map(|node| network.space(node).expect("it was asked for").clone());
        for target in [b.address(), network.gateway()] {
            let ping = ["netns", "exec", a.name(), "ping", "-c", "1", "-W", "2", &target.to_string()];
            match run("ip", &ping) {
                Err(why) if why.to_string().contains("No such file") => eprintln!("ping(8) is not there"),
                answer => _ = answer.unwrap_or_else(|why| panic!("{why}")),
            }
        }
        let shape = Shape {
            rate: Some(BitRate(8_000_000)),
            queue: ByteSize(100_000),
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: Fraction(0.0),
        };
        a.shape(&[(b.address(), shape)]).expect("htb");
        a.shape(&[(b.address(), shape)]).expect("once more replaces it");
        let classes = run("tc", &["-n", a.name(), "class", "show", "dev", NODE_END]).expect("tc");
        assert!(classes.contains("rate 8Mbit"), "{classes}");
        a.shape(&[]).expect("none is imposed");
        let (hub, uplink) = (network.hub(), network.uplink());
        drop(network);
        for name in [a.name(), b.name(), &hub] {
            assert!(!space_path(name).exists(), "{name} is left behind");
        }
        assert!(!Path::new("/sys/class/net").join(uplink).exists());
        assert_eq!(sweep(), 0);
    }

    #[test]
    fn more_nodes_than_ports_are_refused() {
        let nodes: Vec<String> = (0..=NODES_MAX).map(|n| format!("n{n}")).collect();
        let why = Network::create(nodes.iter().map(String::as_str)).expect_err("too many");
        assert!(matches!(why, NetworkError::TooMany { nodes: 1001 }), "{why}");
    }
}
