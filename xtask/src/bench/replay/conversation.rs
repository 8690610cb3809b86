//! Four protocols interactively between two nodes, each at a rate of its own, counted at a router's place between them:
//! the DTRF paper's table 2 and figure 11.
//!
//! ```text
//!   va ═ ra ─ rehearsal middle ─ rb ═ vb        one `rehearsal replay --interactive` with both halves for each protocol
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::figures::Figures;
use super::super::process::Running;
use super::super::report::{Goal, Report};
use super::wire::ip;
use super::{Bench, LISTEN_MAX, RUN_MAX, number};
use dialogues::{Dialogue, pcap};

#[path = "../../../../tests/conversations/dialogues.rs"]
mod dialogues;

/// Packets per second of each protocol, in the order of the dialogues. Source: the paper's table 2.
const RATES: [u64; 4] = [10_000, 2_000, 4_000, 8_000];
/// What is aimed at: how far the packets per second are from that, in percent.
const GOAL_RATE: f64 = 1.0;

/// Three namespaces in a row; they go with this.
struct Row {
    client: String,
    router: String,
    server: String,
}

impl Row {
    fn new() -> Result<Row> {
        let name = format!("rhtalk{}", std::process::id());
        let row = Row { client: format!("{name}a"), router: format!("{name}r"), server: format!("{name}b") };
        for space in [&row.client, &row.router, &row.server] {
            ip(&["netns", "add", space])?;
            // neighbours that nobody asked for would be counted as packets
            let quiet = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
            ip(&[&["netns", "exec", space, "sysctl", "-qw"], &quiet[..]].concat())?;
        }
        for (space, end, inner) in [(&row.client, "va", "ra"), (&row.server, "vb", "rb")] {
            ip(&["link", "add", end, "netns", space, "type", "veth", "peer", "name", inner, "netns", &row.router])?;
            ip(&["-n", space, "link", "set", end, "up"])?;
            ip(&["-n", &row.router, "link", "set", inner, "up"])?;
        }
        Ok(row)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for space in [&self.client, &self.router, &self.server] {
            // it may not have been made
            let _ = ip(&["netns", "delete", space]);
        }
    }
}

/// One protocol's part in a round.
struct Part {
    dialogue: Dialogue,
    rate: u64,
    conversations: u64,
}

impl Part {
    fn packets(&self) -> u64 {
        self.conversations * self.dialogue.packets.len() as u64
    }
}

/// Lets all four converse for so many seconds at once, and holds the counts of the middle against what was planned.
pub fn measure(bench: &mut Bench, seconds: u64, report: &mut Report) -> Result<()> {
    let row = Row::new()?;
    let parts: Vec<Part> = dialogues::all()
        .into_iter()
        .zip(RATES)
        .map(|(dialogue, rate)| {
            let conversations = rate * seconds / dialogue.packets.len() as u64;
            Part { dialogue, rate, conversations }
        })
        .collect();
    eprintln!("four protocols at {RATES:?} packets/s for {seconds} s");
    let mut middle = Command::new(bench.lab.rehearsal());
    middle.args(["middle", "--between", "ra", "--and", "rb", "--in", &row.router, "--format", "json"]);
    let middle = bench.lab.start("replay-middle", &mut middle)?;
    passes(&middle, &bench.lab.folder.join("replay-middle.log"))?;
    let running: Vec<Running> =
        (1..).zip(&parts).map(|(at, part)| start(bench, &row, at, part)).collect::<Result<_>>()?;
    let mut told = Vec::new();
    for running in running {
        let done = running.finish(RUN_MAX, &[0, 20])?;
        told.push(serde_json::from_str::<Value>(&done.stdout).context("what a replay says")?);
    }
    let sent = Command::new("kill").args(["-INT", &middle.id().to_string()]).status();
    ensure!(sent.context("kill(1)")?.success(), "the middle ended before it was to");
    let passed: Value = serde_json::from_str(&middle.finish(RUN_MAX, &[0])?.stdout).context("what the middle says")?;
    let mut differ = 0.0;
    for (part, told) in parts.iter().zip(&told) {
        differ += each(bench, part, told, report)?;
        at_middle(bench, part, &passed, report);
    }
    let goal = Some(Goal::AtMost(0.0));
    report.row("conversation_not_whole", "conversations that did not complete", &Figures::of([differ]), "", goal);
    for at in ["/missed/0", "/missed/1", "/dropped/0", "/dropped/1"] {
        let count = number(&passed, at)?;
        if count > 0.0 {
            bench.odd.push(format!("the middle says {at}: {count} frames"));
        }
    }
    report.attach("conversation_middle", passed);
    Ok(())
}

