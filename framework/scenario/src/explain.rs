//! An experiment in words: what `rehearsal check` prints.

use std::fmt::Write as _;

use rehearsal_core::plan::{
    Carrier, Connection, Impose, JitterShape, LinkSpec, Scheduler, Stop, TlsHandshake, TlsMode, TlsSpec,
};
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteRange, ByteSize};

use crate::experiment::{ActorSpec, Experiment, NodeSpec};
use crate::printable::{printable, printable_lines};
use crate::table::{Columns, duration as words, grouped};
use crate::threshold::Threshold;
use crate::totals::Totals;

/// The experiment as readable text: hosts, nodes, traffic with totals, thresholds, notes.
pub fn explain(experiment: &Experiment) -> String {
    let mut text = head(experiment);
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            text.push_str(&format!("\n{title}\n{body}"));
        }
    };
    section("hosts", hosts(experiment));
    section("nodes", nodes(experiment));
    section("traffic of one run", traffic(experiment));
    section("thresholds", lines(experiment.thresholds.iter().map(limit)));
    section("notes", lines(experiment.notes.iter().map(|note| printable(note))));
    text
}

/// A threshold, and when it ends the run.
fn limit(threshold: &Threshold) -> String {
    let after = threshold.abort_after.map_or(String::new(), |after| match after {
        Span::ZERO => "  ends the run when it does not hold".to_owned(),
        after => format!("  ends the run when it does not hold after {}", words(after)),
    });
    format!("{threshold}{after}")
}

fn head(experiment: &Experiment) -> String {
    let mut text = format!("experiment {}", experiment.name);
    if let Some(description) = &experiment.description {
        let _ = write!(text, ": {}", printable_lines(description.trim()));
    }
    let end = match (experiment.stop, experiment.paced_duration()) {
        (Stop::After(duration), _) => format!("ends {} after the start", words(duration)),
        (Stop::AllRequestsDone, None) => "count driven: ends when all requests are done".to_owned(),
        (Stop::AllRequestsDone, Some(paced)) => {
            format!("count driven: ends when all requests are done, after {} if none is late", words(paced))
        }
    };
    let runs =
        if experiment.repetitions == 1 { "1 run".to_owned() } else { format!("{} runs", experiment.repetitions) };
    let _ = writeln!(text, "\n  {end}; {runs} with seed {}", experiment.seed);
    let ends = [("first", experiment.warmup), ("last", experiment.cooldown)];
    let out: Vec<String> = ends
        .iter()
        .filter(|(_, span)| !span.is_zero())
        .map(|(end, span)| format!("the {end} {}", words(*span)))
        .collect();
    if !out.is_empty() {
        let _ = writeln!(text, "  the summary leaves out {}", out.join(" and "));
    }
    text
}

fn hosts(experiment: &Experiment) -> String {
    let mut columns = Columns::default();
    for (row, host) in experiment.hosts.iter().enumerate() {
        let nodes: Vec<&NodeSpec> = experiment.nodes.iter().filter(|node| node.host == Some(row)).collect();
        let vcpu: f64 = nodes.iter().filter_map(|node| Some(node.vcpu? * f64::from(node.count()))).sum();
        let names: Vec<String> = nodes.iter().map(|node| counted(&node.name, node.count())).collect();
        columns.row([
            host.name.clone(),
            format!("{} cores", host.cores),
            host.memory.map(|memory| memory.to_string()).unwrap_or_default(),
            format!("{vcpu} vCPU asked by {}", if names.is_empty() { "nobody".to_owned() } else { names.join(", ") }),
        ]);
    }
    columns.render()
}

