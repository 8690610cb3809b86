//! One experiment's part of the sheet: from its file, a short dry run, what is known from elsewhere, and the facility.

use rehearsal_core::plan::{LinkSpec, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_models::path::Direction;
use rehearsal_models::wire::Framing;
use rehearsal_scenario::{ActorSpec, Experiment, NodeSpec};

use super::arithmetic::{Bounds, campaign_s, mbps};
use super::facility::Facility;
use super::figures::Figure;
use super::pilot::{Pilot, Sent};
use super::sheet::{self, Basis, Data, Link, Node, Requested, Times, Volume};
use super::warnings;
use crate::exit::UsageError;

/// `high` of a duration that nothing else bounds, as a factor of what is expected. Assumed: half as long again.
pub const MARGIN: f64 = 1.5;
/// A bundle without its seconds, bytes. Source: bundles of the shipped experiments, 60 to 65 kB.
pub const BUNDLE_BYTES: f64 = 65e3;
/// A second of a node or of an actor in a node, in series and latencies, bytes. Source: the same bundles, 125 to 160 B
/// simulated and 245 B emulated.
pub const ROW_BYTES: f64 = 250.0;
/// A single attempt that is kept, bytes. Source: a bundle with `record_requests = "100%"`, 44 B.
const RECORD_BYTES: f64 = 45.0;
/// What a capture file adds to a frame, and what of a frame's time on the wire is no byte of it: 16 of the packet record
/// (the pcap format, draft-ietf-opsawg-pcap), less preamble, check sequence and gap (IEEE 802.3).
const CAPTURE_BYTES: f64 = 16.0 - 24.0;

/// What an experiment's part is made from.
pub struct Estimate<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its file, as it was named.
    pub file: &'a str,
    /// Where it is to run.
    pub facility: &'a Facility,
    /// What is known of it from elsewhere.
    pub figure: &'a Figure,
    /// What a short dry run told.
    pub pilot: &'a Pilot,
}

/// A sending actor and what it does in a run.
pub struct Sender<'a> {
    /// Its node.
    pub node: &'a NodeSpec,
    /// Itself.
    pub actor: &'a ActorSpec,
    /// Its keys.
    pub keys: &'a SenderParams,
    /// The link to its target.
    pub link: &'a LinkSpec,
    /// What it did in the short dry run.
    pub sent: Sent,
    /// Requests of one run, all instances together.
    pub requests: f64,
}

impl<'a> Estimate<'a> {
    /// The part of the sheet.
    ///
    /// # Errors
    /// When nothing tells how long a run takes.
    pub fn part(&self) -> Result<sheet::Experiment, UsageError> {
        let time = self.times()?;
        let senders = self.senders(time.run_s.expected);
        let links = self.links(&senders, time.run_s.expected);
        let nodes: Vec<Node> = self.experiment.nodes.iter().map(|node| self.node(node, &links)).collect();
        let volume = self.volume(&senders);
        let data = self.data(&senders, &time, &volume);
        let warnings = warnings::all(self, &senders, &links, &nodes, &time, &volume);
        let (name, file) = (self.experiment.name.clone(), self.file.to_owned());
        Ok(sheet::Experiment { name, file, nodes, links, time, volume, data, warnings })
    }

    fn times(&self) -> Result<Times, UsageError> {
        let (basis, because, run_s) = self.run()?;
        let setup_s = self.facility.run.setup.as_secs_f64().max(self.experiment.lead.as_secs_f64());
        let teardown_s = self.facility.run.teardown.as_secs_f64();
        let repetitions = self.experiment.repetitions;
        let total_s = campaign_s(run_s, setup_s + teardown_s, repetitions);
        let bound_s = self.bound_s();
        Ok(Times { basis, because, run_s, setup_s, teardown_s, repetitions, total_s, bound_s })
    }

