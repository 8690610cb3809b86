//! `bench replay`: a capture over a veth pair, beside tcpreplay of the distribution, in interleaved pairs.
//!
//! ```text
//!   rehearsal replay | tcpreplay ──> va ═ veth ═ vb ──> rehearsal replay --path others: counts, or times of every frame
//! ```
//!
//! The same process judges both: at top speed an XDP program counts at the far end, with times a packet socket takes every
//! frame with the kernel's time, and of streams that are held it counts 5-tuples. Each part leaves a report of its own. It needs root,
//! iproute2 and tcpreplay; without tcpreplay only our own figures are told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::figures::{Figures, plain};
use super::lab::{Lab, RECEIVER_CORE, SENDER_CORE};
use super::process::Running;
use super::report::{Goal, Report};
use wire::{FAR, NEAR, Wire, capture};

mod conversation;
mod hold;
mod wire;

/// Lengths of frames at top speed, bytes: the DTRF paper's figure 6 goes from 64 to 1460.
const SIZES: [usize; 3] = [64, 512, 1460];
/// Packets of a capture for top speed.
const TOP_PACKETS: u32 = 5_000;
/// Who sends, the peer first.
const SENDERS: [&str; 4] = ["tcpreplay", "packet", "af-xdp", "xdp-live"];
/// Packets of the captures with times, of which the paper's figure 8 has 1 k to 150 k; and their gaps, µs.
const TIMED_PACKETS: [u32; 4] = [1_000, 10_000, 50_000, 150_000];
const TIMED_GAP_US: u64 = 20;
/// From so many packets on the end is held against tcpreplay's.
const LONG: u32 = 150_000;
/// Stalls of a run that are told one by one.
const STALLS_TOLD: usize = 3;
/// What is aimed at: packets per second over tcpreplay's.
const GOAL_LIVE: f64 = 5.0;
const GOAL_SHARED: f64 = 1.3;
/// And with times: tcpreplay's end offset over ours, and ours in µs.
const GOAL_END: f64 = 50.0;
const GOAL_END_US: f64 = 1_000.0;
/// What one run may take.
const RUN_MAX: Duration = Duration::from_secs(300);
/// How long the far side may need to listen.
const LISTEN_MAX: Duration = Duration::from_secs(20);

/// How much is measured.
#[derive(Debug, Args)]
pub struct Options {
    /// Interleaved pairs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// What is measured: top speed, the same on two cores, a capture's own times, streams that are held, conversations
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Part::Top, Part::Cores, Part::Times, Part::Hold, Part::Conversation])]
    parts: Vec<Part>,
    /// Lengths of frames at top speed, bytes
    #[arg(long, value_delimiter = ',', default_values_t = SIZES, value_parser = length)]
    bytes: Vec<usize>,
    /// Who sends at top speed, and opens streams
    #[arg(long, value_delimiter = ',', default_values = SENDERS, value_parser = SENDERS)]
    senders: Vec<String>,
    /// Packets of captures with times
    #[arg(long, value_delimiter = ',', default_values_t = TIMED_PACKETS)]
    packets: Vec<u32>,
    /// Streams that are opened and held
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=8_000_000))]
    streams: u64,
    /// Seconds that conversations go on
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Top,
    Cores,
    Times,
    Hold,
    Conversation,
}

/// A frame that holds a datagram with a number, and fits an ordinary MTU.
fn length(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| (60..=1514).contains(bytes));
    bytes.ok_or_else(|| "from 60 to 1514 bytes".to_owned())
}

impl Part {
    /// What its report is called.
    fn report(self) -> &'static str {
        match self {
            Part::Top => "replay-top",
            Part::Cores => "replay-cores",
            Part::Times => "replay-times",
            Part::Hold => "replay-hold",
            Part::Conversation => "replay-conversation",
        }
    }
}

impl Options {
    /// Who sends, in the order of [`SENDERS`].
    fn senders(&self, peer: bool) -> Vec<&'static str> {
        let wanted = |who: &str| self.senders.iter().any(|sender| sender == who) && (peer || who != SENDERS[0]);
        SENDERS.into_iter().filter(|who| wanted(who)).collect()
    }
}

