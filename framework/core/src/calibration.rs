//! What things cost on a host, as it was measured there: the file `calibration.toml` that a dry run can be given.
//!
//! Costs are core time in nanoseconds, by carrier: of sending and of receiving one message, a fixed part and a part per
//! byte of its payload. Beside them stand how the host shares out its cores, what a node keeps in memory, what a
//! message waits on its way into a program (idle and busy), and for which loads all of this was measured. Whatever is
//! left out costs nothing. [`Calibration::check`] is the one place that knows what makes sense.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plan::Carrier;
use crate::rng::RngStream;
use crate::time::{Span, Time};
use crate::units::ByteSize;

mod checks;

/// Most points of a table of quantiles. Assumed: sixteen times the 64 that a measurement needs.
pub const QUANTILES_MAX: usize = 1024;
/// Most cores that a table of scaling tells of: as many as a host of an experiment can have.
pub const CORES_MAX: usize = 4096;
/// Shortest period of a CPU quota. Source: Linux, `min_cfs_quota_period`, 1 ms.
pub const PERIOD_MIN: Span = Span::from_millis(1);
/// Longest period of a CPU quota. Source: Linux, `max_cfs_quota_period`, 1 s.
pub const PERIOD_MAX: Span = Span::from_secs(1);
/// Idle for less than this is a nap. Assumed: between the gaps of a busy node, which are below, and those of an idle one.
pub const NAP_MAX: Span = Span::from_millis(1);
/// Coarsest pace of a generator. Assumed: as `--quantum` allows.
pub const QUANTUM_MAX: Span = Span::from_millis(10);
/// An emulated pause ends late by less than this part of it.
const PAUSE_PARTS: u64 = 256;
/// Dearest message or frame that is believed, fixed part. Assumed: an hour would be a mistake in the unit.
const FIXED_NS_MAX: f64 = 3.6e12;
/// Largest share of a fixed part that falls away under load: some of it is always left.
pub const EASED_MAX: f64 = 0.99;
/// Dearest byte that is believed. Assumed: a millisecond for each would be a mistake in the unit.
const BYTE_NS_MAX: f64 = 1e6;

/// A host's costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Where and when it was measured.
    pub host: CalibratedHost,
    /// For which loads it holds.
    #[serde(default)]
    pub valid: Validity,
    /// How the host shares out its cores.
    #[serde(default)]
    pub cpu: CpuRules,
    /// How late a generator of load is.
    #[serde(default)]
    pub pacing: Pacing,
    /// What a node keeps in memory.
    #[serde(default)]
    pub memory: MemoryRules,
    /// What messages of traffic cost, by carrier.
    #[serde(default)]
    pub carriers: BTreeMap<Carrier, CarrierCosts>,
    /// What handshakes of TLS cost, beside the connection under them.
    #[serde(default, skip_serializing_if = "TlsCosts::is_free")]
    pub tls: TlsCosts,
    /// What an actor's own work costs.
    #[serde(default)]
    pub work: WorkCosts,
    /// Messages of control and telemetry, and the server between.
    #[serde(default)]
    pub messages: MessageCosts,
}

/// Where and when a calibration was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedHost {
    /// Tells hosts apart: a name, or the machine id.
    pub id: String,
    /// Whether somebody measured it; false for a collection of assumptions such as the one that is shipped.
    #[serde(default)]
    pub measured: bool,
    /// Processor and cores, for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Release of the kernel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// When, as `2026-12-01`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// What else the host did meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<HostContention>,
}

/// What else a host did while a calibration was measured: the worst of the tries that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostContention {
    /// Tries that were made.
    pub tries: u32,
    /// Tries that were used, among them some that failed the gate if `gated` is false.
    pub used: u32,
    /// Whether only tries that passed the gate were used.
    pub gated: bool,
    /// Time that the hypervisor gave to others, % of all.
    pub steal_percent: f64,
    /// Cores that other programs used on average.
    pub other_cores: f64,
    /// A computation's time by the clock over its CPU time.
    pub wall_per_cpu: f64,
}

