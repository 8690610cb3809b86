//! What an agent's operator permits, whatever a leader asks for: where its nodes may send and listen, and how much they
//! may offer. The agent judges by the experiment itself, before any process starts; the engine holds the addresses again.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rehearsal_core::plan::Carrier;
use rehearsal_core::steer::Steering;
use rehearsal_core::units::BitRate;
use rehearsal_emu::Network;
use rehearsal_scenario::{ActorSpec, Experiment, NodeSpec};
use thiserror::Error;

/// What an operator permits.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Networks that traffic may go to, beside the loopback, and that may be listened on.
    pub allow: Vec<Network>,
    /// The interface at which whole frames may be sent and taken.
    pub interface: Option<String>,
    /// Requests per second that all nodes together may offer.
    pub rate_max: Option<f64>,
    /// The same in bits of payload per second.
    pub bit_rate_max: Option<BitRate>,
}

/// What nodes offer while all their streams are at work, without retries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests per second.
    pub rate: f64,
    /// Bits of payload per second.
    pub bits: f64,
}

/// What an operator does not permit.
#[derive(Debug, Error, PartialEq)]
pub enum Denied {
    /// Somebody would be sent to who must not be.
    #[error("`{sender}` would send to `{target}` at {address}; this agent's operator permits {permitted} (--allow)")]
    Target {
        /// The sender, `node/actor`.
        sender: String,
        /// The receiver, `node/actor`.
        target: String,
        /// Where it is.
        address: IpAddr,
        /// The networks that are permitted.
        permitted: String,
    },
    /// A receiver would listen where it must not.
    #[error("`{actor}` would listen on {address}; this agent's operator permits {permitted} (--allow)")]
    Listen {
        /// The receiver, `node/actor`.
        actor: String,
        /// Where it would listen.
        address: IpAddr,
        /// The networks that are permitted.
        permitted: String,
    },
    /// Too many requests.
    #[error(
        "`{sender}` and the others here would offer {asked:.0} requests/s; this agent's operator permits {limit:.0} \
         (--rate-max), of which other runs hold {held:.0}"
    )]
    Rate {
        /// The sender that offers most.
        sender: String,
        /// What this run asks for.
        asked: f64,
        /// What others hold.
        held: f64,
        /// The ceiling.
        limit: f64,
    },
    /// Too many bits.
    #[error(
        "`{sender}` and the others here would offer {asked:.0} bit/s; this agent's operator permits {limit:.0} \
         (--bit-rate-max), of which other runs hold {held:.0}"
    )]
    Bits {
        /// The sender that offers most.
        sender: String,
        /// What this run asks for.
        asked: f64,
        /// What others hold.
        held: f64,
        /// The ceiling.
        limit: f64,
    },
    /// Whole frames, and no interface for them.
    #[error(
        "`{actor}` has a link with `carrier = \"frames\"`; this agent's operator permits none: start the agent with --interface \
         NAME, or write `carrier = \"udp\"` for the payloads alone"
    )]
    Frames {
        /// The sender or receiver, `node/actor`.
        actor: String,
    },
    /// Frames that would not leave the host.
    #[error(
        "`{sender}` would send whole frames to `{target}`, which is at the same agent: an interface does not hand its own frames \
         back; place them with different agents"
    )]
    Beside {
        /// The sender, `node/actor`.
        sender: String,
        /// The receiver, `node/actor`.
        target: String,
    },
    /// A rate or a size that nobody knows beforehand.
    #[error(
        "`{sender}` {why}: what it offers is not known beforehand, and this agent's operator sets a limit ({flag})"
    )]
    Unknown {
        /// The sender, `node/actor`.
        sender: String,
        /// What is open, and what to write.
        why: &'static str,
        /// The limit's flag.
        flag: &'static str,
    },
}

impl Policy {
    /// The networks that a process of this agent is told to permit, as its orders say them.
    pub fn allowed(&self) -> Vec<String> {
        self.allow.iter().map(ToString::to_string).collect()
    }

