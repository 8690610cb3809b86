//! A source on a test bench: its wiring, its clock, and a peer that answers as the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use rehearsal_core::exchange::Times;
use rehearsal_core::kind::{FrameRequest, Frames, StreamSpec, Targets};
use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{Carrier, NodeInfo, RunInfo, Stop};
use rehearsal_core::rng::Seed;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::subject::Plane;
use rehearsal_core::{
    Actor, Body, BuildError, Command, Datagram, Event, GroupContext, MediaId, MetricId, Outbox, Outcome, Payload,
    Recipe, RecipeId, Request, RngStream, Span, Status, SubjectId, Time, TimerKey, Wiring, Work, WorkKey, WorkResult,
};

use crate::source::{Next, Payloads, Source, SourceSpec};

/// When the runs of all tests begin.
pub(super) const AT: Time = Time::from_nanos(3_000_000_000);
/// The recipe of spoiled payloads.
pub(super) const SPOILED: RecipeId = RecipeId(9);
/// The counter of payloads that could not be made.
pub(super) const ENCODE_FAILED: MetricId = MetricId(9);

pub(super) fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// A wiring whose target has `len` instances, from subject 100 on.
pub(super) struct Bench {
    pub(super) len: u32,
    pub(super) carrier: Carrier,
    pub(super) streams: Option<StreamSpec>,
    pub(super) patterns: Vec<String>,
}

impl Bench {
    pub(super) fn new(len: u32, carrier: Carrier) -> Self {
        Bench { len, carrier, streams: None, patterns: Vec::new() }
    }
}

impl Wiring for Bench {
    fn subject(&mut self, _: &str) -> Result<SubjectId, BuildError> {
        Ok(SubjectId(0))
    }
    fn own(&mut self, _: Plane, _: &str) -> SubjectId {
        SubjectId(0)
    }
    fn subscribe(&mut self, pattern: &str) -> Result<(), BuildError> {
        self.patterns.push(pattern.to_owned());
        Ok(())
    }
    fn target(&mut self, _: &str) -> Result<Targets, BuildError> {
        Ok(Targets {
            base: SubjectId(100),
            len: self.len,
            carrier: self.carrier,
            exchange: self.carrier != Carrier::Udp,
            stamps: self.carrier.stamps_payload(),
        })
    }
    fn instances(&mut self, _: &str) -> Result<Vec<std::ops::Range<u32>>, BuildError> {
        Ok(Vec::new())
    }
    fn streams(&mut self, spec: StreamSpec) {
        self.streams = Some(spec);
    }
    fn serve(&mut self, _: Option<SocketAddr>) {}
    fn recipe(&mut self, _: Arc<dyn Recipe>) -> RecipeId {
        SPOILED
    }
    fn frames(&mut self, _: &FrameRequest) -> Result<Frames, BuildError> {
        Err(BuildError::group("no clips here"))
    }
    fn file(&mut self, _: &std::path::Path) -> Result<bytes::Bytes, BuildError> {
        Err(BuildError::group("no files here"))
    }
    fn metric_named(&mut self, _: rehearsal_core::kind::MetricName) -> MetricId {
        ENCODE_FAILED
    }
    fn rng(&self, member: u32, stream: u32, purpose: &str) -> RngStream {
        RngStream::new(Seed { seed: 5, repetition: 0, group: "sensor/main", member, stream, purpose })
    }
}

/// Payload 200 B of recipe 1, or a piece of work for it.
#[derive(Debug, Default)]
pub(super) struct Plain {
    pub(super) live: bool,
}

impl Payloads for Plain {
    fn payload(&mut self, stream: u32, seq: u64) -> Next {
        let frame = u64::from(stream) * 1000 + seq;
        match self.live {
            true => Next::Encode(Work::Encode { media: MediaId(0), frame }),
            false => Next::Ready(Payload::new(200, RecipeId(1), seq)),
        }
    }

    fn encode_failed(&self) -> Option<MetricId> {
        Some(ENCODE_FAILED)
    }
}

/// Plain sender keys, `rate` in requests per second.
pub(super) fn params(rate: Option<u64>, requests: Option<u64>) -> SenderParams {
    SenderParams {
        to: "receiver/main".into(),
        spread: Default::default(),
        streams: 1,
        requests,
        rate: rate.map(rehearsal_core::units::Rate::per_second),
        arrivals: None,
        in_flight: 1,
        on_late: Default::default(),
        queue: 1000,
        timeout: Span::from_secs(10),
        retries: 3,
        backoff: ms(100),
        limit: None,
        malformed: Default::default(),
        dscp: rehearsal_core::dscp::Dscp::DF,
        request: None,
        service: None,
    }
}

/// Builds the group's specification.
pub(super) fn resolve(bench: &mut Bench, params: &SenderParams, stop: Stop) -> Result<Arc<SourceSpec>, BuildError> {
    let nodes = vec![NodeInfo { name: "sensor-1".into(), sends: true }];
    let run = RunInfo { nodes, ..RunInfo::by_hand("r1", stop) };
    let cx = GroupContext { node: "sensor-1", actor: "main", members: 0..1, sender: Some(params), run: &run };
    SourceSpec::new(&cx, bench, SPOILED)
}

#[derive(Debug)]
enum Due {
    Timer(u32),
    Done(Box<Request>),
    Made(WorkKey),
}

type Peer = Box<dyn Fn(&Request) -> (Status, Span)>;

