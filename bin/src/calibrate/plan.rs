//! Which points are measured, and what they say together.

use std::time::Duration;

use anyhow::Result;
use rehearsal_core::plan::Carrier;

use super::fit::median;
use super::measure::{Ends, Measured, Session, over, over_tables};
use super::shape::{IN_FLIGHT, Part, Shape};
use crate::cli::Way;
use crate::compare::Times;

/// Sizes of payloads over streams. Assumed: a short reading to a large picture, so that a fixed part and one per byte show.
pub const STREAM_BYTES: [u32; 4] = [500, 5_000, 50_000, 200_000];
/// Sizes of datagrams.
pub const DATAGRAM_BYTES: [u32; 4] = [200, 1_000, 8_000, 32_000];
/// Closed loops that together find what a receiver can take at most.
const FLOOD_STREAMS: u32 = 32;
/// Streams of a paced point.
const PACED_STREAMS: u32 = 8;
/// Shares of the most at which costs are measured: few messages, each of which wakes its receiver, and the middle of the
/// loads that a dry run is asked about.
const LOADS: [f64; 2] = [0.1, 0.5];
/// The same with a connection for each request: what a connection costs changes most where its sender is busy.
const FRESH_LOADS: [f64; 3] = [0.1, 0.5, 0.8];
/// How long a receiver pauses before each answer where that is measured: long enough that answers leave at times of their own.
const PAUSE: Duration = Duration::from_millis(20);
/// Exchanges per second of a host that is idle between them.
const IDLE_RATE: f64 = 100.0;
/// The same of one that naps: half of [`rehearsal_core::calibration::NAP_MAX`] from one to the next.
const NAP_RATE: f64 = 2_000.0;
/// Datagrams per second at which their costs are measured: nothing tells a sender how many are too many.
const DATAGRAM_RATES: [f64; 2] = [1_000.0, 5_000.0];
/// Connections that are open at the same time where their memory is measured.
pub const CONNECTIONS: u32 = 500;
/// How long each of them waits for its answer there.
const CONNECTION_PAUSE: Duration = Duration::from_millis(500);

/// What one carrier's points say.
#[derive(Clone, Debug)]
pub struct Found {
    /// The carrier.
    pub carrier: Carrier,
    /// By size.
    pub sizes: Vec<Size>,
    /// A host that is idle between exchanges, or datagrams.
    pub idle: Option<Idle>,
    /// A host that naps between exchanges; not measured for datagrams.
    pub nap: Option<Idle>,
    /// The same with a connection for each request.
    pub fresh_nap: Option<Idle>,
    /// Sizes with a connection for each request; empty if that is not measured.
    pub fresh: Vec<Size>,
    /// Sizes with a pause before each answer; empty if that is not measured.
    pub paused: Vec<Size>,
    /// Most memory of a receiver with [`CONNECTIONS`] connections, bytes.
    pub crowded_bytes: Option<f64>,
    /// Highest CPU load of a try that was used, %.
    pub cpu_percent: f64,
}

/// A host that is idle between exchanges.
#[derive(Clone, Debug)]
pub struct Idle {
    /// Quantiles of the way of an exchange, or of a datagram, ns.
    pub path: Option<Vec<f64>>,
    /// Quantiles of the sender's lag, ns.
    pub lag: Option<Vec<f64>>,
    /// What both ends used.
    pub load: Load,
    /// Bytes of payload.
    pub bytes: u32,
    /// Most memory of the receiver, bytes.
    pub memory_bytes: Option<f64>,
}

/// What one size's points say.
#[derive(Clone, Debug)]
pub struct Size {
    /// Bytes of payload.
    pub bytes: u32,
    /// The closed loops, if they were measured.
    pub most: Option<Load>,
    /// Paced loads, the lightest first.
    pub loads: Vec<Load>,
}

/// Medians over the tries of one point that were used.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Exchanges per second that were asked for; without it as many as possible.
    pub asked: Option<f64>,
    /// Exchanges per second that came through.
    pub rate: f64,
    /// Cores that the sender used, and the receiver; NaN where nobody knows.
    pub cores: [f64; 2],
    /// How often they fell asleep, 1/s; 0 where nobody knows.
    pub sleeps: [f64; 2],
    /// Times of exchanges.
    pub times: Option<Times>,
}

impl Load {
    fn of(asked: Option<f64>, tries: &[Measured]) -> Option<Self> {
        let rate = over(tries, |m| m.rate)?;
        let cores = |ns: fn(&Measured) -> f64| over(tries, |m| ns(m) * m.rate / 1e9).unwrap_or(f64::NAN);
        let sleeps =
            [0, 1].map(|end| over(tries, |m| m.sleeps[end]).filter(|sleeps| sleeps.is_finite()).unwrap_or(0.0));
        let cores = [cores(|m| m.sender_ns), cores(|m| m.receiver_ns)];
        Some(Load { asked, rate, cores, sleeps, times: times(tries) })
    }
}

/// The paced point at which a size's costs are measured.
pub fn paced(carrier: Carrier, kept: bool, bytes: u32, rate: f64, seconds: u32) -> Shape {
    let part = Part { bytes, streams: PACED_STREAMS, rate: Some(rate / f64::from(PACED_STREAMS)) };
    Shape::plain(carrier, kept, part, seconds)
}

