//! What a run put on the wire, and what ITU-T Y.1540, Y.1541, RFC 5481 and RFC 3550 call the transfer of its datagrams.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hdrhistogram::Histogram;
use rehearsal_core::messages::Metric;
use rehearsal_core::plan::Carrier;
use rehearsal_export::summary::{Measures, TemplateSummary};
use rehearsal_export::{Bundle, ExportError, merge_latency};
use rehearsal_models::path::Direction;
use rehearsal_models::wire::Framing;
use rehearsal_stats::Held;
use rehearsal_stats::standards::names::{NAMES, Name};
use rehearsal_stats::standards::rfc5481::Quantiles;
use rehearsal_stats::standards::y1540::{TMAX_NS, Transfer};
use rehearsal_stats::standards::y1541;
use serde::Serialize;

/// What the rows of [`OnTheWire`] take for granted.
pub const ASSUMED: &str = "per message of the mean payload: http1 a head of 120 B, of answers 108 B, as the emulator writes them to within \
     a few digits; nats a line of 110 B; udp a header of 8 B; TCP and IPv4 52 B, with the timestamps of Linux (12 B), for each started \
     1448 B, IPv4 20 B for each started 1480 B of udp; Ethernet 38 B for each frame, with preamble, check sequence and gap; \
     handshakes, acknowledgements and what was sent again come on top";
/// Arrived datagrams without which IPDV is not told: one of them lies beyond its quantile.
const IPDV_COUNT_MIN: u64 = 1000;
/// The same for the quantile of classes 6 and 7.
const IPDV_STRICT_COUNT_MIN: u64 = 100_000;

/// What rows of answers say that they are.
const ANSWERS: &str = "answers";

/// From the application's rate to that of frames, for one actor of the experiment file over all its nodes: its requests
/// or datagrams, or the answers that it got. [`ASSUMED`] says how.
#[derive(Clone, Debug, Serialize)]
pub struct OnTheWire {
    /// Node and actor as the file names them.
    pub sender: String,
    /// `requests`, `datagrams`, `answers`, or `all`, the sum.
    pub what: &'static str,
    /// What carries them; empty for the sum.
    pub carrier: &'static str,
    /// Messages per second, mean over repetitions: attempts that left, or answers.
    pub sent_per_second: f64,
    /// Mean payload, bytes.
    pub payload_bytes: f64,
    /// Headers of all layers and the gaps between frames, bytes for each message.
    pub header_bytes: f64,
    /// Payload, Mbit/s.
    pub payload_mbit_per_second: f64,
    /// The same with all headers and the gaps between frames, Mbit/s.
    pub wire_mbit_per_second: f64,
    /// Ethernet frames, which are IP packets, per second.
    pub frames_per_second: f64,
}

/// Transfer of datagrams in all repetitions together.
#[derive(Clone, Debug, Serialize)]
pub struct Datagrams {
    /// From the delays of all repetitions, to three digits; none where the clocks of one do not tell them.
    #[serde(flatten)]
    pub transfer: Transfer,
    /// Lost of transmitted.
    pub iplr: f64,
    /// Delay variation as Y.1540 has it, ns; `None` also of fewer than 1,000 datagrams.
    pub ipdv_ns: Option<f64>,
    /// D(i) − Dmin of RFC 5481; `None` where the clocks do not tell delays.
    pub pdv: Option<Quantiles>,
    /// |D(i) − D(i − 1)| of RFC 5481, of two that a stream sent one after the other; no clocks need agree.
    pub ipdv: Option<Quantiles>,
    /// The estimates of RFC 3550 after each arrival; no clocks need agree.
    pub jitter: Option<Quantiles>,
    /// Classes of Y.1541, and whether they are met.
    pub classes: Vec<ClassRow>,
}

/// One class of Y.1541.
#[derive(Clone, Debug, Serialize)]
pub struct ClassRow {
    /// Its number.
    pub class: u8,
    /// Whether it is met.
    pub held: Held,
    /// Objectives that are not met or cannot be told.
    pub why: Vec<&'static str>,
}

/// The senders of an experiment, their answers, and the sum; empty where the file does not say what carries their
/// requests.
pub fn on_the_wire(bundles: &[Bundle]) -> Vec<OnTheWire> {
    let Some(first) = bundles.first() else { return Vec::new() };
    let carriers = carriers(first);
    let senders = first.summary.templates.iter().filter(|t| t.role == "sender");
    let mut rows: Vec<OnTheWire> = senders.flat_map(|sender| rows(sender, bundles, &carriers)).collect();
    if rows.len() > 1 {
        let sum = |of: fn(&OnTheWire) -> f64| rows.iter().map(of).sum::<f64>();
        let sent_per_second = sum(|row| row.sent_per_second);
        let mean = |of: fn(&OnTheWire) -> f64| {
            rows.iter().map(|row| of(row) * row.sent_per_second).sum::<f64>() / sent_per_second.max(f64::MIN_POSITIVE)
        };
        let all = OnTheWire {
            sender: "all".to_owned(),
            what: "all",
            carrier: "",
            sent_per_second,
            payload_bytes: mean(|row| row.payload_bytes),
            header_bytes: mean(|row| row.header_bytes),
            payload_mbit_per_second: sum(|row| row.payload_mbit_per_second),
            wire_mbit_per_second: sum(|row| row.wire_mbit_per_second),
            frames_per_second: sum(|row| row.frames_per_second),
        };
        rows.push(all);
    }
    rows
}

