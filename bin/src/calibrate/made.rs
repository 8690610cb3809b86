//! From what was measured to a calibration: lines through medians, halves of ways, and a busy wait that dry runs choose.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::calibration::{Calibration, CarrierCosts, Cost, HostContention, ReplyCosts, Saturation, Wake};
use rehearsal_core::plan::Carrier;
use rehearsal_core::time::Span;
use rehearsal_core::units::ByteSize;
use rehearsal_export::Finished;
use rehearsal_scenario::{LoadOptions, load};

use super::cores::{Fitted, Known, Row};
use super::fit::{half, less, lognormal, share, times};
use super::measure::Session;
use super::plan::{CONNECTIONS, Found, Idle, Load, Size, paced};
use super::shape::word;
use crate::compare::Times;
use crate::registry::registry;
use crate::trial::Trials;

/// Length of an acknowledgement, bytes: what a receiver answers a reading with.
const REPLY_BYTES: f64 = 40.0;
/// Shares of the wait of a napping node that are tried for a busy one.
const BUSY: [f64; 5] = [0.0, 0.125, 0.25, 0.5, 1.0];
/// Spreads of a message's cost that are tried: standard deviation over mean.
const SPREADS: [f64; 4] = [0.0, 0.3, 0.6, 1.0];
/// Weight of the 99th percentile beside the median, when one of these is chosen.
const P99_WEIGHT: f64 = 0.5;
/// An end that uses so many cores is busy all the time. Assumed: what is missing is telemetry's and the kernel's.
const BUSY_CORES: f64 = 0.9;

/// A calibration in the making.
pub struct Made {
    /// What it is so far.
    pub calibration: Calibration,
    /// How each part came about, for readers of the file.
    pub remarks: Vec<String>,
}

impl Made {
    /// One that knows a host and nothing of its costs.
    pub fn on(host: rehearsal_core::calibration::CalibratedHost) -> Self {
        let calibration = Calibration { host, ..Calibration::free("") };
        Made { calibration, remarks: Vec::new() }
    }

    /// Adds what one carrier's points say.
    ///
    /// # Errors
    /// When a dry run cannot be made.
    pub fn add(&mut self, found: &Found, room: &Path, cores: u32, seconds: u32) -> Result<()> {
        let name = word(found.carrier);
        let dry = Dry { trials: Trials::within(room)?, file: room.join("paced.toml"), cores, seconds };
        let rows = rows(found);
        let cpu = &self.calibration.cpu;
        let first = self.calibration.carriers.is_empty();
        let known = |value: f64| (!first).then_some(value);
        let known = Known {
            rest_cores: known(cpu.rest_cores),
            sleep_ns: known(cpu.sleep_ns),
            due_ns: known(self.calibration.pacing.due_ns),
        };
        let Some(fitted) = Fitted::of(&rows, known) else {
            self.remarks.push(format!("{name}: too few sizes were measured for a line; it is left out"));
            return Ok(());
        };
        self.take(found, &fitted);
        self.pace(found);
        self.told(found, &fitted, &rows);
        self.tune(found, &dry)?;
        let valid = &mut self.calibration.valid;
        let sizes = || found.sizes.iter().map(|size| u64::from(size.bytes));
        let first = self.calibration.carriers.len() == 1;
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        // one range for all carriers: what every one of them was measured for, but for the smallest readings
        valid.payload_min = ByteSize(if first { least } else { valid.payload_min.0.min(least) });
        valid.payload_max = Some(ByteSize(valid.payload_max.map_or(most, |known| known.0.max(most))));
        let percent = found.cpu_percent.min(100.0).round();
        valid.cpu_percent_max = Some(valid.cpu_percent_max.map_or(percent, |known| known.max(percent)));
        self.memory(found);
        Ok(())
    }

