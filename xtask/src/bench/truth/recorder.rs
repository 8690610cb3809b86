//! An independent recorder: tcpdump(8) captures a run on loopback, and its packets are held against the bundle's times.
//!
//! The wire's time of an exchange is from the request's first packet to the response's last, as the kernel stamps them.
//! The service time begins a little earlier, when the request is handed to the connection, and ends later, when the
//! sender's thread has been woken and has read the answer. So the bundle's figure is the larger one, by what the sender's
//! own machine adds.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::process::{Running, free_address};
use super::super::report::{Goal, Report};
use super::super::subject;
use super::signal;
use super::wire::{self, Seen};

/// Requests per second.
const RATE: u64 = 1000;
/// How far the medians may be apart, µs.
const P50_APART_US: f64 = 50.0;
/// How far the 99th percentiles may be apart: this share of the wire's, or this many µs.
const P99_APART: (f64, f64) = (0.1, 200.0);
/// Runs of seven that are to agree.
const GOAL_AGREE: f64 = 5.0 / 7.0;
/// What a run may take longer than its traffic.
const RUN_EXTRA: Duration = Duration::from_secs(30);
/// How long tcpdump may take until it records, and until it has written.
const RECORDER_MAX: Duration = Duration::from_secs(10);
/// Packets on their way from the kernel into the file are waited for.
const SETTLE: Duration = Duration::from_millis(500);

/// One run, as the bundle and as the wire has it.
struct Pair {
    service_us: [f64; 2],
    wire_us: [f64; 2],
    exchanges: [f64; 2],
    /// Requests in the fullest second, wherever that begins, beyond the rate, one, and those that the bundle calls queued.
    crowd: f64,
    lost: f64,
}

impl Pair {
    fn apart_us(&self, at: usize) -> f64 {
        self.service_us[at] - self.wire_us[at]
    }

    fn agrees(&self) -> bool {
        let p99 = (P99_APART.0 * self.wire_us[1]).max(P99_APART.1);
        self.exchanges[0] == self.exchanges[1]
            && self.apart_us(0).abs() <= P50_APART_US
            && self.apart_us(1).abs() <= p99
    }

    fn line(&self, run: usize) -> String {
        let Pair { service_us: [s50, s99], wire_us: [w50, w99], exchanges: [ours, theirs], .. } = self;
        format!(
            "run {run}: p50 {s50:.0} µs, wire {w50:.0} µs; p99 {s99:.0} µs, wire {w99:.0} µs; exchanges {ours:.0}, wire \
             {theirs:.0}: {}",
            if self.agrees() { "agrees" } else { "APART" }
        )
    }
}

/// Measures so many runs.
pub fn measure(lab: &mut Lab, report: &mut Report, runs: u32, seconds: u64) -> Result<()> {
    let mut pairs = Vec::new();
    for run in 1..=runs {
        eprintln!("run {run} of {runs} with a recorder: {seconds} s");
        pairs.push(record(lab, seconds)?);
    }
    let of = |figure: &dyn Fn(&Pair) -> f64| Figures::of(pairs.iter().map(figure));
    for (at, name) in ["p50", "p99"].into_iter().enumerate() {
        let keys = ["service", "wire", "apart"].map(|what| format!("recorder_{what}_{name}_us"));
        report.row(&keys[0], &format!("bundle, service {name}"), &of(&|pair| pair.service_us[at]), "µs", None);
        report.row(&keys[1], &format!("wire {name}"), &of(&|pair| pair.wire_us[at]), "µs", None);
        report.row(&keys[2], &format!("bundle − wire, {name}"), &of(&|pair| pair.apart_us(at)), "µs", None);
    }
    let agree = of(&|pair| if pair.agrees() { 1.0 } else { 0.0 });
    let share = Figures { median: agree.rounds.iter().sum::<f64>() / f64::from(runs), ..agree };
    report.row("recorder_agrees", "runs that agree / all", &share, "", Some(Goal::AtLeast(GOAL_AGREE)));
    // of all runs, since none may exceed it; what was more than a gap late is exempt, and counted by the bundle
    let most = Figures::of([pairs.iter().map(|pair| pair.crowd).fold(f64::MIN, f64::max)]);
    let goal = Some(Goal::AtMost(0.0));
    report.row("recorder_crowd", "wire, most in any second over R + 1 + queued", &most, "requests", goal);
    report.row("recorder_lost", "packets the recorder lost", &of(&|pair| pair.lost), "", Some(Goal::AtMost(0.0)));
    for (run, pair) in pairs.iter().enumerate() {
        report.note(pair.line(run + 1));
    }
    let (share, us) = P99_APART;
    report.note(format!(
        "to agree: as many exchanges, p50 within {P50_APART_US} µs, p99 within {} % or {us} µs; the bundle's service time \
         holds what the sender's machine adds to the wire's: handing the request over, and waking up for the answer; on a busy machine, begin \
         the command with `chrt -r 1`",
        share * 100.0
    ));
    Ok(())
}

