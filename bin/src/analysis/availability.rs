//! How available a run's transfer and services were: minutes of ITU-T Y.1540 from the series, and the cyclic service of
//! TS 22.104 where every exchange was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rehearsal_core::units::Fraction;
use rehearsal_export::summary::GroupSummary;
use rehearsal_export::{Bundle, ExportError, Frame};
use rehearsal_stats::standards::ts22104::{Cyclic, ServiceAvailability};
use rehearsal_stats::standards::y1540;
use serde::Serialize;

/// Messages of one stream that are judged; more are not one by one in anybody's memory.
const MESSAGES_MAX: u64 = 5_000_000;
/// The column of what each row tells, and what it holds of an attempt that was good.
const SUCCESS: &str = "success";
/// The same of one that the end of the run cut off: nobody knows whether it would have come.
const ABORTED: &str = "aborted";

/// How available everything was, all repetitions together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Availability {
    /// Minutes of the transfer of datagrams; `None` without datagrams, or without a whole minute of them.
    pub transfer: Option<y1540::Availability>,
    /// Whether datagrams were sent at all.
    pub datagrams: bool,
    /// Services of senders that keep a rate, where every exchange was recorded.
    pub services: Vec<Service>,
}

/// One actor of the experiment file as a cyclic service: a message comes due each transfer interval, and came if its
/// exchange succeeded.
#[derive(Clone, Debug, Serialize)]
pub struct Service {
    /// Node and actor as the file names them.
    pub sender: String,
    /// From one message of a stream to the next, mean, ns.
    pub interval_ns: u64,
    /// Without any survival time.
    pub unforgiving: Judged,
    /// With a survival time of one transfer interval.
    pub one_interval: Judged,
}

/// A service under one survival time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its numbers.
    #[serde(flatten)]
    pub found: ServiceAvailability,
    /// The share of time it was up, 0 to 1.
    pub availability: f64,
    /// Mean time between failures, ns; `None` without any.
    pub between_failures_ns: Option<f64>,
}

/// Judges the repetitions of an experiment.
///
/// # Errors
/// When a series or the recorded exchanges of a bundle cannot be read.
pub fn of(bundles: &[Bundle]) -> Result<Availability, ExportError> {
    let datagrams = bundles.iter().any(|bundle| bundle.summary.total.totals.datagrams_sent > 0);
    let mut transfer = None::<y1540::Availability>;
    let mut services = BTreeMap::new();
    for bundle in bundles {
        if let Some(found) = minutes(bundle)? {
            let all = transfer.get_or_insert(y1540::Availability { intervals: 0, available: 0 });
            all.intervals += found.intervals;
            all.available += found.available;
        }
        if recorded(bundle) {
            streams(bundle, &mut services)?;
        }
    }
    let services = services.into_iter().filter_map(|(sender, streams)| service(sender, &streams)).collect();
    Ok(Availability { transfer, datagrams, services })
}

/// The minutes of a run; `None` where no receiver of its datagrams tells what came each second, or there is no minute.
fn minutes(bundle: &Bundle) -> Result<Option<y1540::Availability>, ExportError> {
    let named = |of: fn(&&GroupSummary) -> bool| -> BTreeSet<(&str, &str)> {
        let groups = bundle.summary.groups.iter().filter(of);
        groups.map(|group| (group.node.as_str(), group.actor.as_str())).collect()
    };
    let senders = named(|group| group.role == "sender" && group.measures.totals.datagrams_sent > 0);
    let receivers = named(|group| group.role == "receiver" && group.measures.totals.datagrams_received > 0);
    let mixed = bundle.summary.groups.iter().any(|group| {
        let totals = &group.measures.totals;
        totals.datagrams_received > 0 && (totals.received > 0 || totals.datagrams_duplicate > 0)
    });
    let seconds = bundle.summary.duration_seconds.floor() as usize;
    if senders.is_empty() || receivers.is_empty() || mixed {
        return Ok(None);
    }
    let frame = Frame::open(&bundle.path, &["second", "node", "actor", "sent", "received"])?;
    let mut counts = vec![(0_u64, 0_u64); seconds];
    for at in 0..frame.len() {
        let Some(second) = counts.get_mut(frame.number("second")[at] as usize) else { continue };
        let group = (frame.text("node")[at].as_ref(), frame.text("actor")[at].as_ref());
        // what a row does not know, because telemetry is late, the next one holds
        let count = |column: &str| frame.number(column)[at].max(0.0) as u64;
        if senders.contains(&group) {
            second.0 += count("sent");
        } else if receivers.contains(&group) {
            second.1 += count("received");
        }
    }
    Ok(y1540::Availability::of_seconds(&counts).ok())
}

