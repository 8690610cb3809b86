//! Hosts of their own, as far as one machine can have any: network namespaces on a bridge, and another CLOCK_MONOTONIC.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Fleet, sensors};
use crate::support::{Scenario, Scratch, beside, until};

/// Namespaces on a bridge, with a NATS server on the bridge's address. They go with it.
pub struct Lab {
    bridge: String,
    hosts: Vec<String>,
    subnet: String,
    ports: String,
    server: Option<Child>,
}

impl Lab {
    /// `None`, and a word about it, where this machine cannot have any.
    pub fn new(hosts: usize) -> Option<Lab> {
        if !rustix::process::geteuid().is_root() || !ip(&["netns", "list"]) {
            eprintln!("skipped: network namespaces need root and `ip`");
            return None;
        }
        let Some(program) = rehearsal_bus::server::find() else {
            eprintln!("skipped: no nats-server was found");
            return None;
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = std::process::id() % 1_000 * 10 + COUNT.fetch_add(1, Ordering::Relaxed);
        let subnet = format!("10.213.{}", id % 250);
        let mut lab =
            Lab { bridge: format!("rhb{id}"), hosts: Vec::new(), subnet, ports: format!("rhv{id}-"), server: None };
        assert!(ip(&["link", "add", &lab.bridge, "type", "bridge"]), "a bridge");
        assert!(ip(&["address", "add", &format!("{}.1/24", lab.subnet), "dev", &lab.bridge]));
        assert!(ip(&["link", "set", &lab.bridge, "up"]));
        for number in 1..=hosts {
            lab.join(id, number);
        }
        let mut command = Command::new(program);
        command.args(["-a", &lab.address(1), "-p", "4222", "-js", "-sd"]).arg(std::env::temp_dir().join(&lab.bridge));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        lab.server = Some(command.spawn().expect("a server"));
        Some(lab)
    }

    fn join(&mut self, id: u32, number: usize) {
        let (name, outer, inner) =
            (format!("rhn{id}-{number}"), format!("rhv{id}-{number}"), format!("rhw{id}-{number}"));
        assert!(ip(&["netns", "add", &name]), "{name}");
        self.hosts.push(name.clone());
        assert!(ip(&["link", "add", &outer, "type", "veth", "peer", "name", &inner]));
        assert!(ip(&["link", "set", &inner, "netns", &name]));
        assert!(ip(&["link", "set", &outer, "master", &self.bridge, "up"]));
        assert!(ip(&["-n", &name, "address", "add", &format!("{}/24", self.address(number + 1)), "dev", &inner]));
        assert!(ip(&["-n", &name, "link", "set", &inner, "up"]) && ip(&["-n", &name, "link", "set", "lo", "up"]));
    }

    /// The bridge's end of a host's link; the first host is 1.
    pub fn port(&self, number: usize) -> String {
        format!("{}{number}", self.ports)
    }

    /// The host's own end of it.
    pub fn interface(&self, number: usize) -> String {
        self.port(number).replace("rhv", "rhw")
    }

    /// The bridge's is 1, the first host's 2.
    fn address(&self, number: usize) -> String {
        format!("{}.{number}", self.subnet)
    }

    /// A fleet without agents.
    fn empty_fleet(&self) -> Fleet {
        let url = format!("nats://{}:4222", self.address(1));
        until("the server listens", || std::net::TcpStream::connect((self.address(1), 4222)).is_ok());
        Fleet { scratch: Scratch::new(), url, agents: Vec::new(), _server: None }
    }

    /// A fleet with an agent in each namespace.
    pub fn fleet(&self) -> Fleet {
        self.fleet_with(|_| Vec::new())
    }

    /// The same, with further flags of each, by its number.
    pub fn fleet_with(&self, more: impl Fn(usize) -> Vec<String>) -> Fleet {
        let mut fleet = self.empty_fleet();
        let allow = format!("{}.0/24", self.subnet);
        for (at, host) in self.hosts.iter().enumerate() {
            let (address, own) = (self.address(at + 2), more(at + 1));
            let more = ["--listen", &address, "--allow", &allow].into_iter().chain(own.iter().map(String::as_str));
            fleet.agent(&format!("a{}", at + 1), &more.collect::<Vec<_>>(), &["ip", "netns", "exec", host]);
        }
        fleet.complete();
        fleet
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        for host in &self.hosts {
            // the pairs of links go with their namespaces
            ip(&["netns", "delete", host]);
        }
        ip(&["link", "delete", &self.bridge]);
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&self.bridge));
    }
}