/// Drives one source in virtual time. Requests leave at their `at`: there is no gate.
pub(super) struct Rig {
    pub(super) source: Source<Plain>,
    pub(super) requests: Vec<Request>,
    /// When each of them was wished for.
    pub(super) wished: Vec<Time>,
    pub(super) datagrams: Vec<Datagram>,
    pub(super) encodes: Vec<u64>,
    pub(super) counts: BTreeMap<MetricId, u64>,
    pub(super) finished: u32,
    /// How long one payload takes to make, and what comes of it.
    pub(super) encoding: (Span, WorkResult),
    pub(super) open_max: usize,
    peer: Peer,
    open: BTreeSet<u64>,
    queue: BTreeMap<(Time, u64), Due>,
    timers: BTreeMap<u32, (Time, u64)>,
    next: u64,
    out: Outbox,
}

impl Rig {
    pub(super) fn new(params: &SenderParams, peer: impl Fn(&Request) -> (Status, Span) + 'static) -> Self {
        Rig::over(&mut Bench::new(1, Carrier::Http1), params, false, peer)
    }

    pub(super) fn over(
        bench: &mut Bench,
        params: &SenderParams,
        live: bool,
        peer: impl Fn(&Request) -> (Status, Span) + 'static,
    ) -> Self {
        let spec = resolve(bench, params, Stop::After(Span::from_secs(3600))).expect("the keys fit");
        Rig {
            source: Source::new(&spec, bench, 0, Plain { live }),
            requests: Vec::new(),
            wished: Vec::new(),
            datagrams: Vec::new(),
            encodes: Vec::new(),
            counts: BTreeMap::new(),
            finished: 0,
            encoding: (ms(1), WorkResult::Produced(Payload::new(150, RecipeId(2), 0))),
            open_max: 0,
            peer: Box::new(peer),
            open: BTreeSet::new(),
            queue: BTreeMap::new(),
            timers: BTreeMap::new(),
            next: 0,
            out: Outbox::default(),
        }
    }

    /// Traffic begins at [`AT`].
    pub(super) fn start(&mut self, until: Option<Time>) {
        let body = Body::new(StartAt { at: AT, until });
        self.feed(Time::from_nanos(1_000_000_000), Event::Message { subject: SubjectId(0), body: &body });
    }

    /// Lets it hear a message.
    pub(super) fn hear<M: rehearsal_core::Message>(&mut self, now: Time, message: M) {
        let body = Body::new(message);
        self.feed(now, Event::Message { subject: SubjectId(0), body: &body });
    }

    /// Starts it and lets it run to its end.
    pub(super) fn run(mut self, until: Option<Time>) -> Self {
        self.start(until);
        self.go_on(Time::MAX);
        self
    }

    /// Lets everything happen that is due up to `end`.
    pub(super) fn go_on(&mut self, end: Time) {
        while let Some((&(now, id), _)) = self.queue.first_key_value()
            && now <= end
        {
            let due = self.queue.remove(&(now, id)).expect("it was just seen");
            match due {
                Due::Timer(key) => {
                    self.timers.remove(&key);
                    self.feed(now, Event::Timer { key: TimerKey(key), due: now });
                }
                Due::Done(request) => self.settle(now, &request),
                Due::Made(key) => self.feed(now, Event::WorkDone { key, result: &self.encoding.1.clone() }),
            }
        }
    }

    fn settle(&mut self, now: Time, request: &Request) {
        assert!(self.open.remove(&request.token.0), "one outcome for each attempt");
        let (status, _) = (self.peer)(request);
        let times = Times { intended: request.intended, ready: request.at, sent: request.at, done: now };
        self.feed(now, Event::Outcome { request, outcome: &Outcome { status, times, reply_bytes: 0 } });
    }

    /// Hands an event over and does what the source wishes.
    pub(super) fn feed(&mut self, now: Time, event: Event<'_>) {
        self.source.handle(now, event, &mut self.out);
        let wishes: Vec<Command> = self.out.drain().collect();
        for wish in wishes {
            match wish {
                Command::SetTimer { key, at } => {
                    assert!(key.0 < self.source.timers());
                    self.cancel(key.0);
                    let place = self.enqueue(at.max(now), Due::Timer(key.0));
                    self.timers.insert(key.0, place);
                }
                Command::CancelTimer { key } => self.cancel(key.0),
                Command::Request(request) => {
                    assert!(self.open.insert(request.token.0), "two open attempts with one token");
                    self.open_max = self.open_max.max(self.open.len());
                    let (_, service) = (self.peer)(&request);
                    self.enqueue(request.at.max(now) + service, Due::Done(Box::new(request)));
                    self.requests.push(request);
                    self.wished.push(now);
                }
                Command::Send(datagram) => self.datagrams.push(datagram),
                Command::Work { key, work: Work::Encode { frame, .. } } => {
                    self.encodes.push(frame);
                    self.enqueue(now + self.encoding.0, Due::Made(key));
                }
                Command::Count { metric, by } => *self.counts.entry(metric).or_default() += by,
                Command::Finished => self.finished += 1,
                other => panic!("a source does not wish {other:?}"),
            }
        }
    }

    /// Exchanges by number, first attempts alone.
    pub(super) fn seqs(&self) -> Vec<u64> {
        self.requests.iter().filter(|r| r.attempt == 0).map(|r| r.seq).collect()
    }

    pub(super) fn count(&self, metric: MetricId) -> u64 {
        self.counts.get(&metric).copied().unwrap_or(0)
    }

    /// Timers that are set.
    pub(super) fn pending_timers(&self) -> usize {
        self.timers.len()
    }

    fn enqueue(&mut self, at: Time, due: Due) -> (Time, u64) {
        self.next += 1;
        self.queue.insert((at, self.next), due);
        (at, self.next)
    }

    fn cancel(&mut self, key: u32) {
        if let Some(place) = self.timers.remove(&key) {
            self.queue.remove(&place);
        }
    }
}