/// For which loads a calibration holds. What lies outside is simulated all the same, and the verdict names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// Smallest payload that was measured.
    #[serde(default)]
    pub payload_min: ByteSize,
    /// Largest payload that was measured; without it, none is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_max: Option<ByteSize>,
    /// Most cores of one node that were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub cores_max: Option<u32>,
    /// Highest use of one node's cores that was measured, per cent of its allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub cpu_percent_max: Option<f64>,
}

/// How a host shares out its cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CpuRules {
    /// Who computes when there is more work than cores.
    pub scheduling: Scheduling,
    /// Period in which a node's quota is enforced, 1 ms to 1 s. Source: Linux, 100 ms unless told otherwise.
    pub period: Span,
    /// Threads of a node that send and receive; one message at a time each. An emulated node has one.
    #[schemars(range(min = 1, max = 4096))]
    pub io_threads: u32,
    /// Speed of each core when a node has 1, 2, 3, … of them, as a share of that of one alone; the last one holds for
    /// more. Empty: they do not hinder each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<f64>,
    /// Core time of waking up, ns: what a node that slept uses before it begins with a message, beside that message's own
    /// cost. A node that is at work already does not need it, so messages are cheaper the more there are.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub wake_ns: f64,
    /// Core time of falling asleep and waking up again, ns, while no message waits for it: a node uses it each time that it has
    /// nothing to do, at most as long as that lasts.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub sleep_ns: f64,
    /// Cores that a node uses when it has no traffic: telemetry, watchdogs, timers.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rest_cores: f64,
}

/// How late a generator of load is: an emulated one rounds its wake-ups up, and is woken later than it asked for. What is
/// left out: a simulated generator is never late.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pacing {
    /// Wake-ups fall on the start of traffic and whole multiples of it, or of half the shortest gap of a node's streams if
    /// that is shorter: `--quantum` of `emulate`. What is due when a message comes in leaves with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Span>,
    /// Core time of an exchange that a clock makes due, beside that of sending it, ns: a timer, and a turn of the event loop. It is
    /// used whether the exchange leaves at once or waits for its place; one that finds none is free.
    pub due_ns: f64,
    /// How late a thread that sleeps is woken: evenly spaced quantiles from 0 % to 100 %, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_ns: Vec<f64>,
}

/// Who computes when a node has more work than cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// All of it, each a fair share: a thread for each piece, as in an emulation under the kernel's scheduler.
    #[default]
    Sharing,
    /// As many pieces as there are cores, first come, first served.
    Fifo,
}

/// What a node keeps in memory: `base + actor × actors + connection × connections + bytes under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryRules {
    /// Of a node that does nothing.
    pub base: ByteSize,
    /// Of each of its actors.
    pub actor: ByteSize,
    /// Of each open connection, at either end.
    pub connection: ByteSize,
    /// What happens when a request does not fit any more.
    pub when_full: WhenFull,
}

/// What happens when a node's memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// The kernel ends the node: a fault, which ends the run.
    #[default]
    Kill,
    /// The receiver turns the request away.
    Reject,
}

/// What messages over one carrier cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CarrierCosts {
    /// To send one.
    pub send: Cost,
    /// To receive one.
    pub receive: Cost,
    /// To send and to receive a reply; without it, a reply costs what a request of its size costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplyCosts>,
    /// What an answer costs beside, if its receiver has not given it at once; bytes are those of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<ReplyCosts>,
    /// To open a connection.
    pub connect: Cost,
    /// To take one in, at the other end; without it, as dear as to open one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Cost>,
    /// Share of both that is worked off when the answer has come through: a connection is closed by then.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub closing: f64,
    /// Wait before a received message is looked at.
    pub wake: Wake,
    /// What a receiver did when it was offered more than it can take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
}

/// What handshakes of TLS cost, over TCP and over QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsCosts {
    /// With certificates.
    pub full: HandshakeCosts,
    /// By a ticket.
    pub resumed: HandshakeCosts,
}

