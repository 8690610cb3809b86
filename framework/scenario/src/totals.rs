//! What an experiment adds up to: instances, streams, requests, offered rate, payload.

use rehearsal_core::plan::Stop;
use rehearsal_core::time::Span;
use rehearsal_core::units::{ByteRange, ByteSize};

use crate::experiment::{ActorSpec, Experiment, NodeSpec};
use crate::validate::times::paced;

/// Totals of one run of one sending actor, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Sending actor instances.
    pub senders: u64,
    /// Streams of all of them.
    pub streams: u64,
    /// Requests that will be generated, if that is known: fixed by `requests`, or expected from rate and duration.
    pub requests: Option<u64>,
    /// Requests per second that are offered while all streams are at work. Closed loops offer none: their rate is a result.
    pub rate: Option<f64>,
    /// Payload of all requests, bytes, where the size of a request is known.
    pub payload: Option<ByteRange>,
}

impl Experiment {
    /// Totals of one run over all senders. A part that is unknown for one sender is unknown for all.
    pub fn totals(&self) -> Totals {
        let mut senders = self.nodes.iter().flat_map(|node| node.actors.iter().filter_map(|a| self.totals_of(node, a)));
        let Some(first) = senders.next() else {
            return Totals { requests: Some(0), rate: Some(0.0), ..Totals::default() };
        };
        senders.fold(first, Totals::plus)
    }

    /// How long a count-driven run takes if nothing is late: the longest of its senders' schedules. `None` if there is a
    /// closed loop, whose pace is a result.
    pub fn paced_duration(&self) -> Option<Span> {
        let senders = self.nodes.iter().flat_map(|node| node.actors.iter().filter_map(|actor| actor.sender.as_ref()));
        senders.map(paced).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Totals of one run of an actor over all instances of its node; `None` if it sends nothing.
    pub fn totals_of(&self, node: &NodeSpec, actor: &ActorSpec) -> Option<Totals> {
        let sender = actor.sender.as_ref()?;
        let senders = u64::from(node.count()) * u64::from(actor.count);
        let streams = senders * u64::from(sender.streams);
        let duration = match self.stop {
            Stop::After(duration) => Some(duration),
            Stop::AllRequestsDone => None,
        };
        let by_time = duration.and_then(|duration| sender.expected_in(duration)).map(|n| n.round() as u64);
        let per_stream = match (sender.requests, by_time) {
            (Some(requests), Some(by_time)) => Some(requests.min(by_time)),
            (requests, by_time) if duration.is_none() || sender.is_paced() => requests.or(by_time),
            // a closed loop may or may not get its requests done in time
            _ => None,
        };
        let each = actor.offers.as_ref().and_then(|offers| offers.per_second);
        let total = actor.offers.as_ref().and_then(|offers| offers.total).map(|total| total.saturating_mul(senders));
        let offered = match (each, duration) {
            (Some(each), Some(duration)) => {
                // a float beyond u64 is held at its largest value by the conversion
                let by_time = (each * senders as f64 * duration.as_secs_f64()).round() as u64;
                Some(total.map_or(by_time, |total| total.min(by_time)))
            }
            (_, None) => total,
            (None, Some(_)) => None,
        };
        let requests = per_stream.map(|requests| requests.saturating_mul(streams)).or(offered);
        let payload = requests.zip(actor.request_bytes).map(|(requests, bytes)| times(bytes, requests));
        // packets of a template differ, and their mean is known
        let mean = actor.offers.as_ref().and_then(|offers| offers.bytes).filter(|_| actor.replays());
        let replayed = requests.zip(mean).map(|(requests, bytes)| ByteRange::exactly((requests as f64 * bytes) as u64));
        Some(Totals {
            senders,
            streams,
            requests,
            rate: sender
                .mean_rate()
                .map(|rate| rate.as_f64() * streams as f64)
                .or(each.map(|each| each * senders as f64)),
            payload: payload.or(replayed),
        })
    }
}

impl Totals {
    fn plus(self, other: Totals) -> Totals {
        let sum = |a: ByteRange, b: ByteRange| ByteRange {
            min: ByteSize(a.min.0.saturating_add(b.min.0)),
            max: ByteSize(a.max.0.saturating_add(b.max.0)),
        };
        Totals {
            senders: self.senders + other.senders,
            streams: self.streams + other.streams,
            requests: self.requests.zip(other.requests).map(|(a, b)| a.saturating_add(b)),
            rate: self.rate.zip(other.rate).map(|(a, b)| a + b),
            payload: self.payload.zip(other.payload).map(|(a, b)| sum(a, b)),
        }
    }
}

fn times(bytes: ByteRange, count: u64) -> ByteRange {
    let times = |size: ByteSize| ByteSize(size.0.saturating_mul(count));
    ByteRange { min: times(bytes.min), max: times(bytes.max) }
}