/// What the links of the resolved experiment name.
fn carriers(bundle: &Bundle) -> BTreeSet<String> {
    let text = fs::read_to_string(bundle.path.join("experiment.toml")).unwrap_or_default();
    let experiment: toml::Table = toml::from_str(&text).unwrap_or_default();
    let links = experiment.get("links").and_then(toml::Value::as_table);
    let named = links.into_iter().flatten().filter_map(|(_, link)| link.get("carrier")?.as_str());
    named.map(str::to_owned).collect()
}

fn rows(sender: &TemplateSummary, bundles: &[Bundle], carriers: &BTreeSet<String>) -> Vec<OnTheWire> {
    let same = |b: &Bundle| {
        let found = b.summary.templates.iter().find(|t| (&t.template, &t.actor) == (&sender.template, &sender.actor));
        found.map(|t| t.measures.clone())
    };
    let measures: Vec<Measures> = bundles.iter().filter_map(same).collect();
    let named: Vec<&str> = carriers.iter().map(String::as_str).collect();
    let (carrier, word) = match (sender.measures.totals.datagrams_sent > 0, named.as_slice()) {
        // both at once: the file's routes would have to be followed
        (true, names) if names.contains(&"frames") && names.contains(&"udp") => return Vec::new(),
        (true, names) if names.contains(&"frames") => (Carrier::Frames, "frames"),
        (true, _) => (Carrier::Udp, "udp"),
        (false, ["http1"] | ["http1", "udp"]) => (Carrier::Http1, "http1"),
        (false, ["http2"] | ["http2", "udp"]) => (Carrier::Http2, "http2"),
        (false, ["http3"] | ["http3", "udp"]) => (Carrier::Http3, "http3"),
        (false, ["nats"] | ["nats", "udp"]) => (Carrier::Nats, "nats"),
        // several that answer: the file's routes would have to be followed
        _ => return Vec::new(),
    };
    let mut connections = bundles.iter().flat_map(|bundle| &bundle.summary.connections);
    let encrypted = connections.any(|row| row.from == sender.template && !row.tls.is_empty());
    let framing = Framing { carrier, encrypted };
    let name = format!("{}/{}", sender.template, sender.actor);
    let sum = |of: fn(&Measures) -> u64| measures.iter().map(of).sum::<u64>();
    let (attempts, bytes) = (sum(|m| m.totals.attempts), sum(|m| m.totals.bytes_sent));
    if attempts == 0 {
        return Vec::new();
    }
    let sent = measures.iter().map(|m| m.per_second.sent).sum::<f64>() / measures.len() as f64;
    let what = match carrier {
        Carrier::Udp => "datagrams",
        Carrier::Frames => "frames",
        _ => "requests",
    };
    let mut rows = vec![row(&name, (what, word), framing, sent, bytes as f64 / attempts as f64)];
    // of the attempts that left, as many as were answered
    let answers = sum(|m| m.totals.success + m.totals.invalid + m.totals.failed + m.totals.rejected);
    let replied = sum(|m| m.totals.bytes_replied);
    if carrier.is_reliable() && answers > 0 {
        let per_second = sent * answers as f64 / attempts as f64;
        rows.push(row(&name, (ANSWERS, word), framing, per_second, replied as f64 / answers as f64));
    }
    rows
}

fn row(
    sender: &str,
    words: (&'static str, &'static str),
    framing: Framing,
    rate: f64,
    payload_bytes: f64,
) -> OnTheWire {
    let payload = payload_bytes.round() as u32;
    let direction = if words.0 == ANSWERS { Direction::Down } else { Direction::Up };
    let wire = framing.wire_bytes(direction, payload);
    OnTheWire {
        sender: sender.to_owned(),
        what: words.0,
        carrier: words.1,
        sent_per_second: rate,
        payload_bytes,
        header_bytes: wire.saturating_sub(payload.into()) as f64,
        payload_mbit_per_second: rate * payload_bytes * 8e-6,
        wire_mbit_per_second: rate * wire as f64 * 8e-6,
        frames_per_second: rate * framing.frames(direction, payload) as f64,
    }
}