fn record(lab: &mut Lab, seconds: u64) -> Result<Pair> {
    let address = free_address()?;
    let file = subject::experiment(lab, "truth-recorder", &experiment(&address.to_string(), seconds))?;
    let capture = lab.folder.join("truth-recorder.pcap");
    let recorder = start(lab, &capture, address.port())?;
    let mut command = subject::command(lab, "truth-recorder", "emulate", &file, None)?;
    let outcome = subject::run(lab, "truth-recorder", &mut command, Duration::from_secs(seconds) + RUN_EXTRA)?;
    sleep(SETTLE);
    signal(&recorder, "INT")?;
    recorder.finish(RECORDER_MAX, &[0])?;
    let told = fs::read_to_string(lab.folder.join("truth-tcpdump.log"))?;
    let lost = lost(&told).with_context(|| format!("tcpdump does not tell what it lost: {told}"))?;
    let seen: Seen = wire::read(&fs::read(&capture)?, address.port()).map_err(|why| anyhow!(why))?;
    fs::remove_file(&capture)?;
    let service = |stat: &str| outcome.number(&format!("/total/metrics/service/{stat}_ns")) / 1e3;
    let on_wire = |share: f64| seen.quantile_ns(share) as f64 / 1e3;
    Ok(Pair {
        service_us: [service("p50"), service("p99")],
        wire_us: [on_wire(0.5), on_wire(0.99)],
        exchanges: [outcome.number("/total/totals/success"), seen.exchanges.len() as f64],
        crowd: seen.most_within(1_000_000_000) as f64 - (RATE + 1) as f64 - outcome.number("/total/totals/queued"),
        lost,
    })
}

/// Starts tcpdump; it records when this returns.
fn start(lab: &mut Lab, capture: &Path, port: u16) -> Result<Running> {
    let mut command = lab.command(PathBuf::from("tcpdump"), None);
    command.args(["-i", "lo", "-n", "-s", "128", "-B", "16384", "--immediate-mode", "--time-stamp-precision=nano"]);
    command.args(["-Z", "root", "-w"]).arg(capture).arg(format!("tcp port {port}"));
    let recorder = lab
        .start("truth-tcpdump", &mut command)
        .context("--recorder needs tcpdump; on Debian, apt-get install tcpdump")?;
    let log = lab.folder.join("truth-tcpdump.log");
    let begun = Instant::now();
    while !fs::read_to_string(&log)?.contains("listening on") {
        ensure!(
            !recorder.ended()?,
            "tcpdump ended before it recorded; a capture needs root\n{}",
            fs::read_to_string(&log)?
        );
        ensure!(begun.elapsed() < RECORDER_MAX, "tcpdump does not begin");
        sleep(Duration::from_millis(10));
    }
    Ok(recorder)
}

/// Packets that tcpdump says the kernel dropped.
fn lost(told: &str) -> Option<f64> {
    told.lines().find_map(|line| line.strip_suffix(" packets dropped by kernel"))?.trim().parse().ok()
}

fn experiment(address: &str, seconds: u64) -> String {
    format!(
        r#"# One sensor sends 1,000 readings a second, evenly spaced, to a receiver at a known port.
[experiment]
name = "bench-truth-recorder"
duration = "{seconds}s"

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "{RATE}/s"
in_flight = 64
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 64
listen = "{address}"

[links.default]
carrier = "http1"
connection = "keep-alive"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(service_us: [f64; 2], wire_us: [f64; 2], exchanges: [f64; 2]) -> Pair {
        Pair { service_us, wire_us, exchanges, crowd: 0.0, lost: 0.0 }
    }

    #[test]
    fn a_run_agrees_within_the_limits_alone() {
        assert!(pair([150.0, 400.0], [100.0, 200.0], [9.0, 9.0]).agrees());
        assert!(pair([150.0, 5499.0], [100.0, 5000.0], [9.0, 9.0]).agrees(), "a tenth of a large one");
        assert!(!pair([151.0, 400.0], [100.0, 200.0], [9.0, 9.0]).agrees());
        assert!(!pair([49.0, 400.0], [100.0, 200.0], [9.0, 9.0]).agrees(), "on either side");
        assert!(!pair([150.0, 401.0], [100.0, 200.0], [9.0, 9.0]).agrees());
        assert!(!pair([150.0, 400.0], [100.0, 200.0], [9.0, 8.0]).agrees());
    }

    #[test]
    fn what_tcpdump_lost_is_found() {
        let told = "9 packets captured\n18 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(lost(told), Some(3.0));
        assert_eq!(lost("9 packets captured\n"), None);
    }
}