    /// Traffic of one run in seconds, and what that rests on.
    fn run(&self) -> Result<(Basis, String, Bounds), UsageError> {
        let Experiment { stop, grace, name, .. } = self.experiment;
        if let Stop::After(duration) = stop {
            let (run, drain) = (duration.as_secs_f64(), grace.as_secs_f64());
            let because = "the file's duration; at worst all of `grace` is needed to drain".to_owned();
            return Ok((Basis::Duration, because, Bounds { low: run, expected: run, high: run + drain }));
        }
        let total = self.experiment.totals().requests.unwrap_or(0) as f64;
        let simulated = self.pilot.rate().map(|rate| total / rate);
        let paced = self.experiment.paced_duration().map(|span| span.as_secs_f64());
        let (basis, because, expected) = match (&self.figure.rate, paced, simulated) {
            (Some((rate, source)), ..) => {
                let basis = if self.figure.given { Basis::Given } else { Basis::Published };
                (basis, format!("{rate} requests/s: {source}"), total / rate)
            }
            // a dry run that is slower than the schedule says that something is full; 2 % for its first and last requests
            (None, Some(paced), simulated) if simulated.is_none_or(|s| s <= paced * 1.02) => {
                (Basis::Schedule, "counts and rates of the file; nothing is late in a dry run".to_owned(), paced)
            }
            (None, _, Some(simulated)) => {
                let text = self.pilot.calibration.as_ref().map_or_else(
                    || "a short dry run without a calibration, in which CPUs cost nothing: a lower bound".to_owned(),
                    |title| format!("a short dry run with {title}"),
                );
                (Basis::DryRun, text, simulated)
            }
            (None, _, None) => {
                let fault = self.pilot.fault.as_deref().unwrap_or("its loops cost nothing without a calibration");
                let help = format!("give the rate of all its senders together: --rate {name}=100/s");
                return Err(UsageError(format!(
                    "{name}: a dry run does not tell how long a run takes ({fault}); {help}"
                )));
            }
        };
        let low = simulated.or(paced).map_or(expected, |low| low.min(expected));
        let high = self.conforming_s().filter(|high| *high > expected).unwrap_or(expected * MARGIN);
        Ok((basis, because, Bounds { low, expected, high }))
    }

    /// How long a run takes in which every request just keeps its limit; `None` where a sender has none.
    fn conforming_s(&self) -> Option<f64> {
        let of = |keys: &SenderParams| {
            let limit = keys.limit?.deadline.as_secs_f64();
            Some(keys.requests? as f64 * limit / f64::from(keys.in_flight))
        };
        self.longest(of)
    }

    /// How long a run takes in which every attempt times out.
    fn bound_s(&self) -> Option<f64> {
        let of = |keys: &SenderParams| {
            let each = keys.timeout.as_secs_f64() * f64::from(keys.retries + 1);
            Some(keys.requests? as f64 * each / f64::from(keys.in_flight))
        };
        if self.experiment.stop == Stop::AllRequestsDone { self.longest(of) } else { None }
    }

    fn longest(&self, of: impl Fn(&SenderParams) -> Option<f64>) -> Option<f64> {
        let each: Option<Vec<f64>> = self.experiment.senders().map(|(_, _, keys)| of(keys)).collect();
        each?.into_iter().max_by(f64::total_cmp)
    }

