//! One turn of a variant: a receiver, nginx where it is wanted, a sender, and what each of them took.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::keys::Keys;
use super::proxy;
use super::variant::{Network, Variant};
use super::ways::{Ways, nft};
use crate::bench::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use crate::bench::process::{Running, free_address};
use crate::bench::subject;

/// What a run may take longer than its traffic.
const EXTRA: Duration = Duration::from_secs(40);
/// The receiver's port in a namespace of its own.
const PORT: u16 = 7000;
/// How long a receiver may need until it listens.
const LISTEN_MAX: Duration = Duration::from_secs(20);
/// Share of requests that may be lost, as far as they were not malformed.
const LOST_MAX: f64 = 0.001;

/// What a request cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub sender_us: f64,
    pub receiver_us: f64,
    pub proxy_us: f64,
    /// Requests in a second.
    pub rate: f64,
}

/// The place, and what is there for it.
pub struct Bench {
    pub lab: Lab,
    /// What cannot be measured, and why.
    pub missing: Vec<(&'static str, String)>,
    file: PathBuf,
    traffic: Duration,
    keys: Option<Keys>,
    nginx: Option<PathBuf>,
    bridge: Option<Ways>,
    nat: Option<Ways>,
}

impl Bench {
    /// Looks for what is there.
    pub fn new(lab: Lab, traffic: Duration) -> Result<Bench> {
        let mut missing = Vec::new();
        let keys = there(&mut missing, "TLS and HTTP/3", Keys::make(&lab.folder.join("protocols-keys")));
        let nginx = there(&mut missing, "nginx", proxy::find());
        let bridge = there(&mut missing, "bridge", Ways::new(Network::Bridge));
        let nat = there(&mut missing, "translated addresses", nft().and_then(|()| Ways::new(Network::Nat)));
        let file = lab.root.join("configs/protocols.toml");
        Ok(Bench { lab, missing, file, traffic, keys, nginx, bridge, nat })
    }

    /// Whether there is all that a variant needs.
    pub fn can(&self, variant: &Variant) -> bool {
        let network = variant.network == Network::Host || self.ways(variant.network).is_some();
        network && (variant.tls.is_none() || self.keys.is_some()) && (variant.proxy.is_none() || self.nginx.is_some())
    }

    fn ways(&self, network: Network) -> Option<&Ways> {
        match network {
            Network::Host => None,
            Network::Bridge => self.bridge.as_ref(),
            Network::Nat => self.nat.as_ref(),
        }
    }

    /// CPU time of a sender that hardly sends, seconds: its start and its end.
    pub fn idle(&mut self) -> Result<f64> {
        let variant = &super::VARIANTS[0];
        let at = free_address()?;
        let receiver = self.receiver(variant, at)?;
        let mut command = self.command("protocols-idle", variant, at, SENDER_CORE)?;
        command.args(["--without", "receiver", "--set", "nodes.sender.actors.main.rate=2/s"]);
        let done = subject::run(&mut self.lab, "protocols-idle", &mut command, self.traffic + EXTRA)?;
        stop(receiver)?;
        Ok(done.cpu_seconds)
    }

    /// One turn; `idle` is what its start and end take of a sender.
    pub fn turn(&mut self, variant: &Variant, idle: f64) -> Result<Cost> {
        let back = match self.ways(variant.network) {
            None => free_address()?,
            Some(ways) => SocketAddr::new(ways.receiver().parse()?, PORT),
        };
        // behind nginx all is HTTP/1.1 in clear
        let behind = Variant { carrier: "http1", tls: None, ..*variant };
        let receiver = self.receiver(if variant.proxy.is_some() { &behind } else { variant }, back)?;
        let (front, nginx) = match (variant.proxy, self.nginx.clone()) {
            (Some(kind), Some(program)) => {
                let front = free_address()?;
                let nginx = proxy::start(&mut self.lab, &program, (kind, front), back, self.keys.as_ref())?;
                nginx.listening(front)?;
                (front, Some(nginx))
            }
            _ => (back, None),
        };
        let name = format!("protocols-{}-{}", variant.part, variant.key);
        let mut command = self.command(&name, variant, front, SENDER_CORE)?;
        command.args(["--without", "receiver"]);
        if let Some(ways) = self.ways(variant.network) {
            command = ways.command(&command, true);
        }
        let proxy_cpu = || nginx.as_ref().map_or(Ok(0.0), Running::cpu_seconds);
        let before = (receiver.cpu_seconds()?, proxy_cpu()?);
        let done = subject::run(&mut self.lab, &name, &mut command, self.traffic + EXTRA)?;
        let after = (receiver.cpu_seconds()?, proxy_cpu()?);
        stop(receiver)?;
        let totals = |key: &str| done.number(&format!("/total/totals/{key}"));
        let (answered, lost) = (totals("success") + totals("invalid"), totals("lost") + totals("failed"));
        ensure!(
            answered > 0.0 && lost <= answered * LOST_MAX,
            "{name}: {answered} were answered, {lost} lost: {}",
            done.bundle.display()
        );
        let each = |seconds: f64| seconds * 1e6 / answered;
        Ok(Cost {
            sender_us: each(done.cpu_seconds - idle),
            receiver_us: each(after.0 - before.0),
            proxy_us: each(after.1 - before.1),
            rate: answered / self.traffic.as_secs_f64(),
        })
    }