/// Core time of one handshake. A connection is not there before both ends have spent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandshakeCosts {
    /// Of the end that opens the connection, ns.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub connect_ns: f64,
    /// Of the other end, ns.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub accept_ns: f64,
}

impl TlsCosts {
    /// Whether nothing is known of them.
    pub fn is_free(&self) -> bool {
        *self == TlsCosts::default()
    }

    /// Those of a full handshake, or of one by a ticket.
    pub fn of(&self, resumed: bool) -> HandshakeCosts {
        if resumed { self.resumed } else { self.full }
    }
}

impl HandshakeCosts {
    /// What both ends take, one after the other.
    pub fn span(&self) -> Span {
        Span::from_nanos((self.connect_ns + self.accept_ns) as u64)
    }
}

/// What replies cost: measured as a part of the exchange, since nobody replies without a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyCosts {
    /// To send one.
    pub send: Cost,
    /// To receive one.
    pub receive: Cost,
}

/// Core time of something: `(fixed_ns + ns_per_byte × bytes) × residual`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// Whatever its size, ns.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub fixed_ns: f64,
    /// For each byte of payload, ns.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub ns_per_byte: f64,
    /// Share of the fixed part, below 1, that falls away on a node that is at work all the time: it sleeps less, wakes up less
    /// often, and does more with each turn of its event loop. At half the load half of it falls away.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub eased: f64,
    /// Evenly spaced quantiles, from 0 % to 100 %, of measured cost divided by fitted cost. Empty: always 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub residual: Vec<f64>,
}

/// How long a message waits between its arrival at the host and the moment its program begins with it, without using a
/// core: evenly spaced quantiles from 0 % to 100 %, ns. Empty: not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wake {
    /// Where the node was idle: the kernel has to wake a thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_ns: Vec<f64>,
    /// Where it had been idle for less than [`NAP_MAX`]: its core sleeps less deeply. Empty: as `idle_ns`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nap_ns: Vec<f64>,
    /// Where the node was at work already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busy_ns: Vec<f64>,
}

/// What a receiver did when it was offered more than it can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Saturation {
    /// Exchanges per second on one core.
    #[schemars(range(min = 0.0))]
    pub per_second: f64,
    /// Core time per exchange that shows at saturation only, charged to the receiver after its reply, ns.
    #[schemars(range(min = 0.0, max = 3.6e12))]
    pub hidden_ns: f64,
}

/// What an actor's own work costs, beside what the experiment says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkCosts {
    /// To encode a frame of so many bytes during the run.
    pub encode: Cost,
    /// To decode a whole payload.
    pub decode: Cost,
}

/// Messages of control and telemetry, and the server between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessageCosts {
    /// What a NATS server takes for one message of traffic, each way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<Span>,
    /// From publisher to reader; without it, 100 µs are assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Span>,
}

impl Default for CpuRules {
    fn default() -> Self {
        CpuRules {
            scheduling: Scheduling::default(),
            period: Span::from_millis(100),
            io_threads: 1,
            scaling: Vec::new(),
            wake_ns: 0.0,
            sleep_ns: 0.0,
            rest_cores: 0.0,
        }
    }
}

/// When an emulated pause that begins at `now` ends: late by at most a part of it (78 µs of 20 ms), so that those which end
/// at nearly the same time need one wake-up; and by less than the generator's `quantum`.
pub fn pause_end(now: Time, pause: Span, quantum: Span) -> Time {
    let fine = Span::from_nanos(pause.as_nanos() / PAUSE_PARTS).min(quantum);
    now.saturating_add(pause).round_up(fine)
}

/// A value of a calibration that makes no sense.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{key}`: {reason}")]
pub struct CalibrationError {
    /// The key, with the tables it stands in: `carriers.http1.send.fixed_ns`.
    pub key: String,
    /// What is wrong and what to write instead.
    pub reason: String,
}

