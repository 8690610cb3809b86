//! The engine of the simulator beside its peers, on one model: sensors that send to one worker over a link of 5 ms and
//! publish their counters each second, six events for a device and second (`framework/sim/tests/crowd/model.rs`).
//!
//! Peers are no dependencies of the product: the bare heap and nexosim are projects of their own that are generated below
//! `target/`, SimPy lies in a virtual environment there. Each program reads its own CPU time between a fifth of its run and
//! its end, so start-up is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::figures::Figures;
use super::lab::{Lab, SENDER_CORE};
use super::machine::said;
use super::report::{Goal, Report};

/// Longest run of one program.
const RUN_MAX: Duration = Duration::from_secs(180);
/// The release of SimPy that is measured.
const SIMPY: &str = "simpy==4.1.2";
/// Devices, and seconds of virtual time for the engine and the heap, for nexosim, and for SimPy; 0 is not run.
const SIZES: [Size; 3] = [
    Size { devices: 1000, engine: 1000, nexosim: 200, simpy: 20 },
    Size { devices: 100_000, engine: 12, nexosim: 5, simpy: 5 },
    // nexosim and SimPy take 5 kB and more for each device
    Size { devices: 1_000_000, engine: 5, nexosim: 0, simpy: 0 },
];
/// Bytes for each device that are aimed at.
const GOAL_BYTES: f64 = 200.0;

struct Size {
    devices: u32,
    engine: u32,
    nexosim: u32,
    simpy: u32,
}

/// What a program says of its run.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Run {
    events: f64,
    requests: f64,
    cpu_seconds: f64,
    bytes_per_device: f64,
}

/// A program that runs the model.
struct Peer {
    key: &'static str,
    label: &'static str,
    program: PathBuf,
    script: Option<PathBuf>,
    seconds: fn(&Size) -> u32,
}

/// Measures all of them, round after round, and adds their rows. A peer that fails, or takes too long, is told and left out
/// of what follows; so is nobody else.
pub fn measure(lab: &mut Lab, rounds: u32, report: &mut Report) -> Result<()> {
    let mut peers = peers(lab, report)?;
    for size in &SIZES {
        let mut runs: BTreeMap<&str, Vec<Run>> = BTreeMap::new();
        for round in 0..rounds {
            eprintln!("{} devices, round {} of {rounds}", size.devices, round + 1);
            let mut failed = Vec::new();
            for peer in peers.iter().filter(|peer| (peer.seconds)(size) > 0) {
                match run(lab, peer, size) {
                    Ok(one) => runs.entry(peer.key).or_default().push(one),
                    Err(why) if peer.key == "engine" => return Err(why),
                    Err(why) => {
                        report.note(format!("{} is missing at {} devices: {why:#}", peer.label, size.devices));
                        failed.push(peer.key);
                    }
                }
            }
            peers.retain(|peer| !failed.contains(&peer.key));
        }
        rows(report, &peers, size, &runs);
    }
    Ok(())
}

fn rows(report: &mut Report, peers: &[Peer], size: &Size, runs: &BTreeMap<&str, Vec<Run>>) {
    let devices = size.devices;
    let each = |key: &str, of: fn(&Run) -> f64| runs.get(key).map(|runs| Figures::of(runs.iter().map(of)));
    let events = |key: &str| each(key, |run| run.events / run.cpu_seconds / 1e6);
    for Peer { key, label, .. } in peers {
        let Some(figures) = events(key) else { continue };
        let label = format!("{label}, {devices} devices");
        report.row(&format!("{key}_{devices}_events"), &label, &figures, "million events/CPU s", None);
        if let Some(requests) = each(key, |run| run.requests / run.cpu_seconds / 1e6) {
            report.row(&format!("{key}_{devices}_requests"), "", &requests, "million requests/CPU s", None);
        }
        let goal = (*key == "engine" && devices == 1_000_000).then_some(Goal::AtMost(GOAL_BYTES));
        if let Some(bytes) = each(key, |run| run.bytes_per_device) {
            report.row(&format!("{key}_{devices}_bytes"), "", &bytes, "B of highest memory/device", goal);
        }
    }
    let goals = [("heap", [0.75, 1.5, 0.0]), ("nexosim", [8.0, 20.0, 0.0])];
    for (peer, bounds) in goals {
        let place = SIZES.iter().position(|known| known.devices == devices).unwrap_or(0);
        let (Some(ours), Some(theirs)) = (events("engine"), events(peer)) else { continue };
        let goal = Some(Goal::AtLeast(bounds[place])).filter(|_| bounds[place] > 0.0);
        report.row(
            &format!("engine_over_{peer}_{devices}"),
            &format!("engine over {peer}"),
            &ours.over(&theirs),
            "",
            goal,
        );
    }
}