    fn senders(&self, run_s: f64) -> Vec<Sender<'a>> {
        let all = self.experiment.senders().map(|(node, actor, keys)| {
            let key = (node.name.clone(), actor.name.clone());
            let sent = self.pilot.sent.get(&key).cloned().unwrap_or_default();
            let counted = self.experiment.totals_of(node, actor).and_then(|totals| totals.requests);
            let simulated = sent.generated as f64 / self.pilot.seconds.max(f64::MIN_POSITIVE) * run_s;
            let requests = counted.map_or(simulated, |n| n as f64);
            Sender { node, actor, keys, link: self.experiment.link_to(&node.name, &keys.to), sent, requests }
        });
        all.collect()
    }

    /// The senders' traffic; those of one cell share its capacity.
    fn links(&self, senders: &[Sender<'_>], run_s: f64) -> Vec<Link> {
        let mut links: Vec<Link> = senders.iter().map(|sender| self.link(sender, run_s)).collect();
        for (at, sender) in senders.iter().enumerate().filter(|(_, sender)| sender.link.is_shared()) {
            let cell = senders.iter().zip(&links).filter(|(other, _)| queue(other.link) == queue(sender.link));
            let (mean, peak) = cell.fold((0.0, 0.0), |(mean, peak), (_, l)| (mean + l.wire_mbps, peak + l.peak_mbps));
            links[at].utilisation = links[at].capacity_mbps.map(|capacity| mean / capacity);
            links[at].peak_utilisation = links[at].capacity_mbps.map(|capacity| peak / capacity);
        }
        links
    }

    fn link(&self, sender: &Sender<'_>, run_s: f64) -> Link {
        let Sender { node, actor, keys, link, sent, requests } = sender;
        let per_second = requests / run_s.max(f64::MIN_POSITIVE);
        let left = per_second * sent.attempts();
        let (request, answer) = (sent.request_bytes(), sent.answer_bytes());
        let wire_mbps = mbps(left * Framing::of(link).wire_bytes(Direction::Up, request.round() as u32) as f64);
        let answers =
            if link.is_exchange() { Framing::of(link).wire_bytes(Direction::Down, answer.round() as u32) } else { 0 };
        let to = self.experiment.nodes.iter().find(|to| keys.to.split('/').next() == Some(&to.name));
        let pairs = f64::from(node.count()) * f64::from(to.map_or(1, NodeSpec::count));
        let lowest = link.rate_steps.iter().map(|(_, rate)| *rate).min();
        let capacity_mbps = lowest.or(link.rate).map(|rate| rate.0 as f64 / 1e6);
        Link {
            from: format!("{}/{}", node.name, actor.name),
            to: keys.to.clone(),
            requests: *requests,
            requests_per_second: per_second,
            request_bytes: request,
            payload_mbps: mbps(left * request),
            wire_mbps,
            peak_mbps: wire_mbps * sent.peak(),
            answers_mbps: mbps(left * answers as f64),
            frames_per_second: left * Framing::of(link).frames(Direction::Up, request.round() as u32) as f64,
            capacity_mbps,
            capacity_is_lowest: lowest.is_some(),
            utilisation: capacity_mbps.map(|capacity| wire_mbps / pairs / capacity),
            peak_utilisation: capacity_mbps.map(|capacity| wire_mbps * sent.peak() / pairs / capacity),
        }
    }

    fn node(&self, node: &NodeSpec, links: &[Link]) -> Node {
        let count = f64::from(node.count());
        let is = |end: &str| end.split('/').next() == Some(&node.name) && !end.contains("://");
        // the sum of none is -0
        let sum = |pick: fn(&Link) -> (&str, f64)| {
            links.iter().map(pick).filter(|(end, _)| is(end)).map(|(_, mbps)| mbps).sum::<f64>() / count + 0.0
        };
        let in_mbps = sum(|l| (&l.to, l.wire_mbps)) + sum(|l| (&l.from, l.answers_mbps));
        let out_mbps = sum(|l| (&l.from, l.wire_mbps)) + sum(|l| (&l.to, l.answers_mbps));
        let default = self.facility.default;
        let vcpu = node.vcpu.unwrap_or(default.vcpu);
        let booked = self.facility.book(vcpu, node.memory.unwrap_or(default.memory).0);
        Node {
            name: node.name.clone(),
            count: node.count(),
            role: if node.measured { "traffic" } else { "control" }.to_owned(),
            requested: Requested { vcpu: node.vcpu, memory_bytes: node.memory.map(|m| m.0) },
            utilisation: booked.as_ref().map(|booked| in_mbps.max(out_mbps) / booked.nic_mbps),
            booked,
            in_mbps,
            out_mbps,
        }
    }

    fn volume(&self, senders: &[Sender<'_>]) -> Volume {
        let mut volume = Volume {
            requests: 0.0,
            payload_bytes: Bounds::default(),
            wire_bytes: 0.0,
            published_bytes: self.figure.volume.as_ref().map(|v| v.0),
            published_source: self.figure.volume.as_ref().map(|v| v.1.clone()),
        };
        for Sender { actor, link, sent, requests, .. } in senders {
            let attempts = requests * sent.attempts();
            let (request, answer) = (sent.request_bytes(), sent.answer_bytes());
            let (low, high) = actor.request_bytes.map_or((request, request), |r| (r.min.0 as f64, r.max.0 as f64));
            volume.requests += requests;
            volume.payload_bytes =
                volume.payload_bytes.plus(Bounds { low, expected: request, high }.map(|bytes| bytes * attempts));
            let answers = if link.is_exchange() {
                Framing::of(link).wire_bytes(Direction::Down, answer.round() as u32)
            } else {
                0
            };
            volume.wire_bytes +=
                attempts * (Framing::of(link).wire_bytes(Direction::Up, request.round() as u32) + answers) as f64;
        }
        volume
    }

    fn data(&self, senders: &[Sender<'_>], time: &Times, volume: &Volume) -> Data {
        let measured = self.experiment.nodes.iter().filter(|node| node.measured);
        let rows: f64 = measured.map(|node| f64::from(node.count()) * (1.0 + node.actors.len() as f64)).sum();
        let attempts: f64 = senders.iter().map(|s| s.requests * s.sent.attempts()).sum();
        let recorded = self.experiment.record_requests.0 * attempts;
        let captured: f64 = senders
            .iter()
            .map(|s| {
                let answers = if s.link.is_exchange() { 1.0 } else { 0.0 };
                let each =
                    Framing::of(s.link).frames(Direction::Up, s.sent.request_bytes().round() as u32) as f64 + answers;
                s.requests * s.sent.attempts() * each * CAPTURE_BYTES
            })
            .sum();
        let runs = f64::from(time.repetitions);
        Data {
            bundle_bytes: runs * (BUNDLE_BYTES + time.run_s.expected * rows * ROW_BYTES + recorded * RECORD_BYTES),
            recorded_requests: runs * recorded,
            capture_bytes: runs * (volume.wire_bytes + captured),
        }
    }
}

/// The name of the link whose capacity it uses.
fn queue(link: &LinkSpec) -> &str {
    link.shares.as_deref().unwrap_or(&link.name)
}