/// The transfer of datagrams; `None` where there were none.
///
/// # Errors
/// When a bundle's histograms cannot be read.
pub fn datagrams(bundles: &[Bundle]) -> Result<Option<Datagrams>, ExportError> {
    let totals = || bundles.iter().map(|b| &b.summary.total.totals);
    let transmitted: u64 = totals().map(|t| t.datagrams_sent).sum();
    let arrived: u64 = totals().map(|t| t.datagrams_received.saturating_sub(t.datagrams_duplicate)).sum();
    if transmitted == 0 {
        return Ok(None);
    }
    let counts = counts(bundles)?;
    let of = |metric: Metric| counts.get(metric.name()).map_or(&[][..], Vec::as_slice);
    let delays = of(Metric::OneWay);
    let mut transfer = Transfer::of_counts(transmitted, delays);
    // what arrived is known by its count, also in seconds whose delays are not
    let late: u64 = delays.iter().filter(|(delay, _)| *delay > TMAX_NS).map(|(_, count)| *count).sum();
    transfer.lost = transmitted.saturating_sub(arrived).saturating_add(late).min(transmitted);
    let within = transmitted - transfer.lost;
    transfer.iptd_upper_ns = transfer.iptd_upper_ns.filter(|_| within >= IPDV_COUNT_MIN);
    transfer.iptd_strict_upper_ns = transfer.iptd_strict_upper_ns.filter(|_| within >= IPDV_STRICT_COUNT_MIN);
    let class = |check: y1541::ClassCheck| ClassRow { class: check.class.number, held: check.held, why: check.why };
    Ok(Some(Datagrams {
        transfer,
        iplr: transfer.iplr(),
        ipdv_ns: transfer.ipdv_ns(),
        pdv: Quantiles::pdv_of_counts(delays),
        ipdv: Quantiles::of_counts(of(Metric::Ipdv)),
        jitter: Quantiles::of_counts(of(Metric::Jitter)),
        classes: y1541::check(&transfer).into_iter().map(class).collect(),
    }))
}

/// Values of the whole runs by metric and how often each occurred, the smallest first. Delays only if the clocks of all
/// runs tell them, jitter only of those that receive datagrams: that of responses is no transfer of packets.
fn counts(bundles: &[Bundle]) -> Result<BTreeMap<String, Vec<(i64, u64)>>, ExportError> {
    let one_way = Metric::OneWay.name();
    let told = bundles.iter().all(|bundle| bundle.summary.total.metrics.contains_key(one_way));
    let mut merged = BTreeMap::<String, Histogram<u64>>::new();
    for bundle in bundles {
        let groups = bundle.summary.groups.iter().filter(|group| group.measures.totals.datagrams_received > 0);
        let receivers: BTreeSet<(&str, &str)> = groups.map(|g| (g.node.as_str(), g.actor.as_str())).collect();
        let wanted = |metric: &str| {
            metric == Metric::Jitter.name() || metric == Metric::Ipdv.name() || (told && metric == one_way)
        };
        let found = merge_latency(&bundle.path, |interval| {
            let of_datagrams = receivers.contains(&(interval.node, interval.actor));
            (of_datagrams && wanted(interval.metric)).then(|| interval.metric.to_owned())
        })?;
        for (metric, histogram) in found {
            match merged.get_mut(&metric) {
                Some(all) => all.add(&histogram).expect("the histograms of a metric have one shape"),
                None => _ = merged.insert(metric, histogram),
            }
        }
    }
    let listed = |(metric, histogram): (String, Histogram<u64>)| {
        let value = |at: u64| i64::try_from(histogram.median_equivalent(at)).unwrap_or(i64::MAX);
        let recorded = histogram.iter_recorded();
        let values = recorded.map(|b| (value(b.value_iterated_to()), b.count_since_last_iteration())).collect();
        (metric, values)
    };
    Ok(merged.into_iter().map(listed).collect())
}

/// The names of TS 28.552 and TS 28.554 beside which something was measured here.
pub fn names(bundles: &[Bundle]) -> Vec<Name> {
    let any = |of: fn(&Bundle) -> bool| bundles.iter().any(of);
    let measured = |ours: &str| match ours {
        "bytes_received" => any(|b| b.summary.total.totals.bytes_received > 0),
        "bytes_sent" => any(|b| b.summary.total.totals.bytes_sent > 0),
        "one_way" => any(|b| b.summary.total.metrics.contains_key(Metric::OneWay.name())),
        "lost" => any(|b| b.summary.total.totals.generated > 0),
        _ => false,
    };
    NAMES.into_iter().filter(|name| measured(name.ours)).collect()
}

impl Datagrams {
    /// The numbers of the classes with this answer.
    pub fn classes_that(&self, held: Held) -> Vec<String> {
        self.classes.iter().filter(|row| row.held == held).map(|row| row.class.to_string()).collect()
    }
}