/// What the middle counted of a protocol: in all, and how far its line is from the straight one.
fn at_middle(bench: &mut Bench, part: &Part, passed: &Value, report: &mut Report) {
    let (name, kinds) = (part.dialogue.name, part.dialogue.on_wire);
    let count = |kind: &&str| {
        let ways = passed["kinds"][kind].as_array().into_iter().flatten();
        ways.filter_map(Value::as_u64).sum::<u64>()
    };
    let counted: u64 = kinds.iter().map(count).sum();
    let planned = part.packets();
    let off = counted.abs_diff(planned);
    let key = format!("conversation_{name}");
    let label = format!("{name}, packets at the middle, off the {planned} planned");
    report.row(&format!("{key}_counted_off"), &label, &Figures::of([off as f64]), "packets", Some(Goal::AtMost(0.0)));
    let mut line: Vec<u64> = Vec::new();
    for kind in kinds {
        let seconds = passed["seconds"][kind].as_array().into_iter().flatten().filter_map(Value::as_u64);
        for (at, count) in seconds.enumerate() {
            line.resize(line.len().max(at + 1), 0);
            line[at] += count;
        }
    }
    let mut sum = 0;
    let cumulative: Vec<u64> = line
        .iter()
        .map(|count| {
            sum += count;
            sum
        })
        .collect();
    let straight = |at: usize| ((at as u64 + 1) * part.rate).min(planned);
    let far = cumulative.iter().enumerate().map(|(at, sum)| sum.abs_diff(straight(at))).max().unwrap_or(0);
    if far > part.rate / 10 {
        bench.odd.push(format!("{name}: up to {far} packets off the straight line of {} per second", part.rate));
    }
    report.attach(&format!("{key}_cumulative"), json!(cumulative));
}

/// A protocol's figures; how many of its conversations did not complete.
fn each(bench: &mut Bench, part: &Part, told: &Value, report: &mut Report) -> Result<f64> {
    let name = part.dialogue.name;
    let rate = number(told, "/packets_per_second")?;
    let off = (rate / part.rate as f64 - 1.0).abs() * 100.0;
    let key = format!("conversation_{name}");
    let label = format!("{name}, {} packets/s planned", part.rate);
    report.row(&format!("{key}_pps"), &label, &Figures::of([rate]), "packets/s", None);
    report.row(
        &format!("{key}_off"),
        &format!("{name}, off that rate"),
        &Figures::of([off]),
        "%",
        Some(Goal::AtMost(GOAL_RATE)),
    );
    let kind = &told["conversations"]["kinds"][part.dialogue.kind];
    let sum = |key: &str| kind[key].as_array().into_iter().flatten().filter_map(Value::as_f64).sum::<f64>();
    let [sent, again, heard] = ["sent", "repeated", "heard"].map(sum);
    let planned = part.packets() as f64;
    if sent != planned || again > 0.0 || heard != planned {
        bench.odd.push(format!("{name}: {planned} packets planned, {sent} sent, {again} of them again, {heard} heard"));
    }
    if number(told, "/stalls")? > 0.0 {
        let ms = number(told, "/stalled_ns")? / 1e6;
        bench.odd.push(format!("{name}: did not run for {ms:.0} ms in all"));
    }
    let completed = told.pointer("/conversations/outcomes/completed").and_then(Value::as_f64).unwrap_or(0.0);
    Ok(part.conversations as f64 - completed)
}

fn start(bench: &mut Bench, row: &Row, at: u32, part: &Part) -> Result<Running> {
    let name = part.dialogue.name;
    let file = bench.lab.folder.join(format!("replay-{name}.pcap"));
    fs::write(&file, pcap(&part.dialogue.packets)).with_context(|| format!("writing {}", file.display()))?;
    ensure!(part.conversations > 0, "{name}: too short for one conversation; write more --seconds");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &row.client]).arg(bench.lab.rehearsal());
    command.arg("replay").arg(&file).args([
        "--interactive",
        "--interface",
        "va",
        "--peer",
        "vb",
        "--peer-in",
        &row.server,
    ]);
    command.args(["--pps", &part.rate.to_string(), "--conversations", &part.conversations.to_string()]);
    command.args(["--clients", &format!("10.{at}.0.0/16"), "--servers", &format!("10.{}.0.0/16", 100 + at)]);
    // the machine's stalls are no losses
    command.args(["--loss", "resend=3,after=5s", "--timeout", "20s", "--ordinary", "--format", "json"]);
    bench.lab.start(&format!("replay-{name}"), &mut command)
}

/// Waits until the middle says that it passes frames on.
fn passes(middle: &Running, log: &Path) -> Result<()> {
    let end = Instant::now() + LISTEN_MAX;
    while !fs::read_to_string(log).unwrap_or_default().contains("passing") {
        ensure!(!middle.ended()? && Instant::now() < end, "the middle does not begin; {} says why", log.display());
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
