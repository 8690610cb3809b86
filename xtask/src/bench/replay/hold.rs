//! Streams opened at top speed and held: how soon, and how many at a time, by the 5-tuples that are heard in ten seconds.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::figures::Figures;
use super::super::lab::SENDER_CORE;
use super::super::report::{Goal, Report};
use super::wire::{FLOWS, NEAR, capture};
use super::{Bench, Options, RUN_MAX, heard, number, said};

/// How long a run takes: each stream has to come again within the ten seconds in which it counts as held.
const SECONDS: &str = "12";
/// What is aimed at: streams opened in a second.
const GOAL_OPENED: f64 = 100_000.0;
/// Hosts of streams.
const HOSTS: [&str; 2] = ["--edit", "random_hosts=10.0.0.0/8"];

/// Opens streams by each sender in turns, holds them, and counts.
pub fn measure(bench: &mut Bench, options: &Options, report: &mut Report) -> Result<()> {
    let (pairs, streams) = (options.pairs, options.streams);
    let senders = options.senders(bench.peer.is_some());
    let file = capture(&bench.lab.folder, 64, FLOWS, 0)?;
    let wanted = streams.div_ceil(u64::from(FLOWS)) * u64::from(FLOWS);
    let all = senders.contains(&"tcpreplay").then(|| written(bench, &file, streams)).transpose()?;
    let mut figures: Vec<[Vec<f64>; 2]> = senders.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for pair in 0..pairs {
        eprintln!("{streams} streams: round {} of {pairs}", pair + 1);
        for (who, [opened, held]) in senders.iter().zip(&mut figures) {
            let file = all.as_ref().filter(|_| *who == "tcpreplay").unwrap_or(&file);
            let said = round(bench, who, file, streams)?;
            opened.push(number(&said, "/received/held/opened_per_second")?);
            held.push(number(&said, "/received/held/held_max")?);
        }
    }
    for (who, [opened, held]) in senders.into_iter().zip(figures) {
        let goals = (who != "tcpreplay").then_some([Goal::AtLeast(GOAL_OPENED), Goal::AtLeast(wanted as f64)]);
        let rows = [("opened_per_second", opened, "streams/s"), ("at_once", held, "streams")];
        for (at, (key, rounds, unit)) in rows.into_iter().enumerate() {
            let label = format!("hold, {who}, {}", key.replace('_', " "));
            report.row(&format!("hold_{who}_{key}"), &label, &Figures::of(rounds), unit, goals.map(|goals| goals[at]));
        }
    }
    all.iter().try_for_each(fs::remove_file)?;
    Ok(())
}

/// One sender against a far side that counts; gives what that says.
fn round(bench: &mut Bench, who: &str, file: &Path, streams: u64) -> Result<serde_json::Value> {
    // more than anybody sends: the far side ends when nothing comes any more
    let ear = bench.listen(file, &["--top-speed", "--loops", "1000000000", "--receive-as", "streams"])?;
    let mut command;
    if who == "tcpreplay" {
        command = bench.wire.command(Path::new("taskset"));
        command.args(["-c", &SENDER_CORE.to_string(), "tcpreplay", "-i", NEAR, "-K", "-t", "--loop", "0"]);
        command.args(["--duration", SECONDS]).arg(file);
    } else {
        command = bench.wire.command(&bench.lab.rehearsal());
        command.arg("replay").arg(file).args(["--interface", NEAR, "--path", who, "--top-speed", "--format", "json"]);
        command.args(["--hold", &streams.to_string(), "--duration", &format!("{SECONDS}s")]).args(HOSTS);
    }
    let done = bench.lab.start(&format!("hold-{who}"), &mut command)?.finish(RUN_MAX, &[0, 20])?;
    let heard = heard(ear)?;
    if who != "tcpreplay" {
        let [sent, arrived] = [number(&said(&done.stdout)?, "/sent/packets")?, number(&heard, "/received/arrived")?];
        if sent != arrived {
            bench.odd.push(format!("hold, {who}: {sent} packets were sent, {arrived} counted"));
        }
    }
    Ok(heard)
}

/// All streams, each once, as a capture for programs that make none.
fn written(bench: &mut Bench, file: &Path, streams: u64) -> Result<PathBuf> {
    let path = bench.lab.folder.join("replay-streams.pcap");
    // one of a run that was ended
    let _ = fs::remove_file(&path);
    let mut command = std::process::Command::new(bench.lab.rehearsal());
    command.arg("replay").arg(file).args(["--path", "pcap", "--top-speed", "--quiet", "--write"]).arg(&path);
    command.args(["--hold", &streams.to_string()]).args(HOSTS);
    bench.lab.prepare("replay-streams", &mut command)?;
    Ok(path)
}
