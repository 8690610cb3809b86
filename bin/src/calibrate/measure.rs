//! Tries: a shape is run for real until enough runs passed the gate, and what both ends used is read from their bundles.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hdrhistogram::Histogram;
use rehearsal_core::plan::Carrier;
use rehearsal_export::merge_latency;
use serde::Serialize;

use super::fit::{POINTS, TRIMMED, median};
use super::gate::{Contention, Gate};
use super::runner::{Real, Runner};
use super::shape::{Shape, WARMUP_SECONDS, word};
use crate::analysis::nodes::Role;
use crate::compare::{self, Times};
use crate::exit::UsageError;
use crate::report::chain;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Tries of a point that must pass the gate.
    pub wanted: usize,
    /// Tries of a point, at most.
    pub tries_max: usize,
    /// Seconds of traffic of each, the warm-up among them.
    pub seconds: u32,
}

impl Effort {
    /// Three tries of four seconds, or one of three.
    pub const fn of(quick: bool) -> Self {
        if quick {
            Effort { wanted: 1, tries_max: 3, seconds: 3 }
        } else {
            Effort { wanted: 3, tries_max: 6, seconds: 4 }
        }
    }
}

/// Where both ends of a try run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// In a process each: what each of them uses is known.
    Apart,
    /// In one process: how long datagrams travel is known.
    Together,
}

/// One run of a point.
#[derive(Clone, Debug, Serialize)]
pub struct Try {
    /// Carrier, size and load.
    pub point: String,
    /// What else the host did.
    pub contention: Contention,
    /// Why the gate does not let it pass; empty if it does.
    pub objections: Vec<String>,
    /// Whether it was used.
    pub used: bool,
    /// Exchanges per second at the receiver.
    pub rate: Option<f64>,
    /// CPU load of the sender, % of a core.
    pub sender_cpu_percent: Option<f64>,
    /// CPU load of the receiver, % of a core.
    pub receiver_cpu_percent: Option<f64>,
}

/// What one run came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Exchanges per second at the receiver.
    pub rate: f64,
    /// Core time of the sender for each, ns; NaN where both ends ran together, as the next two.
    pub sender_ns: f64,
    /// Core time of the receiver for each, ns.
    pub receiver_ns: f64,
    /// How often each of them fell asleep, 1/s: the sender, then the receiver. NaN where both ends ran together.
    pub sleeps: [f64; 2],
    /// The higher CPU load of the two, %.
    pub cpu_percent: f64,
    /// Quantiles of the time from leaving to the answer, or to the arrival of a datagram, ns.
    pub path: Vec<f64>,
    /// Quantiles of the sender's lag, ns.
    pub lag: Vec<f64>,
    /// The same of the way as percentiles.
    pub times: Option<Times>,
    /// Most memory of the receiver, bytes.
    pub memory_bytes: f64,
}

/// All tries so far.
pub struct Session {
    /// Starts processes.
    pub runner: Runner,
    /// Every try, in order.
    pub tries: Vec<Try>,
    effort: Effort,
    anyway: bool,
    quiet: bool,
}

impl Session {
    /// None so far.
    pub fn new(runner: Runner, effort: Effort, anyway: bool, quiet: bool) -> Self {
        Session { runner, tries: Vec::new(), effort, anyway, quiet }
    }

    /// Seconds of traffic of each try.
    pub fn seconds(&self) -> u32 {
        self.effort.seconds
    }

    /// Runs a point until enough tries pass the gate. With `anyway`, those that fail it are used if none passes.
    ///
    /// # Errors
    /// When a process of it fails.
    pub fn point(&mut self, load: &str, shape: &Shape, ends: Ends) -> Result<Vec<Measured>> {
        let carrier = match (shape.carrier, shape.kept) {
            (Carrier::Http1, false) => "http1 per request",
            (carrier, _) => word(carrier),
        };
        let point = format!("{carrier}, {} B, {load}", shape.parts.first().map_or(0, |part| part.bytes));
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..self.effort.tries_max {
            let real = self.runner.emulate("calibration", shape, ends == Ends::Together)?;
            let measured = read(&real, shape.carrier)?;
            let objections = Gate::FIXED.objections(&real.contention);
            if !self.quiet {
                let verdict = if objections.is_empty() { "used".to_owned() } else { objections.join("; ") };
                eprintln!("{point}: {:.0}/s: {verdict}", measured.as_ref().map_or(0.0, |m| m.rate));
            }
            let gated = objections.is_empty();
            self.note(&point, &real, objections, measured.as_ref());
            match (measured, gated) {
                (Some(measured), true) => passed.push(measured),
                (Some(measured), false) => failed.push((self.tries.len() - 1, measured)),
                (None, _) => {}
            }
            if passed.len() >= self.effort.wanted || (self.anyway && failed.len() >= self.effort.wanted) {
                break;
            }
        }
        if passed.is_empty() && self.anyway {
            failed.iter().for_each(|(at, _)| self.tries[*at].used = true);
            return Ok(failed.into_iter().map(|(_, measured)| measured).collect());
        }
        Ok(passed)
    }