/// Whether every exchange is in `requests.parquet`.
fn recorded(bundle: &Bundle) -> bool {
    let text = fs::read_to_string(bundle.path.join("experiment.toml")).unwrap_or_default();
    let file: toml::Table = toml::from_str(&text).unwrap_or_default();
    let share =
        file.get("experiment").and_then(|table| table.get("record_requests")?.as_str()?.parse::<Fraction>().ok());
    let all = share.is_some_and(|share| share.0 >= 1.0);
    all && bundle.summary.requests.is_some_and(|requests| requests.left_out == 0 && requests.kept > 0)
}

/// What became of one stream's exchanges, by their number.
#[derive(Default)]
struct Stream {
    /// When the first and the last came due, ns.
    due: Option<(u64, u64)>,
    came: BTreeMap<u64, Came>,
}

/// What is known of one message. The worst comes first: any good attempt makes it good.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Never,
    CutOff,
    InTime,
}

/// Sorts the attempts of a bundle by the sender's name in the file, for senders that keep a rate.
fn streams(bundle: &Bundle, into: &mut BTreeMap<String, Vec<Stream>>) -> Result<(), ExportError> {
    let paced = bundle.summary.groups.iter().filter(|g| g.target.is_some_and(|target| target.per_second.is_some()));
    let names: BTreeMap<(&str, &str), String> =
        paced.map(|g| ((g.node.as_str(), g.actor.as_str()), format!("{}/{}", g.template, g.actor))).collect();
    let columns = ["node", "actor", "member", "stream", "seq", "status", "intended_ns"];
    let frame = Frame::requests(&bundle.path, &columns)?;
    let mut found = BTreeMap::<(&str, &str, u64, u64), Stream>::new();
    for at in 0..frame.len() {
        let number = |column: &str| frame.number(column)[at] as u64;
        let (node, actor) = (frame.text("node")[at].as_ref(), frame.text("actor")[at].as_ref());
        if !names.contains_key(&(node, actor)) {
            continue;
        }
        let stream = found.entry((node, actor, number("member"), number("stream"))).or_default();
        let came = match frame.text("status")[at].as_ref() {
            SUCCESS => Came::InTime,
            ABORTED => Came::CutOff,
            _ => Came::Never,
        };
        let seq = stream.came.entry(number("seq")).or_insert(came);
        *seq = came.max(*seq);
        let due = number("intended_ns");
        stream.due = Some(stream.due.map_or((due, due), |(first, last)| (first.min(due), last.max(due))));
    }
    for ((node, actor, _, _), stream) in found {
        into.entry(names[&(node, actor)].clone()).or_default().push(stream);
    }
    Ok(())
}

/// A sender's streams together; `None` where none of them has two messages.
fn service(sender: String, streams: &[Stream]) -> Option<Service> {
    let mut both = [None, None];
    let (mut intervals, mut spans) = (0_u64, 0_u64);
    for stream in streams {
        let Some((interval_ns, in_time)) = stream.messages() else { continue };
        intervals += in_time.len() as u64;
        spans = spans.saturating_add(interval_ns.saturating_mul(in_time.len() as u64));
        for (all, survival_ns) in both.iter_mut().zip([0, interval_ns]) {
            let found = Cyclic { interval_ns, survival_ns }.judge(&in_time).ok()?;
            *all = Some(all.map_or(found, |all| sum(all, found)));
        }
    }
    let [unforgiving, one_interval] = both.map(|found| found.map(Judged::of));
    let interval_ns = spans / intervals.max(1);
    Some(Service { sender, interval_ns, unforgiving: unforgiving?, one_interval: one_interval? })
}

