//! Datagrams of 1 kB: what one costs our sender, iperf3's and D-ITG's.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::figures::Figures;
use super::super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::super::process::free_address;
use super::super::report::Report;
use super::super::subject;
use super::{EXTRA, Options, Turn};

/// Datagrams a second that ours and D-ITG are asked for; iperf3 sends what it can.
const RATE: u32 = 100_000;

/// Adds a row for each sender that is there.
pub(super) fn run(lab: &mut Lab, report: &mut Report, options: &Options) -> Result<()> {
    let mut all: [Vec<Turn>; 3] = Default::default();
    let there = |program: &str| Command::new(program).arg("-h").output().is_ok();
    let (iperf, itg) = (there("iperf3"), there("ITGSend") && there("ITGRecv"));
    for pair in 0..options.pairs {
        eprintln!("datagrams: round {} of {}", pair + 1, options.pairs);
        for turn in 0..3 {
            match (turn + pair) % 3 {
                0 => all[0].push(ours(lab, options)?),
                1 if iperf => all[1].push(iperf3(lab, options)?),
                2 if itg => all[2].push(ditg(lab, options)?),
                _ => {}
            }
        }
    }
    let names = [("rehearsal", "udp_ours"), ("iperf3", "udp_iperf3"), ("D-ITG", "udp_ditg")];
    for ((name, key), turns) in names.into_iter().zip(&all) {
        if turns.is_empty() {
            report.note(format!("missing: {name}: apt-get install {}", name.to_lowercase()));
            continue;
        }
        let costs = Figures::of(turns.iter().map(|t| t.requests / t.cpu_seconds));
        report.row(key, &format!("{name}, UDP 1 kB"), &costs, "datagrams/CPU s", None);
        let rate = Figures::of(turns.iter().map(|t| t.requests / t.seconds));
        report.row(&format!("{key}_rate"), "", &rate, "datagrams/s", None);
    }
    report.note(format!("of rehearsal and D-ITG {RATE} datagrams/s are asked for, of iperf3 as many as it can send"));
    Ok(())
}

fn within(options: &Options) -> Duration {
    Duration::from_secs(options.seconds) + EXTRA
}

fn ours(lab: &mut Lab, options: &Options) -> Result<Turn> {
    let listen = free_address()?;
    let text = format!(
        r#"# Datagrams of 1 kB at a constant pace.
[experiment]
name = "bench-wire-udp"
duration = "{}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "{RATE}/s"
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
listen = "{listen}"

[links.default]
carrier = "udp"
"#,
        options.seconds
    );
    let file = subject::experiment(lab, "wire-udp", &text)?;
    let mut command = subject::command(lab, "wire-udp-receiver", "emulate", &file, Some(RECEIVER_CORE))?;
    let receiver = lab.start("wire-udp-receiver", command.args(["--only", "receiver", "--duration", "24h"]))?;
    std::thread::sleep(Duration::from_secs(1));
    let mut command = subject::command(lab, "wire-udp-sender", "emulate", &file, Some(SENDER_CORE))?;
    let run = subject::run(lab, "wire-udp-sender", command.args(["--without", "receiver"]), within(options))?;
    drop(receiver);
    let requests = run.number("/total/totals/datagrams_sent");
    Ok(Turn { requests, cpu_seconds: run.cpu_seconds, seconds: run.number("/duration_seconds") })
}

fn iperf3(lab: &mut Lab, options: &Options) -> Result<Turn> {
    let address = free_address()?;
    let port = address.port().to_string();
    let mut command = lab.command("iperf3", Some(RECEIVER_CORE));
    let server = lab.start("wire-iperf3-server", command.args(["-s", "-B", "127.0.0.1", "-p", &port]))?;
    server.listening(address)?;
    let mut command = lab.command("iperf3", Some(SENDER_CORE));
    command.args(["-c", "127.0.0.1", "-p", &port, "-u", "-b", "0", "-l", "1000", "-J", "-t"]);
    command.arg(options.seconds.to_string());
    let done = lab.start("wire-iperf3", &mut command)?.finish(within(options), &[0])?;
    let said: Value = serde_json::from_str(&done.stdout).context("what iperf3 prints")?;
    let number = |path: &str| said.pointer(path).and_then(Value::as_f64).context("what iperf3 prints");
    Ok(Turn {
        requests: number("/end/sum/packets")?,
        cpu_seconds: done.cpu_seconds,
        seconds: number("/end/sum/seconds")?,
    })
}

fn ditg(lab: &mut Lab, options: &Options) -> Result<Turn> {
    let log = lab.folder.join("wire-ditg.bin");
    let mut command = lab.command("ITGRecv", Some(RECEIVER_CORE));
    let receiver = lab.start("wire-ditg-receiver", &mut command)?;
    std::thread::sleep(Duration::from_secs(1));
    let mut command = lab.command("ITGSend", Some(SENDER_CORE));
    command.args(["-a", "127.0.0.1", "-T", "UDP", "-c", "1000", "-C", &RATE.to_string(), "-t"]);
    command.arg((options.seconds * 1000).to_string()).arg("-l").arg(&log);
    let done = lab.start("wire-ditg", &mut command)?.finish(within(options), &[0])?;
    drop(receiver);
    let decoded = Command::new("ITGDec").arg(&log).output().context("ITGDec")?;
    let requests = packets(&String::from_utf8_lossy(&decoded.stdout)).context("what ITGDec prints")?;
    Ok(Turn { requests, cpu_seconds: done.cpu_seconds, seconds: options.seconds as f64 })
}

/// `Total packets            =       400000`, of all flows the last.
fn packets(text: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("Total packets"));
    lines.next_back()?.trim().strip_prefix('=')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_all_flows() {
        let text =
            "Flow number: 1\nTotal packets            =          5\n**** TOTAL RESULTS\nTotal packets   =   400000\n";
        assert_eq!(packets(text), Some(400_000.0));
        assert_eq!(packets(""), None);
    }
}