    /// Starts a receiver and waits until it listens.
    fn receiver(&mut self, variant: &Variant, at: SocketAddr) -> Result<Running> {
        let mut command = self.command("protocols-receiver", variant, at, RECEIVER_CORE)?;
        command.args(["--only", "receiver", "--set", "experiment.duration=1h"]);
        if let Some(ways) = self.ways(variant.network) {
            command = ways.command(&command, false);
        }
        let receiver = self.lab.start("protocols-receiver", &mut command)?;
        listens(&receiver, variant.carrier == "http3", at)?;
        Ok(receiver)
    }

    /// The experiment, as a variant has it, with a receiver at that address.
    fn command(&self, name: &str, variant: &Variant, at: SocketAddr, core: usize) -> Result<Command> {
        let mut command = subject::command(&self.lab, name, "emulate", &self.file, Some(core))?;
        let mut set = |key: &str, value: &str| _ = command.args(["--set", &format!("{key}={value}")]);
        set("nodes.receiver.actors.main.listen", &at.to_string());
        set("experiment.duration", &format!("{}ms", self.traffic.as_millis()));
        set("links.default.carrier", variant.carrier);
        set("links.default.connection", if variant.per_request { "per-request" } else { "keep-alive" });
        set("nodes.sender.actors.main.bytes", if variant.large { "1MB" } else { "1kB" });
        set("nodes.sender.actors.main.malformed", variant.malformed);
        if let (Some(handshake), Some(keys)) = (variant.tls, &self.keys) {
            set("links.default.tls.handshake", handshake);
            let files = [("ca", &keys.authority), ("certificate", &keys.certificate), ("key", &keys.key)];
            for (key, file) in files {
                set(&format!("links.default.tls.{key}"), &file.display().to_string());
            }
        }
        if self.ways(variant.network).is_some() {
            command.args(["--allow", "198.51.100.0/24", "--allow", "203.0.113.0/24"]);
        }
        Ok(command)
    }
}

/// What was found; else it is missing, with the reason.
fn there<T>(missing: &mut Vec<(&'static str, String)>, what: &'static str, found: Result<T>) -> Option<T> {
    found.map_err(|why| missing.push((what, format!("{why:#}")))).ok()
}

/// Ends a receiver, which would go on.
fn stop(receiver: Running) -> Result<()> {
    receiver.interrupt()?;
    receiver.finish(EXTRA, &[0, 10, 20, 130]).map(|_| ())
}

/// Waits until a process has a socket at that port, in whatever network it is.
fn listens(running: &Running, datagrams: bool, at: SocketAddr) -> Result<()> {
    let table = if datagrams { "udp" } else { "tcp" };
    let path = format!("/proc/{}/net/{table}", running.id());
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        if has_port(&text, datagrams, at.port()) {
            return Ok(());
        }
        ensure!(!running.ended()? && begun.elapsed() < LISTEN_MAX, "the receiver does not listen at {at}");
        sleep(Duration::from_millis(5));
    }
}

/// Whether a table of sockets (proc(5)) has one that listens at that port, or is bound to it.
fn has_port(table: &str, datagrams: bool, port: u16) -> bool {
    let state = if datagrams { "07" } else { "0A" };
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let own = words.next().and_then(|own| own.rsplit_once(':')).map(|(_, port)| port);
        own == Some(&format!("{port:04X}")) && words.nth(1) == Some(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:1B58 00000000:0000 0A 00000000:00000000\n   \
                     1: 0100007F:1B59 0100007F:1B58 01 00000000:00000000\n";
        assert!(has_port(table, false, 7000));
        assert!(!has_port(table, false, 7001), "it is connected and does not listen");
        assert!(!has_port(table, true, 7000));
    }
}
