//! `bench protocols`: what a request costs by the way it goes, in CPU time of its sender and of its receiver.
//!
//! `configs/protocols.toml` is a closed loop of readings of 1 kB. It is run with other carriers, handshakes, sizes, shares of
//! malformed requests, networks and with nginx in between; sender and receiver are processes of their own on cores of their
//! own. What its start and end take of a sender is measured too, with one request in a second, and left out. Variants of one
//! part take turns. CPU time is what the kernel charges to a process: what is done for packets on their way (bridge,
//! translation of addresses) is charged to whoever sends them, as a rule.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};

use super::figures::Figures;
use super::lab::Lab;
use super::report::Report;
use turn::{Bench, Cost};
use variant::{Part, VARIANTS, Variant};

mod keys;
mod proxy;
mod turn;
mod variant;
mod ways;

/// Bytes of the large messages, of which a megabyte's costs are told.
const LARGE: f64 = 1e6;
/// The name of the report.
const NAME: &str = "protocols";

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Milliseconds of traffic of each variant in each round
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(200..=60_000))]
    millis: u64,
    /// What is measured; figures of other parts are kept as the last call on this machine left them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Measure the release build that is there, without building it anew
    #[arg(long)]
    built: bool,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let lab = if options.built { Lab::bare()? } else { Lab::open()? };
    let mut report = Report::new(NAME);
    keep(&lab, &mut report, &options.parts)?;
    let traffic = Duration::from_millis(options.millis);
    let mut bench = Bench::new(lab, traffic)?;
    for part in &options.parts {
        measure(&mut bench, *part, options.rounds, &mut report)?;
    }
    for (what, why) in &bench.missing {
        report.note(format!("missing: {what}: {why}"));
    }
    report.note(format!(
        "closed loop, 8 under way, {} ms of traffic in each round; sender on core 1, receiver and nginx on core 0",
        options.millis
    ));
    report.attach("variants", variants());
    let root = format!("{}/", bench.lab.root.display());
    bench.lab.commands.retain(|name, _| name.starts_with(NAME));
    bench.lab.commands.values_mut().for_each(|line| *line = line.replace(&root, ""));
    report.finish(&bench.lab)
}

/// What parts that are not measured now had before, on the same machine.
fn keep(lab: &Lab, report: &mut Report, parts: &[Part]) -> Result<()> {
    let Ok(text) = fs::read_to_string(lab.folder.join(NAME).with_extension("json")) else { return Ok(()) };
    let old: Value = serde_json::from_str(&text).context("an earlier target/bench/protocols.json")?;
    if old["machine"]["cpu"] != lab.machine.cpu.as_str() || old["machine"]["kernel"] != lab.machine.kernel.as_str() {
        return Ok(());
    }
    let kept = |key: &str| Part::ALL.iter().any(|part| !parts.contains(part) && key.starts_with(part.prefix()));
    for (key, value) in old["results"].as_object().into_iter().flatten().filter(|(key, _)| kept(key)) {
        report.attach(key, value.clone());
    }
    Ok(())
}

/// What each variant is, for whoever reads the file.
fn variants() -> Value {
    let of = |variant: &Variant| (format!("{}_{}", variant.part.prefix(), variant.key), json!(variant.title));
    Value::Object(VARIANTS.iter().map(of).collect::<Map<String, Value>>())
}

/// All variants of a part in turn, round by round.
fn measure(bench: &mut Bench, part: Part, rounds: u32, report: &mut Report) -> Result<()> {
    let variants: Vec<&Variant> = VARIANTS.iter().filter(|variant| variant.part == part).collect();
    let variants: Vec<&Variant> = variants.into_iter().filter(|variant| bench.can(variant)).collect();
    let mut all: Vec<Vec<Cost>> = variants.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        eprintln!("{}: round {} of {rounds}", part.prefix(), round + 1);
        let idle = bench.idle()?;
        for turn in 0..variants.len() {
            // who goes first alternates
            let at = (turn + round) % variants.len();
            all[at].push(bench.turn(variants[at], idle)?);
        }
    }
    for (variant, costs) in variants.iter().zip(&all) {
        tell(report, variant, costs);
    }
    let of = |key: &str| variants.iter().position(|variant| variant.key == key).map(|at| all[at].as_slice());
    for (over, base, title) in part.differences() {
        if let (Some(more), Some(less)) = (of(over), of(base)) {
            compare(report, part, title, (over, more), (base, less));
        }
    }
    Ok(())
}

/// The rows of one variant.
fn tell(report: &mut Report, variant: &Variant, costs: &[Cost]) {
    let (unit, scale) = variant.unit();
    let key = |end: &str| format!("{}_{}_{end}", variant.part.prefix(), variant.key);
    let row = |report: &mut Report, end: &str, label: &str, of: fn(&Cost) -> f64| {
        let figures = Figures::of(costs.iter().map(|cost| of(cost) * scale));
        report.row(&key(end), label, &figures, &format!("CPU µs/{unit}, {end}"), None);
    };
    row(report, "sender", variant.title, |cost| cost.sender_us);
    row(report, "receiver", "", |cost| cost.receiver_us);
    if variant.proxy.is_some() {
        row(report, "proxy", "", |cost| cost.proxy_us);
    }
    let rate = Figures::of(costs.iter().map(|cost| cost.rate));
    report.row(&key("rate"), "", &rate, "requests/s", None);
}

/// What one variant costs more than another in the same round, and how many times as much.
fn compare(report: &mut Report, part: Part, title: &str, over: (&str, &[Cost]), base: (&str, &[Cost])) {
    let ((name, over), (base_name, base)) = (over, base);
    let scale = VARIANTS
        .iter()
        .find(|variant| variant.part == part && variant.key == name)
        .map_or(1.0, |variant| variant.unit().1);
    let key = |end: &str, how: &str| format!("{}_{name}_{how}_{base_name}_{end}", part.prefix());
    for (end, of) in [("sender", (|c| c.sender_us) as fn(&Cost) -> f64), ("receiver", |c| c.receiver_us)] {
        let figures = [over, base].map(|costs| Figures::of(costs.iter().map(of)));
        let more = over.iter().zip(base).map(|(over, base)| (of(over) - of(base)) * scale);
        let label = if end == "sender" { title } else { "" };
        report.row(&key(end, "less"), label, &Figures::of(more), &format!("CPU µs more, {end}"), None);
        let [figures, base] = figures;
        report.row(&key(end, "over"), "", &figures.over(&base), &format!("times, {end}"), None);
    }
}