    /// Puts costs in their places. What one end uses for an exchange is split in halves between its two messages: nobody
    /// can see from outside which of them it was used for.
    fn take(&mut self, found: &Found, fitted: &Fitted) {
        let [send, receive] = &fitted.ends;
        (self.calibration.cpu.rest_cores, self.calibration.cpu.sleep_ns) = (fitted.rest_cores, fitted.sleep_ns);
        self.calibration.pacing.due_ns = fitted.due_ns;
        let costs = if found.carrier == Carrier::Udp {
            CarrierCosts { send: send.clone(), receive: receive.clone(), ..CarrierCosts::default() }
        } else {
            let reply = |whole: &Cost| Cost { ns_per_byte: 0.0, ..share(whole, 0.5) };
            let request = |whole: &Cost| Cost { ns_per_byte: whole.ns_per_byte, ..share(whole, 0.5) };
            CarrierCosts {
                send: request(send),
                receive: request(receive),
                reply: Some(ReplyCosts { send: reply(receive), receive: reply(send) }),
                ..CarrierCosts::default()
            }
        };
        let mut costs = CarrierCosts { connect: added(found, fitted, 0), ..costs };
        let [receive, send] = &fitted.paused;
        costs.paused = (!found.paused.is_empty()).then(|| ReplyCosts { send: send.clone(), receive: receive.clone() });
        costs.accept = (!costs.connect.is_free()).then(|| added(found, fitted, 1));
        costs.closing = closing(found, &costs);
        let smallest = found.sizes.iter().min_by_key(|size| size.bytes);
        costs.saturation = smallest
            .and_then(|size| size.most)
            .map(|most| Saturation { per_second: most.rate.round(), hidden_ns: 0.0 });
        self.calibration.carriers.insert(found.carrier, costs);
        self.ways(found);
    }

    /// How late the generator is.
    fn pace(&mut self, found: &Found) {
        let quantum = rehearsal_emu::EmuOptions::default().quantum;
        self.calibration.pacing.quantum.get_or_insert(quantum);
        let late = &mut self.calibration.pacing.late_ns;
        if let Some(lag) = found.idle.as_ref().and_then(|idle| idle.lag.clone()).filter(|_| late.is_empty()) {
            *late = times(&lag, 1.0);
        }
    }

    /// What a receiver holds at rest, and for each of its connections.
    fn memory(&mut self, found: &Found) {
        let Some(base) = found.idle.as_ref().and_then(|idle| idle.memory_bytes) else { return };
        let memory = &mut self.calibration.memory;
        memory.base = ByteSize(memory.base.0.max(base as u64));
        if let Some(crowded) = found.crowded_bytes {
            let each = (crowded - base).max(0.0) / f64::from(CONNECTIONS);
            memory.connection = ByteSize(each as u64);
            self.remarks.push(format!(
                "{}: a receiver has {:.1} MB at rest and {:.1} MB with {CONNECTIONS} connections",
                word(found.carrier),
                base / 1e6,
                crowded / 1e6
            ));
        }
    }

    /// Tells readers of the file what the costs were made from.
    fn told(&mut self, found: &Found, fitted: &Fitted, rows: &[Row]) {
        let name = word(found.carrier);
        for (end, who) in ["sender", "receiver"].into_iter().enumerate() {
            let cost = &fitted.ends[end];
            self.remarks.push(format!(
                "{name}, {who}: {:.1} us and {:.2} ns a byte for each exchange, {:.0} % of the fixed part less under full load; at \
                 most {:.1} points of CPU load off at its {} points",
                cost.fixed_ns / 1e3,
                cost.ns_per_byte,
                cost.eased * 100.0,
                fitted.error_points(rows, end),
                rows.iter().filter(|row| row.end == end && row.cores.is_finite()).count()
            ));
        }
        self.remarks.push(format!(
            "{name}: {:.2} % of a core at rest, {:.1} us for each time that an end falls asleep and is woken, {:.1} us for each exchange \
             that a clock makes due",
            fitted.rest_cores * 100.0,
            fitted.sleep_ns / 1e3,
            fitted.due_ns / 1e3
        ));
        if let Some(ReplyCosts { send, receive }) =
            self.calibration.carriers.get(&found.carrier).and_then(|c| c.paused.as_ref())
        {
            self.remarks.push(format!(
                "{name}: an answer after a pause adds {:.1} us and {:.3} ns a byte of its request at the receiver, {:.1} us and {:.3} ns at \
                 the sender",
                send.fixed_ns / 1e3,
                send.ns_per_byte,
                receive.fixed_ns / 1e3,
                receive.ns_per_byte
            ));
        }
        if let Some(CarrierCosts { connect, accept: Some(accept), .. }) = self.calibration.carriers.get(&found.carrier)
        {
            self.remarks.push(format!(
                "{name}: a connection of its own adds {:.1} us and {:.3} ns a byte at the sender, {:.1} us and {:.3} ns at the receiver",
                connect.fixed_ns / 1e3,
                connect.ns_per_byte,
                accept.fixed_ns / 1e3,
                accept.ns_per_byte
            ));
        }
    }