/// The place, the peer, and what is wrong with the figures.
struct Bench {
    lab: Lab,
    wire: Wire,
    peer: Option<String>,
    odd: Vec<String>,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<()> {
    let lab = Lab::open()?;
    let peer = version();
    let mut bench = Bench { wire: Wire::new()?, lab, peer, odd: Vec::new() };
    for part in &options.parts {
        let mut report = Report::new(part.report());
        report.attach("tcpreplay", json!(bench.peer));
        match &bench.peer {
            Some(version) => report.note(format!("peer: {version}, as it is installed")),
            None => report.note("tcpreplay is missing (apt-get install tcpreplay): only our own figures"),
        }
        match part {
            Part::Top => top(&mut bench, options, &mut report)?,
            Part::Cores => cores(&mut bench, options.pairs, &mut report)?,
            Part::Times => {
                for count in &options.packets {
                    times(&mut bench, options.pairs, *count, &mut report)?;
                }
            }
            Part::Hold => hold::measure(&mut bench, options, &mut report)?,
            Part::Conversation => conversation::measure(&mut bench, options.seconds, &mut report)?,
        }
        bench.odd.drain(..).for_each(|odd| report.note(odd));
        report.finish(&bench.lab)?;
        bench.lab.commands.clear();
    }
    Ok(())
}

/// Which tcpreplay is installed, if any is.
fn version() -> Option<String> {
    let told = Command::new("tcpreplay").arg("--version").output().ok()?;
    let text = [told.stdout, told.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Some(
        text.lines()
            .find(|line| line.contains("version:"))
            .unwrap_or("tcpreplay of a version that it does not tell")
            .trim()
            .to_owned(),
    )
}

/// How often a sender repeats the capture at top speed: for a second or so.
fn loops(who: &str) -> u32 {
    match who {
        "xdp-live" => 1_000,
        "af-xdp" => 200,
        _ => 120,
    }
}

/// As many packets as go, counted where they arrive.
fn top(bench: &mut Bench, options: &Options, report: &mut Report) -> Result<()> {
    let senders = options.senders(bench.peer.is_some());
    let mut ratios: Vec<(&str, Vec<Figures>)> = Vec::new();
    for bytes in &options.bytes {
        let file = capture(&bench.lab.folder, *bytes, TOP_PACKETS, 0)?;
        let mut rates: Vec<Vec<f64>> = senders.iter().map(|_| Vec::new()).collect();
        for pair in 0..options.pairs {
            eprintln!("{bytes} bytes: round {} of {}", pair + 1, options.pairs);
            for (who, rates) in senders.iter().zip(&mut rates) {
                let heard = bench.round(who, &file, loops(who), &["--top-speed"], 1)?.heard;
                rates.push(number(&heard, "/received/rates/packets_per_second")?);
            }
        }
        let figures: Vec<(&str, Figures)> = senders.iter().copied().zip(rates.into_iter().map(Figures::of)).collect();
        for (who, figures) in &figures {
            report.row(&format!("top_{bytes}_{who}_pps"), &format!("{bytes} B, {who}"), figures, "packets/s", None);
        }
        let Some((_, peer)) = figures.iter().find(|(who, _)| *who == SENDERS[0]) else { continue };
        for (who, figures) in figures.iter().filter(|(who, _)| *who != SENDERS[0]) {
            let label = format!("{bytes} B, {who} over tcpreplay");
            let ratio = figures.over(peer);
            report.row(&format!("top_{bytes}_{who}_over_tcpreplay"), &label, &ratio, "", None);
            match ratios.iter_mut().find(|(before, _)| before == who) {
                Some((_, of_sizes)) => of_sizes.push(ratio),
                None => ratios.push((*who, vec![ratio])),
            }
        }
    }
    for (who, ratios) in ratios {
        let goal = match who {
            "xdp-live" => Some(Goal::AtLeast(GOAL_LIVE)),
            "af-xdp" => Some(Goal::AtLeast(GOAL_SHARED)),
            _ => None,
        };
        let label = format!("{who} over tcpreplay, average of lengths");
        report.row(&format!("top_{who}_over_tcpreplay"), &label, &average(&ratios), "", goal);
    }
    Ok(())
}

/// Round by round, the mean of several figures.
fn average(of: &[Figures]) -> Figures {
    let rounds = of.iter().map(|figures| figures.rounds.len()).min().unwrap_or(0);
    let mean = |round: usize| of.iter().map(|figures| figures.rounds[round]).sum::<f64>() / of.len() as f64;
    Figures::of((0..rounds).map(mean))
}

/// Two workers on two cores against one.
fn cores(bench: &mut Bench, pairs: u32, report: &mut Report) -> Result<()> {
    let file = capture(&bench.lab.folder, SIZES[0], TOP_PACKETS, 0)?;
    for who in &SENDERS[2..] {
        let [mut one, mut two] = [Vec::new(), Vec::new()];
        for pair in 0..pairs {
            eprintln!("{who} on two cores: round {} of {pairs}", pair + 1);
            for (workers, rates) in [(1, &mut one), (2, &mut two)] {
                let heard = bench.round(who, &file, loops(who), &["--top-speed"], workers)?.heard;
                rates.push(number(&heard, "/received/rates/packets_per_second")?);
            }
        }
        let [one, two] = [one, two].map(Figures::of);
        for (key, label, figures) in [("one", "one worker", &one), ("two", "two workers", &two)] {
            let label = format!("{} B, {who}, {label}", SIZES[0]);
            report.row(&format!("cores_{who}_{key}_pps"), &label, figures, "packets/s", None);
        }
        let label = format!("{} B, {who}, two workers over one", SIZES[0]);
        report.row(&format!("two_cores_{who}"), &label, &two.over(&one), "", None);
    }
    report.note("two workers and who counts share the cores of this machine");
    Ok(())
}

/// The capture's own times, for a capture of so many packets.
fn times(bench: &mut Bench, pairs: u32, count: u32, report: &mut Report) -> Result<()> {
    let file = capture(&bench.lab.folder, 64, count, TIMED_GAP_US)?;
    let [mut ours, mut peer] = [Errors::default(), Errors::default()];
    for pair in 0..pairs {
        eprintln!("{count} packets at {TIMED_GAP_US} µs: round {} of {pairs}", pair + 1);
        if bench.peer.is_some() {
            peer.add(&bench.round("tcpreplay", &file, 1, &[], 1)?)?;
        }
        let round = bench.round("packet", &file, 1, &[], 1)?;
        ours.add(&round)?;
        bench.odd.extend(round.stalls(count, pair + 1));
    }
    for (who, errors) in [("tcpreplay", &peer), ("rehearsal", &ours)] {
        if errors.p50.is_empty() {
            continue;
        }
        let goal = (who == "rehearsal").then_some(Goal::AtMost(GOAL_END_US));
        let kinds = [("gap_p50", &errors.p50, None), ("gap_mean", &errors.mean, None), ("end", &errors.end, goal)];
        for (key, figures, goal) in kinds {
            let label = format!("{count} packets, {who}, {}", key.replace('_', " error "));
            let figures = Figures::of(figures.iter().copied());
            report.row(&format!("timed_{count}_{who}_{key}_us"), &label, &figures, "µs", goal);
        }
    }
    if !peer.p50.is_empty() {
        let ratio =
            |ours: &[f64], peer: &[f64]| Figures::of(ours.iter().copied()).over(&Figures::of(peer.iter().copied()));
        let (key, label) =
            (format!("timed_{count}_gap_p50_ratio"), format!("{count} packets, gap p50, ours over tcpreplay's"));
        report.row(&key, &label, &ratio(&ours.p50, &peer.p50), "", Some(Goal::AtMost(1.0)));
        // of a short capture the end is as near as anybody's
        let goal = (count >= LONG).then_some(Goal::AtLeast(GOAL_END));
        let (key, label) = (format!("timed_{count}_end_ratio"), format!("{count} packets, end, tcpreplay's over ours"));
        report.row(&key, &label, &ratio(&peer.end, &ours.end), "", goal);
    }
    Ok(())
}

/// Errors of rounds, µs.
#[derive(Default)]
struct Errors {
    p50: Vec<f64>,
    mean: Vec<f64>,
    /// How much later than the median packet the last one was against the schedule, without its sign: a replay that drifts evenly
    /// has only half of what adds up, and one whose first packet was late has nothing of that.
    end: Vec<f64>,
}

impl Errors {
    fn add(&mut self, round: &Round) -> Result<()> {
        let us = |pointer: &str| number(&round.heard, pointer).map(|ns| ns / 1e3);
        self.p50.push(us("/received/gap_error/p50_ns")?);
        self.mean.push(us("/received/gap_error/mean_ns")?);
        self.end.push(us("/received/offset/end_ns")?.abs());
        Ok(())
    }
}

/// What came of one run.
struct Round {
    /// What the far side says.
    heard: Value,
    /// What our sender says of itself.
    sent: Option<Value>,
}

impl Round {
    /// The longest times during which our sender was kept from its core: stalls are the machine's, and are named.
    fn stalls(&self, count: u32, round: u32) -> Vec<String> {
        let stalls = self.sent.as_ref().and_then(|sent| sent.pointer("/sent/longest_stalls")?.as_array());
        let told = |stall: &Value| {
            let ms = |key: &str| plain(stall[key].as_f64().unwrap_or(0.0) / 1e6);
            let (packets, late, at) = (&stall["packets"], ms("late_ns"), ms("at_ns"));
            format!("{count} packets, round {round}: {packets} packets up to {late} ms late at {at} ms")
        };
        stalls.into_iter().flatten().take(STALLS_TOLD).map(told).collect()
    }
}

impl Bench {
    /// Listens, sends, and tells what arrived.
    fn round(&mut self, who: &str, file: &Path, loops: u32, pace: &[&str], workers: u32) -> Result<Round> {
        let loops = loops.to_string();
        let ear = self.listen(file, &[&["--loops", &loops], pace].concat())?;
        let mut sender = self.sender(who, file, &loops, pace, workers);
        let done = self.lab.start(&format!("replay-{who}"), &mut sender)?.finish(RUN_MAX, &[0, 20])?;
        let heard = heard(ear)?;
        let lost = heard.pointer("/received/lost").and_then(Value::as_u64).unwrap_or(0);
        if lost > 0 {
            self.odd.push(format!(
                "{who}, {}: {lost} packets did not arrive",
                file.file_name().unwrap_or_default().display()
            ));
        }
        let sent = (who != "tcpreplay").then(|| said(&done.stdout)).transpose()?;
        Ok(Round { heard, sent })
    }

    /// Somebody at the far end who judges what arrives by the capture in `file`.
    fn listen(&mut self, file: &Path, more: &[&str]) -> Result<Running> {
        let mut listen = self.wire.command(Path::new("taskset"));
        listen.args(["-c", &RECEIVER_CORE.to_string()]).arg(self.lab.rehearsal()).arg("replay").arg(file);
        listen.args(["--path", "others", "--receive", FAR, "--receive-in", &self.wire.far, "--format", "json"]);
        let ear = self.lab.start("replay-far", listen.args(more))?;
        let (log, end) = (self.lab.folder.join("replay-far.log"), Instant::now() + LISTEN_MAX);
        while !fs::read_to_string(&log).unwrap_or_default().contains("listening") {
            ensure!(!ear.ended()? && Instant::now() < end, "the far side does not listen; {} says why", log.display());
            sleep(Duration::from_millis(5));
        }
        Ok(ear)
    }

    fn sender(&self, who: &str, file: &Path, loops: &str, pace: &[&str], workers: u32) -> Command {
        let top = !pace.is_empty();
        if who == "tcpreplay" {
            let mut command = self.wire.command(Path::new("taskset"));
            command.args(["-c", &SENDER_CORE.to_string(), "tcpreplay", "-i", NEAR, "-K", "--loop", loops]);
            command.args(top.then_some("-t")).arg(file);
            return command;
        }
        let program: PathBuf = self.lab.rehearsal();
        let mut command = self.wire.command(&program);
        command.arg("replay").arg(file).args([
            "--interface",
            NEAR,
            "--path",
            who,
            "--loops",
            loops,
            "--format",
            "json",
        ]);
        command.args(["--workers", &workers.to_string()]).args(pace);
        command
    }
}

/// What the far side says once it has ended by itself.
fn heard(ear: Running) -> Result<Value> {
    said(&ear.finish(RUN_MAX, &[0, 20])?.stdout)
}

fn said(text: &str) -> Result<Value> {
    serde_json::from_str(text).context("what a replay says")
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    value.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("{pointer} of {value:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_is_of_the_same_rounds() {
        let average = average(&[Figures::of([1.0, 5.0, 3.0]), Figures::of([3.0, 7.0])]);
        assert_eq!(average.rounds, [2.0, 6.0]);
    }

    #[test]
    fn senders_keep_their_order_and_a_peer_may_be_missing() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            options: Options,
        }
        let parse = |words: &[&str]| <Command as clap::Parser>::try_parse_from(words).map(|command| command.options);
        let all = parse(&["x"]).expect("defaults");
        assert_eq!((all.senders(true), all.senders(false)), (SENDERS.to_vec(), SENDERS[1..].to_vec()));
        let some = parse(&["x", "--senders", "xdp-live,tcpreplay", "--bytes", "60,1514"]).expect("two of each");
        assert_eq!((some.senders(true), some.bytes), (vec!["tcpreplay", "xdp-live"], vec![60, 1514]));
        assert!(parse(&["x", "--bytes", "59"]).is_err() && parse(&["x", "--senders", "others"]).is_err());
    }
}