fn run(lab: &mut Lab, peer: &Peer, size: &Size) -> Result<Run> {
    let mut command = lab.command(&peer.program, Some(SENDER_CORE));
    if let Some(script) = &peer.script {
        command.arg(script);
    }
    command.args([size.devices.to_string(), (peer.seconds)(size).to_string()]);
    let name = format!("crowd-{}-{}", peer.key, size.devices);
    let done = lab.start(&name, &mut command)?.finish(RUN_MAX, &[0])?;
    serde_json::from_str(&done.stdout).with_context(|| format!("what {name} prints"))
}

/// Whoever is there; the others are named.
fn peers(lab: &mut Lab, report: &mut Report) -> Result<Vec<Peer>> {
    let root = lab.root.clone();
    lab.cargo("build-crowd", &root, &["-p", "rehearsal-sim", "--example", "crowd"])?;
    let engine = |size: &Size| size.engine;
    let program = lab.example("crowd");
    let mut peers = vec![Peer { key: "engine", label: "this engine", program, script: None, seconds: engine }];
    match generated(lab, "heap", include_str!("peers/heap.rs"), "") {
        Ok(program) => {
            peers.push(Peer { key: "heap", label: "bare BinaryHeap loop", program, script: None, seconds: engine });
        }
        Err(why) => report.note(format!("the bare heap is missing: {why:#}")),
    }
    match generated(lab, "nexo", include_str!("peers/nexo.rs"), "nexosim = \"=1.0.0\"\n") {
        Ok(program) => {
            let seconds = |size: &Size| size.nexosim;
            peers.push(Peer { key: "nexosim", label: "nexosim 1.0.0, one thread", program, script: None, seconds });
        }
        Err(why) => report.note(format!("nexosim is missing: {why:#}")),
    }
    match simpy(lab) {
        Ok((program, script)) => {
            let seconds = |size: &Size| size.simpy;
            peers.push(Peer { key: "simpy", label: "SimPy 4.1.2", program, script: Some(script), seconds });
        }
        Err(why) => report.note(format!("SimPy is missing: {why:#}")),
    }
    Ok(peers)
}

/// Builds a peer as a project of its own, with the release profile of the product.
fn generated(lab: &mut Lab, name: &str, source: &str, dependencies: &str) -> Result<PathBuf> {
    let base = lab.folder.join("peers");
    let folder = base.join(name);
    fs::create_dir_all(folder.join("src"))?;
    write(&folder.join("src/main.rs"), source)?;
    let manifest = format!(
        "[package]\nname = \"peer-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         rand_distr = {{ version = \"0.6\", default-features = false, features = [\"std\"] }}\n\
         rand_xoshiro = {{ version = \"0.8\", features = [\"serde\"] }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n{dependencies}\n\
         [profile.release]\nopt-level = 3\nlto = \"thin\"\ncodegen-units = 4\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    let target = base.join("target");
    let directory = target.to_str().context("a folder with a name in UTF-8")?;
    lab.cargo(&format!("build-{name}"), &folder, &["--target-dir", directory])?;
    Ok(target.join("release").join(format!("peer-{name}")))
}

/// Writes what is not there yet as it should be, so that nothing is built twice.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn simpy(lab: &Lab) -> Result<(PathBuf, PathBuf)> {
    let folder = lab.target.join("bench-simpy");
    let python = folder.join("bin/python");
    let there = |python: &Path| said(&python.to_string_lossy(), &["-c", "import simpy"]).is_some();
    if !there(&python) {
        eprintln!("installing SimPy into {}", folder.display());
        lab.prepare("venv-simpy", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", SIMPY];
        lab.prepare("pip-simpy", Command::new(&python).args(pip))?;
    }
    ensure!(there(&python), "it was installed and cannot be imported");
    Ok((python, lab.root.join("xtask/src/bench/peers/crowd_simpy.py")))
}