impl Calibration {
    /// One of which nothing but the id is known: everything is free.
    pub fn free(id: &str) -> Self {
        Calibration {
            host: CalibratedHost { id: id.to_owned(), ..CalibratedHost::default() },
            valid: Validity::default(),
            cpu: CpuRules::default(),
            pacing: Pacing::default(),
            memory: MemoryRules::default(),
            carriers: BTreeMap::new(),
            tls: TlsCosts::default(),
            work: WorkCosts::default(),
            messages: MessageCosts::default(),
        }
    }

    /// How fast each core of a node with `cores` of them is, as a share of one alone.
    pub fn speed(&self, cores: u32) -> f64 {
        let place = (cores.max(1) as usize - 1).min(self.cpu.scaling.len().saturating_sub(1));
        self.cpu.scaling.get(place).copied().unwrap_or(1.0)
    }

    /// What to call it in a sentence: `lab-7, measured 2026-12-01`, or `default, which nobody measured`.
    pub fn title(&self) -> String {
        let CalibratedHost { id, measured, date, .. } = &self.host;
        match (measured, date.as_str()) {
            (false, _) => format!("`{id}`, which nobody measured"),
            (true, "") => format!("`{id}`"),
            (true, date) => format!("`{id}`, measured {date}"),
        }
    }
}

impl Pacing {
    /// How late a thread is woken this time.
    #[inline]
    pub fn late(&self, random: &mut RngStream) -> Span {
        if self.late_ns.is_empty() {
            return Span::ZERO;
        }
        Span::from_nanos(quantile(&self.late_ns, random.unit()).round() as u64)
    }
}

impl Cost {
    /// Whether it costs nothing, whatever is drawn.
    pub fn is_free(&self) -> bool {
        self.fixed_ns <= 0.0 && self.ns_per_byte <= 0.0
    }

    /// Core time for `bytes` bytes on a node that is at work for a share `load` (0 to 1) of the time, ns, without its spread.
    #[inline]
    pub fn mean(&self, bytes: f64, load: f64) -> f64 {
        self.fixed_ns * (1.0 - self.eased * load) + self.ns_per_byte * bytes
    }

    /// The same with its spread; the residual comes from `random`, which is not touched without one.
    #[inline]
    pub fn draw(&self, bytes: u32, load: f64, random: &mut RngStream) -> f64 {
        let fitted = self.mean(bytes.into(), load);
        if self.residual.is_empty() { fitted } else { fitted * quantile(&self.residual, random.unit()) }
    }
}

impl Wake {
    /// How long a message waits at a node that has been idle for so long, or is at work.
    #[inline]
    pub fn draw(&self, idle: Option<Span>, random: &mut RngStream) -> Span {
        let table = match idle {
            None => &self.busy_ns,
            Some(idle) if idle < NAP_MAX && !self.nap_ns.is_empty() => &self.nap_ns,
            Some(_) => &self.idle_ns,
        };
        if table.is_empty() {
            return Span::ZERO;
        }
        Span::from_nanos(quantile(table, random.unit()).round() as u64)
    }
}