impl Stream {
    /// The mean interval, ns, and for each message whether it came. One that has no row did not even leave; one that the
    /// end of the run cut off is left out.
    fn messages(&self) -> Option<(u64, Vec<bool>)> {
        let (first, last) = (*self.came.keys().next()?, *self.came.keys().next_back()?);
        let (from, to) = self.due?;
        if last == first || last - first >= MESSAGES_MAX || to == from {
            return None;
        }
        let came = (first..=last).map(|seq| self.came.get(&seq).copied().unwrap_or(Came::Never));
        let in_time = came.filter(|came| *came != Came::CutOff).map(|came| came == Came::InTime).collect();
        Some(((to - from) / (last - first), in_time))
    }
}

fn sum(one: ServiceAvailability, other: ServiceAvailability) -> ServiceAvailability {
    ServiceAvailability {
        messages: one.messages + other.messages,
        missed: one.missed + other.missed,
        failures: one.failures + other.failures,
        down_ns: one.down_ns.saturating_add(other.down_ns),
        watched_ns: one.watched_ns.saturating_add(other.watched_ns),
    }
}

impl Judged {
    fn of(found: ServiceAvailability) -> Self {
        Judged { found, availability: found.availability(), between_failures_ns: found.between_failures_ns() }
    }
}

impl Availability {
    /// One line for each thing that can be told.
    pub fn text(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.transfer {
            Some(y1540::Availability { intervals, available }) => lines.push(format!(
                "availability (ITU-T Y.1540): {available} of {intervals} whole minutes lost at most {:.0} % of their datagrams",
                y1540::UNAVAILABLE_IPLR * 100.0
            )),
            None if self.datagrams => lines.push(
                "availability (ITU-T Y.1540): cannot be told without a whole minute of datagrams alone and undoubled".to_owned(),
            ),
            None => {}
        }
        lines.extend(self.services.iter().map(Service::text));
        lines
    }
}

impl Service {
    fn text(&self) -> String {
        let Service { sender, interval_ns, unforgiving, one_interval } = self;
        let between = one_interval.between_failures_ns.map_or_else(
            || "no failure then".to_owned(),
            |ns| format!("{} failures then, {:.1} s of service between them", one_interval.found.failures, ns / 1e9),
        );
        format!(
            "availability (TS 22.104) of {}: {:.4} % without survival time, {:.4} % if it survives one transfer interval \
             ({:.3} ms); {} of {} messages missed, {between}",
            rehearsal_scenario::printable(sender),
            unforgiving.availability * 100.0,
            one_interval.availability * 100.0,
            *interval_ns as f64 / 1e6,
            unforgiving.found.missed,
            unforgiving.found.messages
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of a message each 10 ns with these fates.
    fn stream(fates: &[Option<Came>]) -> Stream {
        let came = (0..).zip(fates).filter_map(|(seq, came)| Some((seq, (*came)?))).collect();
        Stream { due: Some((0, 10 * (fates.len() as u64 - 1))), came }
    }

    #[test]
    fn gaps_are_held_against_the_survival_time() {
        let (yes, no) = (Some(Came::InTime), Some(Came::Never));
        // three messages are missing at once, of which one never left, and one alone
        let gaps = stream(&[yes, no, None, no, yes, no, yes, yes, yes, yes]);
        let found = service("s".to_owned(), &[gaps]).expect("ten messages");
        assert_eq!((found.interval_ns, found.unforgiving.found.missed, found.unforgiving.found.failures), (10, 4, 2));
        assert!((found.unforgiving.availability - 0.6).abs() < 1e-12);
        assert!((found.one_interval.availability - 0.8).abs() < 1e-12 && found.one_interval.found.failures == 1);
        let text = found.text();
        assert!(
            text.contains("60.0000 % without") && text.contains("80.0000 % if") && text.contains("4 of 10"),
            "{text}"
        );
    }

    #[test]
    fn what_the_end_cut_off_is_no_failure() {
        let yes = Some(Came::InTime);
        let cut = stream(&[yes, yes, yes, Some(Came::CutOff)]);
        let found = service("s".to_owned(), &[cut, stream(&[yes, None, yes])]).expect("two streams");
        assert_eq!((found.unforgiving.found.messages, found.unforgiving.found.missed), (6, 1));
        assert!(service("s".to_owned(), &[stream(&[yes])]).is_none(), "one message has no interval");
    }
}