    /// What the way of an idle host takes beyond the core time of both ends.
    fn ways(&mut self, found: &Found) {
        let Some(path) = found.idle.as_ref().and_then(|idle| idle.path.as_ref()) else { return };
        let Some(costs) = self.calibration.carriers.get_mut(&found.carrier) else { return };
        let bytes = found.sizes.iter().map(|size| size.bytes).min().unwrap_or(0);
        let of = |cost: &Cost, bytes: f64| cost.mean(bytes, 0.0);
        let mut computed = of(&costs.send, bytes.into()) + of(&costs.receive, bytes.into());
        if let Some(reply) = &costs.reply {
            computed += of(&reply.send, REPLY_BYTES) + of(&reply.receive, REPLY_BYTES);
        }
        let each = |path: &[f64]| {
            let waited = less(path, computed);
            times(&if found.carrier == Carrier::Udp { waited } else { half(&waited) }, 1.0)
        };
        let nap_ns = found.nap.as_ref().and_then(|nap| nap.path.as_deref()).map(each).unwrap_or_default();
        let each = each(path);
        costs.wake = Wake { idle_ns: each.clone(), nap_ns, busy_ns: Vec::new() };
        if found.carrier == Carrier::Nats {
            self.broker(&each);
        }
    }

    /// Over NATS, what a message waits beyond a message over HTTP is the server's.
    fn broker(&mut self, each: &[f64]) {
        let direct = self.calibration.carriers.get(&Carrier::Http1).map(|http| http.wake.idle_ns.clone());
        let Some(direct) = direct.filter(|table| table.len() == each.len()) else { return };
        let middle = each.len() / 2;
        let broker = (each[middle] - direct[middle]).max(0.0);
        self.calibration.messages.broker = Some(Span::from_nanos(broker.round() as u64));
        if let Some(costs) = self.calibration.carriers.get_mut(&Carrier::Nats) {
            costs.wake.idle_ns = times(&less(each, broker), 1.0);
            costs.wake.nap_ns = times(&less(&costs.wake.nap_ns, broker), 1.0);
        }
    }