pub fn ip(args: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[test]
fn an_agent_sends_nowhere_that_its_operator_did_not_name() {
    let _busy = beside();
    let Some(lab) = Lab::new(2) else { return };
    let mut fleet = lab.empty_fleet();
    for (at, host) in lab.hosts.iter().enumerate() {
        // each may listen on its own address, and send only there
        fleet.agent(&format!("a{}", at + 1), &["--listen", &lab.address(at + 2)], &["ip", "netns", "exec", host]);
    }
    fleet.complete();
    fleet.scratch.write("trial.toml", sensors(1, "1s").toml());
    let refused = fleet.run("b", &[]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("refuses: `sender/main` would send to `receiver/main`"), "{}", refused.stderr);
    assert!(fleet.is_free());
}

#[test]
fn the_offset_of_another_clock_is_found_within_its_uncertainty() {
    let _busy = beside();
    let ahead = ["unshare", "--time", "--monotonic", "86400"];
    let probe = Command::new(ahead[0]).args(&ahead[1..]).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("skipped: another CLOCK_MONOTONIC needs root and `unshare --time`");
        return;
    }
    let Some(mut fleet) = Fleet::new(&[&[]]) else { return };
    fleet.agent("a2", &[], &ahead);
    fleet.complete();
    let scenario = Scenario { link: "carrier = \"udp\"".to_owned(), ..sensors(1, "3s") };
    let place = |toml: String| {
        let hosts = "[hosts.here]\ncores = 1\nagent = \"a1\"\n[hosts.there]\ncores = 1\nagent = \"a2\"\n\n";
        let toml = toml.replace("[nodes.sender]\n", "[nodes.sender]\nhost = \"here\"\n");
        hosts.to_owned()
            + &toml.replace("[nodes.receiver.actors", "[nodes.receiver]\nhost = \"there\"\n[nodes.receiver.actors")
    };
    fleet.scratch.write("trial.toml", place(scenario.toml()));
    let simulated = fleet.scratch.simulate("trial.toml", "s", &[]);
    let bundle = fleet.emulate("b", &[]);
    let clocks = bundle.manifest["clocks"].as_array().expect("clocks");
    assert_eq!((&clocks[0]["offset_ns"], &clocks[0]["one_clock"]), (&0.into(), &true.into()), "{:#}", clocks[0]);
    let number = |name: &str| clocks[1][name].as_i64().unwrap_or_else(|| panic!("{name}: {:#}", clocks[1]));
    let (offset, uncertainty) = (number("offset_ns"), number("uncertainty_ns"));
    // the namespace's clock is exactly a day ahead of this one
    let error = offset.abs_diff(86_400_000_000_000);
    println!("a day ahead: found with an error of {error} ns, uncertainty {uncertainty} ns");
    assert!(error <= uncertainty.unsigned_abs(), "{error} ns of {uncertainty} ns");
    assert!(uncertainty > 0 && number("readings") >= 2, "{:#}", clocks[1]);
    assert_eq!(bundle.manifest["clock"]["kind"], "measured");
    assert_eq!(bundle.schedule(), simulated.schedule());
    assert_eq!(bundle.total("success"), bundle.total_of("receiver", "datagrams_received"));
    assert!(bundle.total("success") > 0);
    // a one-way delay on one machine is not above the uncertainty of two clocks, or it is told
    let claimed = bundle.summary["total"]["metrics"]["one-way"]["p50_ns"].as_u64();
    let limit = bundle.manifest["clock"]["uncertainty_ns"].as_u64().expect("an uncertainty");
    let said = bundle.verdict["reasons"].to_string().contains("one-way delays are left out");
    assert!(claimed.map_or(said, |p50| p50 > limit), "{claimed:?} against {limit}");
}