    fn note(&mut self, point: &str, real: &Real, objections: Vec<String>, measured: Option<&Measured>) {
        let load = |ns: fn(&Measured) -> f64| measured.map(|m| ns(m) * m.rate / 1e7).filter(|load| load.is_finite());
        self.tries.push(Try {
            point: point.to_owned(),
            contention: real.contention,
            used: objections.is_empty() && measured.is_some(),
            objections,
            rate: measured.map(|m| m.rate),
            sender_cpu_percent: load(|m| m.sender_ns),
            receiver_cpu_percent: load(|m| m.receiver_ns),
        });
    }
}

/// The median of one figure over tries.
pub fn over(tries: &[Measured], of: impl Fn(&Measured) -> f64) -> Option<f64> {
    median(&tries.iter().map(of).collect::<Vec<_>>())
}

/// The median of tables, point by point.
pub fn over_tables(tries: &[Measured], of: impl Fn(&Measured) -> &Vec<f64>) -> Option<Vec<f64>> {
    let tables: Vec<&Vec<f64>> = tries.iter().map(of).filter(|table| table.len() == POINTS).collect();
    if tables.is_empty() {
        return None;
    }
    (0..POINTS).map(|at| median(&tables.iter().map(|table| table[at]).collect::<Vec<_>>())).collect()
}

/// What a run came to; `None` if nothing came through in a whole second.
fn read(real: &Real, carrier: Carrier) -> Result<Option<Measured>> {
    let side = compare::read(&real.bundles)?;
    let of = |role: Role| side.nodes.iter().find(|node| node.role == role);
    let (Some(sender), Some(receiver)) = (of(Role::Sender), of(Role::Receiver)) else { return Ok(None) };
    let Some(rate) = receiver.rate.filter(|rate| *rate > 0.0) else { return Ok(None) };
    let [sent, received] = [sender, receiver].map(|end| end.cpu_percent.unwrap_or(f64::NAN));
    let sleeps = [sender, receiver].map(|end| end.sleeps.unwrap_or(f64::NAN));
    let metric = if carrier == Carrier::Udp { "one-way" } else { "service" };
    let (path, lag) = (quantiles(&real.bundles, metric)?, quantiles(&real.bundles, "lag")?);
    let times = sender.times.get(metric).or_else(|| receiver.times.get(metric)).copied();
    Ok(Some(Measured {
        rate,
        sender_ns: sent / 100.0 * 1e9 / rate,
        receiver_ns: received / 100.0 * 1e9 / rate,
        sleeps,
        cpu_percent: sent.max(received),
        path,
        lag,
        times,
        memory_bytes: memory(&real.bundles)?,
    }))
}

/// Quantiles of a metric over all nodes, the largest values left out.
fn quantiles(bundles: &[PathBuf], metric: &str) -> Result<Vec<f64>> {
    let mut all: Option<Histogram<u64>> = None;
    for bundle in bundles {
        let of_interest = |interval: rehearsal_export::Interval<'_>| {
            (interval.metric == metric && interval.second >= u64::from(WARMUP_SECONDS)).then(String::new)
        };
        let merged = merge_latency(bundle, of_interest).map_err(|why| UsageError(chain(&why)))?;
        for (_, histogram) in merged {
            match &mut all {
                Some(known) => known.add(&histogram).map_err(|why| anyhow::anyhow!("{why}"))?,
                None => all = Some(histogram),
            }
        }
    }
    let Some(histogram) = all.filter(|histogram| !histogram.is_empty()) else { return Ok(Vec::new()) };
    let share = |at: usize| (1.0 - TRIMMED) * at as f64 / (POINTS - 1) as f64;
    Ok((0..POINTS).map(|at| histogram.value_at_quantile(share(at)) as f64).collect())
}

/// Most memory of the node that receives, bytes; 0 if nobody knows.
fn memory(bundles: &[PathBuf]) -> Result<f64> {
    let mut most = 0.0_f64;
    for bundle in bundles {
        let frame = frame(bundle)?;
        let nodes = frame.text("node").iter().zip(frame.number("memory_bytes"));
        most = nodes
            .filter(|(node, bytes)| node.as_ref() == "receiver" && bytes.is_finite())
            .fold(most, |m, (_, b)| m.max(*b));
    }
    Ok(most)
}

fn frame(bundle: &Path) -> Result<rehearsal_export::Frame> {
    Ok(rehearsal_export::Frame::open(bundle, &["node", "memory_bytes"]).map_err(|why| UsageError(chain(&why)))?)
}