fn nodes(experiment: &Experiment) -> String {
    let mut columns = Columns::default();
    for node in &experiment.nodes {
        let local = node.local.iter().filter(|local| **local).count();
        let place = match local {
            _ if !node.measured => "not measured".to_owned(),
            0 => "run elsewhere".to_owned(),
            n if n < node.local.len() => format!("{n} of {} run here", node.local.len()),
            _ => String::new(),
        };
        columns.row([
            counted(&node.name, node.count()),
            node.vcpu.map(|vcpu| format!("{vcpu} vCPU")).unwrap_or_default(),
            node.memory.map(|memory| memory.to_string()).unwrap_or_default(),
            node.host.map(|row| format!("on {}", experiment.hosts[row].name)).unwrap_or_default(),
            node.actors.iter().map(actor).collect::<Vec<_>>().join(", "),
            place,
        ]);
    }
    columns.render()
}

fn traffic(experiment: &Experiment) -> String {
    let mut columns = Columns::default();
    for node in &experiment.nodes {
        for actor in &node.actors {
            let (Some(totals), Some(sender)) = (experiment.totals_of(node, actor), &actor.sender) else { continue };
            let link = link(experiment.link_to(&node.name, &sender.to));
            let from = format!("{}/{}", node.name, actor.name);
            let pace = match (sender.rate, sender.course(), &actor.offers) {
                (_, _, Some(offers)) => offers.text.clone(),
                (Some(rate), ..) => format!("at {rate} each"),
                (None, Some(course), _) => course.words(),
                (None, None, None) => "closed loop".to_owned(),
            };
            // users are told by number; how many of them send at a time is up to them
            let streams = actor.offers.is_none().then_some(totals.streams);
            columns.row(row(format!("{from} -> {}", sender.to), streams, &totals, pace, link));
        }
    }
    let all = experiment.totals();
    if all.senders > 0 {
        let mut actors = experiment.nodes.iter().flat_map(|node| &node.actors);
        let streams = actors.all(|actor| actor.offers.is_none()).then_some(all.streams);
        columns.row(row("all".to_owned(), streams, &all, String::new(), String::new()));
    }
    columns.render()
}

fn row(name: String, streams: Option<u64>, totals: &Totals, pace: String, link: String) -> [String; 7] {
    [
        name,
        match streams {
            None => String::new(),
            Some(1) => "1 stream".to_owned(),
            Some(many) => format!("{} streams", grouped(many)),
        },
        pace,
        totals.rate.map_or("rate is a result".to_owned(), |rate| format!("{} requests/s", rounded(rate))),
        totals.requests.map_or("requests are a result".to_owned(), |n| format!("{} requests", grouped(n))),
        totals.payload.map(volume).unwrap_or_default(),
        link,
    ]
}

/// `http2, 1 connection of 100 streams`.
fn shared(carrier: &str, link: &LinkSpec) -> String {
    let connections = match link.connections() {
        1 => "1 connection".to_owned(),
        n => format!("{n} connections"),
    };
    format!("{carrier}, {connections} of {} streams", link.streams())
}

/// `TLS, mutual, resumed`.
fn encrypted(tls: &TlsSpec) -> String {
    let mode = if tls.mode == TlsMode::Mutual { ", mutual" } else { "" };
    let handshake = if tls.handshake == TlsHandshake::Resumed { ", resumed" } else { "" };
    format!("TLS{mode}{handshake}")
}

/// `camera ×4`.
fn counted(name: &str, count: u32) -> String {
    if count == 1 { name.to_owned() } else { format!("{name} ×{count}") }
}

fn actor(actor: &ActorSpec) -> String {
    let name = counted(&actor.name, actor.count);
    if actor.name == actor.kind { name } else { format!("{name} ({})", actor.kind) }
}