    /// Chooses the wait of a busy node and the spread of a message's cost: a share of the wait of one that naps, and a lognormal law
    /// around the mean, with which dry runs of the paced points come nearest.
    fn tune(&mut self, found: &Found, dry: &Dry) -> Result<()> {
        let points: Vec<(u32, Load, Times)> =
            paced_loads(&found.sizes).filter_map(|(size, load)| Some((size.bytes, *load, load.times?))).collect();
        let mut best: Option<(f64, f64, f64)> = None;
        for (spread, factor) in SPREADS.iter().flat_map(|spread| BUSY.iter().map(move |factor| (*spread, *factor))) {
            if points.is_empty() {
                break;
            }
            let mut candidate = self.calibration.clone();
            candidate.carriers.entry(found.carrier).and_modify(|costs| tuned(costs, spread, factor));
            let candidate = Arc::new(candidate);
            let mut error = 0.0;
            for (bytes, load, real) in &points {
                let finished = dry.run(found.carrier, *bytes, load.asked.unwrap_or(load.rate), candidate.clone())?;
                let metric = if found.carrier == Carrier::Udp { "one-way" } else { "service" };
                let Some(dry) = finished.summary.total.metrics.get(metric) else { continue };
                let off = |dry: u64, real: f64| (dry.max(1) as f64 / real.max(1.0)).ln().abs();
                // too few values tell no percentile; their largest is the nearest to it
                let p99_ns = dry.p99_ns.unwrap_or(dry.max_ns);
                error += off(dry.p50_ns, real.p50) + P99_WEIGHT * off(p99_ns, real.p99);
            }
            if best.is_none_or(|(least, ..)| error < least) {
                best = Some((error, spread, factor));
            }
        }
        let Some((error, spread, factor)) = best else { return Ok(()) };
        self.calibration.carriers.entry(found.carrier).and_modify(|costs| tuned(costs, spread, factor));
        self.remarks.push(format!(
            "{}: a busy node waits {factor} of the wait of one that naps, and a message's cost has a standard deviation of {spread} of its \
             mean: dry runs of the {} paced points came nearest with it, {:.0} % off in their medians and 99th percentiles",
            word(found.carrier),
            points.len(),
            (error / ((1.0 + P99_WEIGHT) * points.len() as f64)).exp_m1() * 100.0
        ));
        Ok(())
    }

    /// Adds what the tries say of the host.
    pub fn finish(mut self, session: &Session, gated: bool, scaling: Vec<f64>) -> Self {
        let used = || session.tries.iter().filter(|tried| tried.used);
        let worst = |of: fn(&super::gate::Contention) -> f64| {
            let most = used().map(|tried| of(&tried.contention)).fold(0.0, f64::max);
            (most * 1000.0).round() / 1000.0
        };
        self.calibration.host.contention = Some(HostContention {
            tries: session.tries.len() as u32,
            used: used().count() as u32,
            gated,
            steal_percent: worst(|c| c.steal_percent),
            other_cores: worst(|c| c.other_cores),
            wall_per_cpu: worst(|c| c.wall_per_cpu),
        });
        if !scaling.is_empty() {
            self.calibration.valid.cores_max = Some(scaling.len() as u32);
        }
        self.calibration.cpu.scaling = scaling;
        // what is assumed anyhow; written down, so that a file that was cut off is known by its last line
        self.calibration.messages.control.get_or_insert(Span::from_micros(100));
        self.rounded()
    }

    /// Costs to a tenth of a nanosecond, and bytes to a ten-thousandth: more was not measured.
    fn rounded(mut self) -> Self {
        let round = |cost: &mut Cost| {
            cost.fixed_ns = (cost.fixed_ns * 10.0).round() / 10.0;
            cost.ns_per_byte = (cost.ns_per_byte * 1e4).round() / 1e4;
            cost.eased = (cost.eased * 1e3).round() / 1e3;
        };
        let carriers: &mut BTreeMap<Carrier, CarrierCosts> = &mut self.calibration.carriers;
        for costs in carriers.values_mut() {
            [&mut costs.send, &mut costs.receive, &mut costs.connect].into_iter().for_each(round);
            for reply in [&mut costs.reply, &mut costs.paused].into_iter().flatten() {
                [&mut reply.send, &mut reply.receive].into_iter().for_each(round);
            }
            costs.accept.iter_mut().for_each(round);
            costs.closing = (costs.closing * 1e3).round() / 1e3;
        }
        let cpu = &mut self.calibration.cpu;
        cpu.rest_cores = (cpu.rest_cores * 1e5).round() / 1e5;
        cpu.sleep_ns = (cpu.sleep_ns * 10.0).round() / 10.0;
        self.calibration.pacing.due_ns = (self.calibration.pacing.due_ns * 10.0).round() / 10.0;
        self
    }
}

