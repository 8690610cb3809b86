//! D-ITG's VoIP mode with as many flows, each from a port of its own: what arrives, and what a packet costs.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::figures::Figures;
use super::super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::super::report::Report;
use super::{EXTRA, Options, PORTS};

/// Packets of one flow a second: G.711 with one sample in each.
const RATE: f64 = 100.0;
/// Where its receiver listens: a port for each flow from here on. Assumed: below those that a host gives away.
const FIRST_PORT: u32 = 20_000;

/// Adds its rows, or names it as missing.
pub(super) fn run(lab: &mut Lab, report: &mut Report, options: &Options) -> Result<()> {
    if Command::new("ITGSend").arg("-h").output().is_err() {
        report.note("missing: D-ITG: apt-get install d-itg");
        return Ok(());
    }
    let (mut arrived, mut costs, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        eprintln!("D-ITG: round {} of {}", round + 1, options.rounds);
        let (packets, cpu_seconds) = turn(lab, options)?;
        let rate = packets / options.seconds as f64;
        arrived.push(rate);
        shares.push(rate / (RATE * f64::from(PORTS)));
        costs.push(cpu_seconds / packets.max(1.0) * 1e6);
    }
    let label = format!("D-ITG, {PORTS} VoIP flows, arrived");
    report.row("ditg_arrived", &label, &Figures::of(arrived), "packets/s", None);
    report.row("ditg_share", "", &Figures::of(shares), "of what was asked for", None);
    report.row("ditg_cpu", "", &Figures::of(costs), "µs of the sender's CPU for each packet", None);
    report.note(format!("of D-ITG {PORTS} flows of G.711.1 are asked for, {RATE} packets of 80 B a second each, in threads of one process"));
    Ok(())
}

fn turn(lab: &mut Lab, options: &Options) -> Result<(f64, f64)> {
    let log = lab.folder.join("users-ditg.bin");
    let script = lab.folder.join("users-ditg.txt");
    let milliseconds = options.seconds * 1000;
    let mut text = String::new();
    for flow in 0..PORTS {
        let _ = writeln!(text, "-a 127.0.0.1 -rp {} -t {milliseconds} VoIP -x G.711.1 -h RTP", FIRST_PORT + flow);
    }
    fs::write(&script, text)?;
    let mut command = lab.command("ITGRecv", Some(RECEIVER_CORE));
    let receiver = lab.start("users-ditg-receiver", command.arg("-l").arg(&log))?;
    std::thread::sleep(Duration::from_secs(1));
    let mut command = lab.command("ITGSend", Some(SENDER_CORE));
    command.arg(&script);
    let within = Duration::from_secs(options.seconds) + EXTRA;
    let done = lab.start("users-ditg", &mut command)?.finish(within, &[0])?;
    receiver.interrupt()?;
    receiver.finish(EXTRA, &[0, 1, 130])?;
    let decoded = Command::new("ITGDec").arg(&log).output().context("ITGDec")?;
    let packets = packets(&String::from_utf8_lossy(&decoded.stdout)).context("what ITGDec prints")?;
    Ok((packets, done.cpu_seconds))
}

/// `Total packets            =       400000`, of all flows the last.
fn packets(text: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("Total packets"));
    lines.next_back()?.trim().strip_prefix('=')?.trim().parse().ok()
}