fn link(link: &LinkSpec) -> String {
    let carrier = match (link.carrier, link.connection) {
        (Carrier::Udp, _) if link.is_exchange() && link.outside => "udp, answered".to_owned(),
        (Carrier::Udp, _) if link.is_exchange() => "udp, echoed".to_owned(),
        (Carrier::Udp, _) => "udp".to_owned(),
        (Carrier::Nats, _) => "nats".to_owned(),
        (Carrier::Frames, _) => "frames".to_owned(),
        (Carrier::Tcp, Connection::PerRequest) => "tcp, a connection per request".to_owned(),
        (Carrier::Tcp, Connection::KeepAlive) if link.pipeline > 1 => {
            format!("tcp, up to {} requests on a connection", link.pipeline)
        }
        (Carrier::Tcp, Connection::KeepAlive) => "tcp, connections kept".to_owned(),
        (Carrier::Mqtt, _) => format!("mqtt, QoS {}", u8::from(link.qos())),
        (Carrier::Http1, Connection::KeepAlive) => "http1, connections kept".to_owned(),
        (Carrier::Http2, Connection::KeepAlive) => shared("http2", link),
        (Carrier::Http3, Connection::KeepAlive) => shared("http3", link),
        (Carrier::Http2, Connection::PerRequest) => "http2, a connection per request".to_owned(),
        (Carrier::Http3, Connection::PerRequest) => "http3, a connection per request".to_owned(),
        (Carrier::Http1, Connection::PerRequest) => "http1, a connection per request".to_owned(),
    };
    let mut parts = vec![carrier];
    parts.extend(link.security().map(|tls| encrypted(&tls)));
    parts.extend(link.rate.map(|rate| rate.to_string()));
    parts.extend((!link.rate_steps.is_empty()).then(|| format!("a rate trace of {} rows", link.rate_steps.len())));
    parts.extend((!link.members.is_empty()).then(|| format!("shared as `{}`", link.name)));
    parts.extend(link.shares.as_ref().map(|cell| format!("shares `{cell}`")));
    parts.extend((!link.delay.is_zero()).then(|| format!("{} delay", words(link.delay))));
    parts
        .extend((!link.jitter.is_zero()).then(|| format!("{}{} jitter", words(link.jitter), shape(link.jitter_shape))));
    parts.extend((!link.jitter_quantiles.is_empty()).then(|| "measured jitter".to_owned()));
    parts.extend(link.reorder.then(|| "reordered".to_owned()));
    parts.extend((link.loss.0 > 0.0).then(|| format!("{} loss", link.loss)));
    let percent = |share: f64| (share * 1e4).round() / 100.0;
    parts.extend(link.gilbert_elliott.map(|bursts| format!("{}% loss in bursts", percent(bursts.loss()))));
    parts.extend(match link.scheduler {
        Scheduler::Fifo => None,
        Scheduler::Priority => Some(format!("{} classes by priority", link.classes.len())),
        Scheduler::Weighted => Some(format!("{} classes by weight", link.classes.len())),
    });
    parts.extend(link.codel.map(|codel| format!("CoDel {}", words(codel.target))));
    parts.extend((link.impose != Impose::None).then(|| format!("imposed by {}", by(link.impose))));
    parts.join(", ")
}

/// How jitter is distributed, where that is not the usual way.
fn shape(shape: JitterShape) -> &'static str {
    match shape {
        JitterShape::Uniform => "",
        JitterShape::Normal => " normal",
        JitterShape::Gamma => " gamma",
        JitterShape::Lognormal => " lognormal",
    }
}

/// Who imposes a link in emulation.
fn by(impose: Impose) -> &'static str {
    match impose {
        Impose::None => "nobody",
        Impose::Userspace => "its senders",
        Impose::Kernel => "the kernel",
    }
}

/// A sum of bytes in the largest decimal unit, three digits.
fn volume(bytes: ByteRange) -> String {
    if bytes.min == bytes.max { size(bytes.min) } else { format!("{}..{}", size(bytes.min), size(bytes.max)) }
}

fn size(bytes: ByteSize) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = units.into_iter().find(|(_, scale)| bytes.0 as f64 >= *scale);
    unit.map_or(format!("{} B", bytes.0), |(name, scale)| format!("{} {name}", rounded(bytes.0 as f64 / scale)))
}

/// At most one decimal below a thousand, none above.
fn rounded(number: f64) -> String {
    if number >= 1000.0 || (number - number.round()).abs() < 0.05 {
        grouped(number.round() as u64)
    } else {
        format!("{number:.1}")
    }
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("  {item}\n")).collect()
}