/// Costs with a spread, and with a share of the wait of a napping node for a busy one.
fn tuned(costs: &mut CarrierCosts, spread: f64, factor: f64) {
    let Wake { idle_ns, nap_ns, .. } = &costs.wake;
    costs.wake.busy_ns = times(if nap_ns.is_empty() { idle_ns } else { nap_ns }, factor);
    let table = lognormal(spread);
    let reply = costs.reply.iter_mut().flat_map(|reply| [&mut reply.send, &mut reply.receive]);
    for cost in [&mut costs.send, &mut costs.receive].into_iter().chain(reply) {
        cost.residual.clone_from(&table);
    }
}

fn paced_loads(sizes: &[Size]) -> impl Iterator<Item = (&Size, &Load)> {
    sizes.iter().flat_map(|size| size.loads.iter().map(move |load| (size, load)))
}

/// What both ends used at all points. An end with closed loops is left out unless it came to its limit.
fn rows(found: &Found) -> Vec<Row> {
    let paced = paced_loads(&found.sizes).map(|(size, load)| (size.bytes, load, false));
    let most = found.sizes.iter().filter_map(|size| Some((size.bytes, size.most.as_ref()?, true)));
    let idle = found.idle.iter().chain(&found.nap).map(|idle| (idle.bytes, &idle.load, false));
    let paused = paced_loads(&found.paused).map(|(size, load)| (size.bytes, load, false));
    let ways = [(paced.chain(most).chain(idle).collect::<Vec<_>>(), false), (paused.collect(), true)];
    let mut rows = Vec::new();
    for (points, paused) in ways {
        for ((bytes, load, flooded), end) in points.into_iter().flat_map(|point| [(point, 0), (point, 1)]) {
            let row = Row { paused, ..row(end, bytes, load) };
            if !flooded || row.cores >= BUSY_CORES {
                rows.push(row);
            }
        }
    }
    rows
}

fn row(end: usize, bytes: u32, load: &Load) -> Row {
    let (rate, cores, sleeps) = (load.rate, load.cores[end], load.sleeps[end]);
    let due = load.asked.filter(|_| end == 0).unwrap_or(0.0);
    Row { end, bytes: f64::from(bytes), rate, cores, sleeps, due, paused: false }
}

/// What a connection of its own adds at one end, with closed loops where they keep it busy.
fn added(found: &Found, fitted: &Fitted, end: usize) -> Cost {
    let most = found.fresh.iter().filter_map(|size| Some((size, size.most.as_ref()?)));
    let most = most.filter(|(_, load)| load.cores[end] >= BUSY_CORES);
    let rows: Vec<Row> = paced_loads(&found.fresh).chain(most).map(|(size, load)| row(end, size.bytes, load)).collect();
    fitted.added(&rows)
}

/// Share of a connection's cost that is not in the way of an exchange: the way on a new connection is longer by the rest.
fn closing(found: &Found, costs: &CarrierCosts) -> f64 {
    let middle = |idle: &Option<Idle>| Some(idle.as_ref()?.load.times?.p50);
    let (Some(kept), Some(fresh)) = (middle(&found.nap), middle(&found.fresh_nap)) else { return 0.0 };
    let of = |cost: &Cost| cost.mean(found.sizes.first().map_or(0.0, |size| size.bytes.into()), 0.0);
    let whole = of(&costs.connect) + costs.accept.as_ref().map_or(0.0, of);
    if whole > 0.0 { (1.0 - (fresh - kept) / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// Dry runs of paced points.
struct Dry {
    trials: Trials,
    file: PathBuf,
    cores: u32,
    seconds: u32,
}

impl Dry {
    fn run(&self, carrier: Carrier, bytes: u32, rate: f64, calibration: Arc<Calibration>) -> Result<Finished> {
        let shape = paced(carrier, true, bytes, rate, self.seconds);
        std::fs::write(&self.file, shape.toml("calibration", self.cores, 1))?;
        let experiment = load(&self.file, &registry(), &LoadOptions::default())?;
        self.trials.run(&experiment, 0, Some(calibration))
    }
}