/// The value at `share` (0 to 1) of evenly spaced quantiles, linear between them; `table` is not empty.
#[inline]
pub fn quantile(table: &[f64], share: f64) -> f64 {
    let place = share * (table.len() - 1) as f64;
    let low = (place as usize).min(table.len() - 1);
    let high = (low + 1).min(table.len() - 1);
    table[low] + (table[high] - table[low]) * (place - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn random() -> RngStream {
        RngStream::new(Seed { seed: 1, repetition: 0, group: "n", member: 0, stream: 0, purpose: "cpu" })
    }

    #[test]
    fn quantiles_are_linear_between_their_points() {
        let table = [1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&table, share)), [1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn a_cost_has_a_fixed_part_a_part_per_byte_and_a_residual() {
        let plain = Cost { fixed_ns: 100.0, ns_per_byte: 0.5, eased: 0.4, ..Cost::default() };
        let (mut drawn, untouched) = (random(), random());
        assert_eq!(plain.draw(1000, 0.0, &mut drawn), 600.0);
        assert_eq!(plain.draw(1000, 0.5, &mut drawn), 580.0, "half of the 40 % that fall away");
        assert_eq!(drawn, untouched, "without a residual nothing is drawn");
        let spread = Cost { residual: vec![0.5, 1.5], ..plain };
        let n = 20_000;
        let sum: f64 = (0..n).map(|_| spread.draw(1000, 0.0, &mut drawn)).sum();
        // uniform between 300 and 900: standard deviation 173, of the mean 1.2
        assert!((sum / f64::from(n) - 600.0).abs() < 6.0, "{}", sum / f64::from(n));
    }

    #[test]
    fn speed_follows_the_table_and_then_stays() {
        let mut of = Calibration::free("x");
        assert_eq!([1, 8].map(|n| of.speed(n)), [1.0, 1.0]);
        of.cpu.scaling = vec![1.0, 0.9, 0.8];
        assert_eq!([0, 1, 2, 3, 64].map(|n| of.speed(n)), [1.0, 1.0, 0.9, 0.8, 0.8]);
    }

    #[test]
    fn nonsense_is_named_by_its_key() {
        type Spoil = fn(&mut Calibration);
        let table: [(&str, Spoil); 20] = [
            ("host.id", |c| c.host.id.clear()),
            ("cpu.period", |c| c.cpu.period = Span::ZERO),
            ("cpu.period", |c| c.cpu.period = Span::from_secs(2)),
            ("cpu.io_threads", |c| c.cpu.io_threads = 0),
            ("cpu.scaling", |c| c.cpu.scaling = vec![1.0, 0.0]),
            ("carriers.udp.send.eased", |c| c.carriers.entry(Carrier::Udp).or_default().send.eased = 1.0),
            ("cpu.wake_ns", |c| c.cpu.wake_ns = -1.0),
            ("cpu.sleep_ns", |c| c.cpu.sleep_ns = -1.0),
            ("pacing.due_ns", |c| c.pacing.due_ns = f64::NAN),
            ("carriers.udp.closing", |c| c.carriers.entry(Carrier::Udp).or_default().closing = 1.5),
            ("carriers.http1.paused.receive.ns_per_byte", |c| {
                let receive = Cost { ns_per_byte: -1.0, ..Cost::default() };
                c.carriers.entry(Carrier::Http1).or_default().paused =
                    Some(ReplyCosts { receive, ..ReplyCosts::default() });
            }),
            ("cpu.rest_cores", |c| c.cpu.rest_cores = 1.5),
            ("pacing.quantum", |c| c.pacing.quantum = Some(Span::from_secs(1))),
            ("pacing.late_ns", |c| c.pacing.late_ns = vec![2.0, 1.0]),
            ("valid.cores_max", |c| c.valid.cores_max = Some(0)),
            ("carriers.http1.send.fixed_ns", |c| c.carriers.entry(Carrier::Http1).or_default().send.fixed_ns = -1.0),
            ("carriers.http1.reply.send.fixed_ns", |c| {
                let send = Cost { fixed_ns: -1.0, ..Cost::default() };
                c.carriers.entry(Carrier::Http1).or_default().reply =
                    Some(ReplyCosts { send, ..ReplyCosts::default() });
            }),
            ("carriers.udp.receive.residual", |c| {
                c.carriers.entry(Carrier::Udp).or_default().receive.residual = vec![2.0, 1.0];
            }),
            ("carriers.udp.wake.busy_ns", |c| {
                c.carriers.entry(Carrier::Udp).or_default().wake.busy_ns = vec![f64::NAN];
            }),
            ("work.encode.ns_per_byte", |c| c.work.encode.ns_per_byte = f64::INFINITY),
        ];
        for (key, spoil) in table {
            let mut calibration = Calibration::free("lab");
            assert_eq!(calibration.check(), Ok(()));
            spoil(&mut calibration);
            assert_eq!(calibration.check().expect_err(key).key, key);
        }
    }
}