    /// Judges an experiment: `nodes` are the instances that would run here, `peers` the addresses of those that run
    /// elsewhere, `held` what other runs offer already. Gives what these nodes offer.
    ///
    /// # Errors
    /// The first thing that is not permitted.
    pub fn judge(
        &self,
        experiment: &Experiment,
        nodes: &[&str],
        peers: &BTreeMap<String, IpAddr>,
        held: Load,
    ) -> Result<Load, Denied> {
        let (mut sum, mut most) = (Load::default(), (String::new(), 0.0));
        for node in &experiment.nodes {
            let names = || (0..node.count()).map(|index| node.instance(index));
            let here = names().filter(|name| nodes.contains(&name.as_str())).count();
            if here == 0 {
                continue;
            }
            for actor in &node.actors {
                self.may_listen(node, actor)?;
                self.may_reach(experiment, node, actor, peers)?;
                self.may_frame(experiment, node, actor, nodes)?;
                let load = self.load(experiment, node, actor, here)?;
                if load.rate >= most.1 && load.rate > 0.0 {
                    most = (path(node, actor), load.rate);
                }
                sum = Load { rate: sum.rate + load.rate, bits: sum.bits + load.bits };
            }
        }
        self.may_offer(most.0, sum, held)?;
        Ok(sum)
    }

    fn may_offer(&self, sender: String, asked: Load, held: Load) -> Result<(), Denied> {
        if let Some(limit) = self.rate_max
            && asked.rate + held.rate > limit
        {
            return Err(Denied::Rate { sender, asked: asked.rate, held: held.rate, limit });
        }
        if let Some(limit) = self.bit_rate_max.map(|max| max.0 as f64)
            && asked.bits + held.bits > limit
        {
            return Err(Denied::Bits { sender, asked: asked.bits, held: held.bits, limit });
        }
        Ok(())
    }

    fn permits(&self, address: IpAddr) -> bool {
        Network::LOOPBACK.iter().chain(&self.allow).any(|network| network.contains(address))
    }