/// Measures what `way` needs; `None` if no try of too many points could be used.
///
/// # Errors
/// When a process of a try fails.
pub fn measure(session: &mut Session, way: Way) -> Result<Option<Found>> {
    let carrier = match way {
        Way::Http1 => Carrier::Http1,
        Way::Udp => Carrier::Udp,
        Way::Nats => Carrier::Nats,
    };
    let bytes = if way == Way::Udp { DATAGRAM_BYTES } else { STREAM_BYTES };
    let mut found = Found {
        carrier,
        sizes: Vec::new(),
        idle: None,
        nap: None,
        fresh_nap: None,
        fresh: Vec::new(),
        paused: Vec::new(),
        crowded_bytes: None,
        cpu_percent: 0.0,
    };
    found.sizes = sizes(session, &mut found.cpu_percent, (carrier, true), &bytes)?;
    if found.sizes.len() < 2 {
        return Ok(None);
    }
    found.idle = alone(session, (carrier, true), bytes[0], ("idle", IDLE_RATE))?;
    if carrier != Carrier::Udp {
        found.nap = alone(session, (carrier, true), bytes[0], ("napping", NAP_RATE))?;
    }
    if way == Way::Http1 {
        // what a connection adds, and what bytes cost more on one that is new
        found.fresh = sizes(session, &mut found.cpu_percent, (carrier, false), &[bytes[0], bytes[3]])?;
        found.fresh_nap = alone(session, (carrier, false), bytes[0], ("napping", NAP_RATE))?;
        found.paused = pauses(session, &found.sizes)?;
        let part = Part { bytes: bytes[0], streams: CONNECTIONS, rate: None };
        let plain = Shape::plain(carrier, true, part, session.seconds());
        let tries = session.point("many connections", &Shape { pause: CONNECTION_PAUSE, ..plain }, Ends::Apart)?;
        found.crowded_bytes = over(&tries, |m| m.memory_bytes).filter(|bytes| *bytes > 0.0);
    }
    Ok(Some(found))
}

/// Sizes with a pause before each answer, at shares of the most; of that no more than the streams' places let through.
fn pauses(session: &mut Session, sizes: &[Size]) -> Result<Vec<Size>> {
    let most = f64::from(PACED_STREAMS * IN_FLIGHT) / PAUSE.as_secs_f64();
    let mut found = Vec::new();
    for Size { bytes, most: all, .. } in sizes.iter().filter(|size| size.bytes != STREAM_BYTES[1]) {
        let mut loads = Vec::new();
        for share in LOADS {
            let rate = share * all.map_or(most, |all| all.rate.min(most));
            let shape = Shape { pause: PAUSE, ..paced(Carrier::Http1, true, *bytes, rate, session.seconds()) };
            let tries = session.point(&format!("{rate:.0}/s, answers after 20 ms"), &shape, Ends::Apart)?;
            loads.extend(Load::of(Some(rate), &tries));
        }
        found.push(Size { bytes: *bytes, most: None, loads });
    }
    Ok(found)
}

/// One exchange, or datagram, at a time.
fn alone(
    session: &mut Session,
    (carrier, kept): (Carrier, bool),
    bytes: u32,
    (name, rate): (&str, f64),
) -> Result<Option<Idle>> {
    let part = Part { bytes, streams: 1, rate: Some(rate) };
    let ends = if carrier == Carrier::Udp { Ends::Together } else { Ends::Apart };
    let tries = session.point(name, &Shape::plain(carrier, kept, part, session.seconds()), ends)?;
    let Some(load) = Load::of(Some(rate), &tries) else { return Ok(None) };
    let memory_bytes = over(&tries, |m| m.memory_bytes).filter(|bytes| *bytes > 0.0);
    Ok(Some(Idle {
        path: over_tables(&tries, |m| &m.path),
        lag: over_tables(&tries, |m| &m.lag),
        load,
        bytes,
        memory_bytes,
    }))
}

/// Sizes that were measured at any load.
fn sizes(
    session: &mut Session,
    cpu_percent: &mut f64,
    (carrier, kept): (Carrier, bool),
    all: &[u32],
) -> Result<Vec<Size>> {
    let mut found = Vec::new();
    for bytes in all {
        found.extend(size(session, cpu_percent, (carrier, kept), *bytes)?);
    }
    Ok(found)
}

/// One size: the most, then shares of it.
fn size(
    session: &mut Session,
    cpu_percent: &mut f64,
    (carrier, kept): (Carrier, bool),
    bytes: u32,
) -> Result<Option<Size>> {
    let seconds = session.seconds();
    let mut busy = |tries: &[Measured]| {
        *cpu_percent = tries.iter().map(|m| m.cpu_percent).fold(*cpu_percent, f64::max);
    };
    let (most, rates) = if carrier == Carrier::Udp {
        (None, DATAGRAM_RATES.to_vec())
    } else {
        let part = Part { bytes, streams: FLOOD_STREAMS, rate: None };
        let tries = session.point("as much as possible", &Shape::plain(carrier, kept, part, seconds), Ends::Apart)?;
        busy(&tries);
        let Some(most) = Load::of(None, &tries) else { return Ok(None) };
        let shares: &[f64] = if kept { &LOADS } else { &FRESH_LOADS };
        (Some(most), shares.iter().map(|share| share * most.rate).collect())
    };
    let mut loads = Vec::new();
    for rate in rates {
        let tries = session.point(&format!("{rate:.0}/s"), &paced(carrier, kept, bytes, rate, seconds), Ends::Apart)?;
        busy(&tries);
        loads.extend(Load::of(Some(rate), &tries));
    }
    Ok((!loads.is_empty()).then_some(Size { bytes, most, loads }))
}

/// Medians of percentiles over tries.
fn times(tries: &[Measured]) -> Option<Times> {
    let all: Vec<Times> = tries.iter().filter_map(|m| m.times).collect();
    let of = |of: fn(&Times) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
    let count = all.iter().map(|times| times.count).sum();
    Some(Times { count, p50: of(|t| t.p50)?, p90: of(|t| t.p90)?, p95: of(|t| t.p95)?, p99: of(|t| t.p99)? })
}