    fn permitted(&self) -> String {
        let networks = if self.allow.is_empty() { &Network::LOOPBACK[..] } else { &self.allow };
        networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn may_listen(&self, node: &NodeSpec, actor: &ActorSpec) -> Result<(), Denied> {
        match listens(actor).filter(|address| !self.permits(*address)) {
            None => Ok(()),
            Some(address) => Err(Denied::Listen { actor: path(node, actor), address, permitted: self.permitted() }),
        }
    }

    /// Whether every instance of the actor's target is where traffic may go.
    fn may_reach(
        &self,
        experiment: &Experiment,
        node: &NodeSpec,
        actor: &ActorSpec,
        peers: &BTreeMap<String, IpAddr>,
    ) -> Result<(), Denied> {
        let Some(to) = actor.sender.as_ref().map(|sender| &sender.to) else { return Ok(()) };
        if let Some(outside) = experiment.outside_of(to) {
            // where a name leads is known to the process that leads; this agent's processes look at the address again
            return match outside.url.literal().filter(|address| !self.permits(address.ip())) {
                None => Ok(()),
                Some(address) => Err(Denied::Target {
                    sender: path(node, actor),
                    target: to.clone(),
                    address: address.ip(),
                    permitted: self.permitted(),
                }),
            };
        }
        let (name, target) = to.split_once('/').unwrap_or((to, ""));
        let Some(aim) = experiment.nodes.iter().find(|node| node.name == name) else { return Ok(()) };
        let fixed = aim.actors.iter().filter(|a| target.is_empty() || a.name == target).find_map(listens);
        let found = (0..aim.count()).filter_map(|index| peers.get(&aim.instance(index)).copied());
        match fixed.into_iter().chain(found).find(|address| !self.permits(*address)) {
            None => Ok(()),
            Some(address) => Err(Denied::Target {
                sender: path(node, actor),
                target: to.clone(),
                address,
                permitted: self.permitted(),
            }),
        }
    }

    /// Whether there is an interface for frames that an actor sends or takes, and whether they lead away from here.
    fn may_frame(
        &self,
        experiment: &Experiment,
        node: &NodeSpec,
        actor: &ActorSpec,
        nodes: &[&str],
    ) -> Result<(), Denied> {
        let framed = |from: &NodeSpec, to: &str| experiment.carrier_to(&from.name, to) == Carrier::Frames;
        let me = path(node, actor);
        let takes = |from: &NodeSpec, other: &ActorSpec| {
            other.sender.as_ref().is_some_and(|sender| sender.to == me && framed(from, &sender.to))
        };
        let sends = actor.sender.as_ref().filter(|sender| framed(node, &sender.to));
        let taken = experiment.nodes.iter().any(|from| from.actors.iter().any(|other| takes(from, other)));
        if self.interface.is_none() && (sends.is_some() || taken) {
            return Err(Denied::Frames { actor: me });
        }
        let Some(to) = sends.map(|sender| &sender.to) else { return Ok(()) };
        let aim = to.split_once('/').and_then(|(name, _)| experiment.nodes.iter().find(|node| node.name == name));
        let here = aim.is_some_and(|aim| (0..aim.count()).any(|index| nodes.contains(&aim.instance(index).as_str())));
        if here { Err(Denied::Beside { sender: me, target: to.clone() }) } else { Ok(()) }
    }

    /// What `here` instances of the node offer with this actor at most, counting what the experiment itself does to rates.
    fn load(&self, experiment: &Experiment, node: &NodeSpec, actor: &ActorSpec, here: usize) -> Result<Load, Denied> {
        let Some(totals) = experiment.totals_of(node, actor) else { return Ok(Load::default()) };
        let unknown = |why, flag| Denied::Unknown { sender: path(node, actor), why, flag };
        let limited = self.rate_max.map(|_| "--rate-max").or(self.bit_rate_max.map(|_| "--bit-rate-max"));
        let Some(rate) = totals.rate else {
            return match limited {
                Some(flag) => Err(unknown("is a closed loop; give it a `rate`", flag)),
                None => Ok(Load::default()),
            };
        };
        let streams = totals.streams as f64 * here as f64 / f64::from(node.count());
        let each = rate / (totals.streams as f64).max(1.0);
        let rate = streams * steered(experiment, each);
        match (actor.request_bytes, self.bit_rate_max) {
            (Some(bytes), _) => Ok(Load { rate, bits: rate * 8.0 * bytes.max.0 as f64 }),
            (None, Some(_)) => Err(unknown("sends requests whose size its keys do not tell", "--bit-rate-max")),
            (None, None) => Ok(Load { rate, bits: 0.0 }),
        }
    }
}

/// The highest rate that a stream gets from the experiment's own control.
fn steered(experiment: &Experiment, rate: f64) -> f64 {
    let steps = experiment.control.iter().map(|planned| match planned.step {
        Steering::Factor(factor) => rate * factor,
        Steering::Rate(rate) => rate.as_f64(),
        Steering::Pause | Steering::Resume | Steering::Stop => 0.0,
    });
    steps.fold(rate, f64::max)
}

/// The address that an actor's keys name to listen on.
fn listens(actor: &ActorSpec) -> Option<IpAddr> {
    let text = actor.own.get("listen")?.as_str()?;
    text.parse().map(|address: std::net::SocketAddr| address.ip()).ok()
}

fn path(node: &NodeSpec, actor: &ActorSpec) -> String {
    format!("{}/{}", node.name, actor.name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rehearsal_scenario::{LoadOptions, parse};

    use super::*;
    use crate::registry::registry;

    const FILE: &str = "
[experiment]
name = \"policy\"
duration = \"10s\"
[nodes.camera]
count = 4
[nodes.camera.actors.main]
kind = \"sensor\"
to = \"server/main\"
rate = \"10/s\"
streams = 2
bytes = \"1000B\"
[nodes.server.actors.main]
kind = \"receiver\"
";

    fn experiment(text: &str) -> Experiment {
        parse(Path::new("policy.toml"), text.to_owned(), &registry(), &LoadOptions::default()).expect("an experiment")
    }

    fn judged(policy: &Policy, text: &str, nodes: &[&str], server: &str) -> Result<Load, Denied> {
        let peers = BTreeMap::from([("server".to_owned(), server.parse().expect("an address"))]);
        policy.judge(&experiment(text), nodes, &peers, Load::default())
    }

    #[test]
    fn the_load_of_the_instances_here_is_summed() {
        let offered = |nodes: &[&str]| judged(&Policy::default(), FILE, nodes, "127.0.0.1").expect("permitted");
        assert_eq!(offered(&["camera-1", "camera-3", "server"]), Load { rate: 40.0, bits: 320_000.0 });
        assert_eq!(offered(&["server"]), Load::default());
    }

    #[test]
    fn a_target_outside_the_networks_is_named() {
        let policy = Policy { allow: vec!["10.1.0.0/16".parse().expect("a network")], ..Policy::default() };
        assert!(judged(&policy, FILE, &["camera-1"], "10.1.2.3").is_ok());
        let why = judged(&policy, FILE, &["camera-1"], "192.0.2.1").expect_err("denied").to_string();
        let wanted = "`camera/main` would send to `server/main` at 192.0.2.1; this agent's operator permits 10.1.0.0/16 \
                      (--allow)";
        assert_eq!(why, wanted);
        let fixed = FILE.replace("kind = \"receiver\"", "kind = \"receiver\"\nlisten = \"192.0.2.7:7001\"");
        let denied = judged(&policy, &fixed, &["server"], "10.1.2.3").expect_err("denied");
        assert!(matches!(denied, Denied::Listen { .. }), "{denied}");
        let denied = judged(&policy, &fixed, &["camera-2"], "10.1.2.3").expect_err("denied");
        assert!(matches!(denied, Denied::Target { .. }), "{denied}");
        assert!(judged(&Policy::default(), FILE, &["camera-1"], "10.1.2.3").is_err(), "the loopback alone by default");
    }

    #[test]
    fn ceilings_hold_over_all_runs() {
        let policy = Policy { rate_max: Some(50.0), ..Policy::default() };
        assert!(judged(&policy, FILE, &["camera-1", "camera-2"], "127.0.0.1").is_ok());
        let denied = judged(&policy, FILE, &["camera-1", "camera-2", "camera-3"], "127.0.0.1").expect_err("60/s");
        assert_eq!(denied, Denied::Rate { sender: "camera/main".to_owned(), asked: 60.0, held: 0.0, limit: 50.0 });
        let held = Load { rate: 40.0, bits: 0.0 };
        let denied = policy.judge(&experiment(FILE), &["camera-1"], &BTreeMap::new(), held).expect_err("40 + 20");
        assert!(denied.to_string().contains("of which other runs hold 40"), "{denied}");
        let bits = Policy { bit_rate_max: Some(BitRate(300_000)), ..Policy::default() };
        assert!(judged(&bits, FILE, &["camera-1"], "127.0.0.1").is_ok());
        let denied = judged(&bits, FILE, &["camera-1", "camera-2"], "127.0.0.1").expect_err("320 kbit/s");
        assert!(matches!(denied, Denied::Bits { asked: 320_000.0, .. }), "{denied}");
    }

    #[test]
    fn what_nobody_knows_beforehand_is_refused_where_there_is_a_ceiling() {
        let closed = FILE.replace("rate = \"10/s\"\n", "");
        assert!(judged(&Policy::default(), &closed, &["camera-1"], "127.0.0.1").is_ok());
        let policy = Policy { rate_max: Some(50.0), ..Policy::default() };
        let why = judged(&policy, &closed, &["camera-1"], "127.0.0.1").expect_err("unknown").to_string();
        assert!(
            why.contains("`camera/main` is a closed loop; give it a `rate`") && why.contains("--rate-max"),
            "{why}"
        );
    }
}
