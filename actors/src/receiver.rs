//! The receiver: worker slots, a bounded backlog, and an analyzer for what comes in. Senders can have workers of their own,
//! so that no other traffic takes them away.

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use rehearsal_core::kind::Weight;
use rehearsal_core::outside::OUTSIDE;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::units::ByteSize;
use rehearsal_core::{
    Actor, ActorId, BuildError, Event, ExchangeId, GroupContext, Head, Kind, Outbox, Payload, Pool, Recipe, RecipeId,
    Reply, Role, Span, Status, Time, Wiring, Work, WorkKey, WorkResult,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod failing;

pub use failing::FailParams;
use failing::Failing;

/// Length of an acknowledgement, bytes: room for any number, filled up with spaces. A sender may want a longer one.
const ACK_BYTES: u64 = 40;
/// Shortest acknowledgement that has room for any number, bytes.
const ACK_BYTES_MIN: u64 = 28;
/// The same of one with a token: its name, quotes and 32 digits more.
const TOKEN_BYTES_MIN: u64 = ACK_BYTES_MIN + 44;
/// Longest answer that a receiver is set to, bytes. Assumed: that of a sensor's reading.
const ACK_BYTES_MAX: u64 = 16 << 20;
/// The longest answer that a sender may want, bytes. Assumed: as long as the longest request that an emulation takes in.
const REPLY_BYTES_MAX: u32 = 64 << 20;

/// Answers requests.
pub struct Receiver;

/// The receiver's own keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverParams {
    /// Requests that are analysed at the same time. Assumed: enough for the 20 ms pause of PL-5G at 800 requests/s.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub workers: u32,
    /// Requests that may wait for a worker; what comes then is rejected. Assumed: four for each worker.
    #[schemars(range(max = 1_000_000))]
    pub backlog: u32,
    /// Where to listen, `address:port`; without it, at an address of the engine's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Size of an answer's body: nothing, or an acknowledgement in JSON filled up with spaces, of 28 B at least.
    #[serde(skip_serializing_if = "is_usual")]
    pub answer: ByteSize,
    /// Answers hold a `token` of 32 digits, which no other answer of the instance has: for users whose steps take one. They have
    /// at least 72 bytes then, and `ack` counts them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub token: bool,
    /// Some requests fail, the same ones in both engines: for what users and senders do then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<FailParams>,
    /// What is done with each request.
    pub analyzer: AnalyzerParams,
    /// Workers that serve certain senders and nobody else. `workers` and `backlog` are for all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolParams>,
}

/// Workers for certain senders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolParams {
    /// Whom they serve, each as `node/actor`.
    pub from: Vec<String>,
    /// Their requests that are analysed at the same time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub workers: u32,
    /// Their requests that may wait for a worker. Assumed: as of a receiver.
    #[serde(default = "backlog")]
    #[schemars(range(max = 1_000_000))]
    pub backlog: u32,
}

const fn backlog() -> u32 {
    64
}

fn is_usual(answer: &ByteSize) -> bool {
    answer.0 == ACK_BYTES
}

/// What is done with each request. Its form and size are checked always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnalyzerParams {
    /// Wait this long, without using a core (PL-5G: 20 ms).
    pub pause: Span,
    /// Compute this long, on one core.
    pub spin: Span,
    /// Decode the whole picture or document, not only its form.
    pub decode: bool,
}

impl Default for ReceiverParams {
    fn default() -> Self {
        ReceiverParams {
            workers: 16,
            backlog: 64,
            listen: None,
            answer: ByteSize(ACK_BYTES),
            token: false,
            fail: None,
            analyzer: AnalyzerParams::default(),
            pools: Vec::new(),
        }
    }
}

impl Kind for Receiver {
    const NAME: &'static str = "receiver";
    const SUMMARY: &'static str = "checks and answers what it is sent";
    const ROLE: Role = Role::Receiver;
    type Params = ReceiverParams;

    fn build(
        params: &ReceiverParams,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError> {
        if params.workers == 0 {
            return Err(BuildError::of("workers", "a receiver has at least one worker"));
        }
        if params.listen.is_some() && cx.members.len() > 1 {
            let reason = "several instances cannot share one address; leave `listen` out, or write `count = 1`";
            return Err(BuildError::of("listen", reason));
        }
        // what a target outside answers is a size alone: nobody renders it
        let modelled = cx.node.strip_prefix(OUTSIDE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let least = if modelled { 1 } else { ACK_BYTES_MIN };
        if params.answer.0 != 0 && !(least..=ACK_BYTES_MAX).contains(&params.answer.0) {
            let reason = format!("an answer has no bytes, or {ACK_BYTES_MIN}B to {}", ByteSize(ACK_BYTES_MAX));
            return Err(BuildError::of("answer", reason));
        }
        let listen = match &params.listen {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                BuildError::of("listen", format!("`{text}` is no address; write for instance `127.0.0.1:8080`"))
            })?),
        };
        wiring.serve(listen);
        let AnalyzerParams { pause, spin: compute, decode } = params.analyzer;
        let weight = Weight::of(params.answer.0 as f64, params.answer.0);
        wiring.weight(Weight { compute, pause, at_once: at_once(params), decode, ..weight });
        let (pools, routes) = pools(params, wiring)?;
        let ack: Arc<dyn Recipe> = if params.token { Arc::new(Token) } else { Arc::new(Ack) };
        let least = if params.token { TOKEN_BYTES_MIN } else { 0 };
        let (ack, bytes) = (wiring.recipe(ack), params.answer.0.max(least) as u32);
        let fail = params.fail.map(|fail| Ok::<_, BuildError>((fail.share.0, fail.said()?))).transpose()?;
        let spec = Arc::new(Desk { pools, routes, analyzer: params.analyzer, ack, token: params.token, bytes, fail });
        let key = |member| wiring.rng(member, 0, "failures").bits();
        let members: Vec<_> = cx.members.clone().map(|member| Server::new(&spec, key(member))).collect();
        Ok(Box::new(members))
    }
}

/// Requests that all workers of one instance can have at the same time.
fn at_once(params: &ReceiverParams) -> Option<u32> {
    Some(params.pools.iter().fold(params.workers, |all, pool| all.saturating_add(pool.workers)))
}

/// The pools, that for everybody first, and whom the others serve: ids of senders in order.
type Pools = (Vec<Room>, Vec<(Range<u32>, u32)>);

fn pools(params: &ReceiverParams, wiring: &mut dyn Wiring) -> Result<Pools, BuildError> {
    let mut pools = vec![Room { workers: params.workers, backlog: params.backlog as usize }];
    let mut routes: Vec<(Range<u32>, u32)> = Vec::new();
    for pool in &params.pools {
        if pool.workers == 0 {
            return Err(BuildError::of("pools", "a pool has at least one worker"));
        }
        for name in &pool.from {
            let ids = wiring.instances(name).map_err(|why| BuildError::of("pools", why.reason))?;
            routes.extend(ids.into_iter().map(|ids| (ids, pools.len() as u32)));
        }
        pools.push(Room { workers: pool.workers, backlog: pool.backlog as usize });
    }
    routes.sort_by_key(|(ids, _)| ids.start);
    if routes.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Err(BuildError::of("pools", "a sender has one pool; name it in one `from` only"));
    }
    Ok((pools, routes))
}

/// How much one pool can do.
#[derive(Clone, Copy, Debug)]
struct Room {
    workers: u32,
    backlog: usize,
}

/// What the members share.
#[derive(Debug)]
struct Desk {
    pools: Vec<Room>,
    routes: Vec<(Range<u32>, u32)>,
    analyzer: AnalyzerParams,
    ack: RecipeId,
    token: bool,
    /// Of an answer.
    bytes: u32,
    /// The share of requests that fail, and what they get.
    fail: Option<(f64, Status)>,
}

impl Desk {
    /// Of an answer to a request that wants so many bytes, or leaves it to the receiver with 0.
    fn length(&self, wanted: u32) -> u32 {
        let least = if self.token { TOKEN_BYTES_MIN } else { ACK_BYTES } as u32;
        if wanted == 0 { self.bytes } else { wanted.clamp(least, REPLY_BYTES_MAX) }
    }

    /// The pool for what `from` sends.
    #[inline]
    fn pool(&self, from: Option<ActorId>) -> usize {
        let Some(ActorId(id)) = from.filter(|_| !self.routes.is_empty()) else { return 0 };
        let place = self.routes.partition_point(|(ids, _)| ids.end <= id);
        self.routes.get(place).filter(|(ids, _)| ids.contains(&id)).map_or(0, |(_, pool)| *pool as usize)
    }
}

/// One receiving actor.
#[derive(Debug)]
struct Server {
    desk: Arc<Desk>,
    pools: Vec<Crew>,
    /// Tokens that were given.
    tokens: u64,
    failing: Failing,
}

/// The workers of one pool.
#[derive(Debug, Default)]
struct Crew {
    /// A request for each worker that has ever been busy; its place is the lower half of the work's key, the pool the upper.
    slots: Vec<Job>,
    /// Places of workers that are free again.
    free: Vec<u32>,
    backlog: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    exchange: ExchangeId,
    seq: u64,
    reply_bytes: u32,
    fails: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: Job,
    arrived: Time,
    limit: Span,
}

impl Server {
    fn new(desk: &Arc<Desk>, key: u64) -> Self {
        let pools = desk.pools.iter().map(|_| Crew::default()).collect();
        let failing = Failing::new(desk.fail.map_or(0.0, |(share, _)| share), key);
        Server { desk: desk.clone(), pools, tokens: 0, failing }
    }

    fn request(&mut self, now: Time, exchange: ExchangeId, head: &Head, out: &mut Outbox) {
        let fails = self.failing.takes(head);
        let job = Job { exchange, seq: head.seq, reply_bytes: self.desk.length(head.reply_bytes), fails };
        let pool = self.desk.pool(head.from);
        let (room, crew) = (self.desk.pools[pool], &mut self.pools[pool]);
        if let Some(worker) = crew.worker(room.workers) {
            self.analyze(pool, worker, job, out);
        } else if crew.backlog.len() < room.backlog {
            crew.backlog.push_back(Waiting { job, arrived: now, limit: head.limit });
        } else {
            reject(exchange, out);
        }
    }

    fn analyze(&mut self, pool: usize, worker: u32, job: Job, out: &mut Outbox) {
        self.pools[pool].slots[worker as usize] = job;
        let AnalyzerParams { pause, spin, decode } = self.desk.analyzer;
        let key = WorkKey((pool as u64) << 32 | u64::from(worker));
        out.work(key, Work::Analyze { exchange: job.exchange, decode, pause, spin });
    }

    /// A worker has finished: it answers, and takes the next request that has not waited too long.
    fn done(&mut self, now: Time, key: WorkKey, result: WorkResult, out: &mut Outbox) {
        let (pool, worker) = ((key.0 >> 32) as usize, key.0 as u32);
        let Some(job) = self.pools.get(pool).and_then(|crew| crew.slots.get(worker as usize)).copied() else { return };
        let status = match (result, self.desk.fail) {
            (WorkResult::Invalid, _) => Status::Invalid,
            (_, Some((_, status))) if job.fails => status,
            _ => Status::Success,
        };
        let number = if self.desk.token { self.tokens } else { job.seq };
        self.tokens += 1;
        let payload = Payload::new(job.reply_bytes, self.desk.ack, number);
        out.respond(job.exchange, Reply { status, payload });
        while let Some(next) = self.pools[pool].backlog.pop_front() {
            if next.limit.is_zero() || now.since(next.arrived) <= next.limit {
                self.analyze(pool, worker, next.job, out);
                return;
            }
            reject(next.job.exchange, out);
        }
        self.pools[pool].free.push(worker);
    }
}

impl Crew {
    /// A worker that is free, of so many.
    fn worker(&mut self, workers: u32) -> Option<u32> {
        self.free.pop().or_else(|| {
            let next = self.slots.len() as u32;
            (next < workers).then(|| {
                self.slots.push(Job { exchange: ExchangeId::default(), seq: 0, reply_bytes: 0, fails: false });
                next
            })
        })
    }
}

fn reject(exchange: ExchangeId, out: &mut Outbox) {
    out.respond(exchange, Reply { status: Status::Rejected, payload: Payload::EMPTY });
}

impl Actor for Server {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Request { exchange, head, .. } => self.request(now, exchange, head, out),
            Event::WorkDone { key, result } => self.done(now, key, *result, out),
            // datagrams are counted by the engine; after a stop it goes on answering
            _ => {}
        }
    }
}

/// `{"ack":7}`, filled up with spaces to the length that is wanted; nothing if that is none.
#[derive(Debug)]
struct Ack;

impl Recipe for Ack {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let start = out.len();
        if cx.bytes == 0 {
            return;
        }
        write!(out, r#"{{"ack":{}"#, cx.seq).expect("memory is the only limit");
        out.resize(start + cx.bytes as usize - 1, b' ');
        out.extend_from_slice(b"}");
    }
}

/// `{"ack":7,"token":"0123…"}`, filled up in the same way.
#[derive(Debug)]
struct Token;

impl Recipe for Token {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let start = out.len();
        let one = spread(cx.seq ^ u64::from(cx.member).rotate_right(32) ^ 0x9E37_79B9_7F4A_7C15);
        write!(out, r#"{{"ack":{},"token":"{one:016x}{:016x}""#, cx.seq, spread(!one))
            .expect("memory is the only limit");
        out.resize(start + cx.bytes as usize - 1, b' ');
        out.extend_from_slice(b"}");
    }
}

/// A permutation of 64-bit numbers (the finaliser of splitmix64).
fn spread(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use rehearsal_core::{Command, Times};

    use super::*;
    use crate::testing::{Experiment, Stage, at};

    fn params(workers: u32, backlog: u32) -> ReceiverParams {
        let analyzer = AnalyzerParams { pause: Span::from_millis(20), spin: Span::from_micros(500), decode: true };
        ReceiverParams { workers, backlog, analyzer, ..ReceiverParams::default() }
    }

    fn stage(workers: u32, backlog: u32) -> Stage {
        Experiment::default().build::<Receiver>(&params(workers, backlog)).expect("it builds")
    }

    /// Request number `n` comes in, with the longest wait it allows.
    fn ask(stage: &mut Stage, now: u64, n: u64, limit: Span) -> Vec<Command> {
        let head = Head { seq: 100 + n, limit, ..Head::default() };
        let payload = Payload::new(10, Payload::RECEIVED, 0);
        stage.tell(at(now), Event::Request { exchange: ExchangeId(n), head: &head, payload: &payload })
    }

    fn done(stage: &mut Stage, now: u64, work: WorkKey, result: WorkResult) -> Vec<Command> {
        stage.tell(at(now), Event::WorkDone { key: work, result: &result })
    }

    /// The key of the work on exchange `n`, which must be all that is asked for last.
    fn work(wishes: &[Command], n: u64) -> WorkKey {
        let expected = Work::Analyze {
            exchange: ExchangeId(n),
            decode: true,
            pause: Span::from_millis(20),
            spin: Span::from_micros(500),
        };
        match wishes.last() {
            Some(Command::Work { key, work }) if *work == expected => *key,
            _ => panic!("no work on {n} in {wishes:?}"),
        }
    }

    fn answers(wishes: &[Command]) -> Vec<(u64, Status)> {
        let answer = |wish: &Command| match wish {
            Command::Respond { exchange, reply } => Some((exchange.0, reply.status)),
            _ => None,
        };
        wishes.iter().filter_map(answer).collect()
    }

    #[test]
    fn workers_then_backlog_then_rejection() {
        let mut stage = stage(2, 2);
        let first = work(&ask(&mut stage, 0, 1, Span::ZERO), 1);
        let second = work(&ask(&mut stage, 0, 2, Span::ZERO), 2);
        assert_ne!(first, second);
        assert_eq!(ask(&mut stage, 1, 3, Span::ZERO), []);
        assert_eq!(ask(&mut stage, 1, 4, Span::ZERO), []);
        assert_eq!(answers(&ask(&mut stage, 1, 5, Span::ZERO)), [(5, Status::Rejected)]);
        // whoever is free takes the one that has waited longest
        let wishes = done(&mut stage, 20, second, WorkResult::Done);
        assert_eq!(answers(&wishes), [(2, Status::Success)]);
        let third = work(&wishes, 3);
        let wishes = done(&mut stage, 21, first, WorkResult::Invalid);
        assert_eq!(answers(&wishes), [(1, Status::Invalid)]);
        let fourth = work(&wishes, 4);
        assert_eq!(answers(&done(&mut stage, 40, third, WorkResult::Done)), [(3, Status::Success)]);
        assert_eq!(answers(&done(&mut stage, 41, fourth, WorkResult::Done)), [(4, Status::Success)]);
        work(&ask(&mut stage, 50, 6, Span::ZERO), 6);
    }

    #[test]
    fn without_a_backlog_it_rejects_at_once() {
        let mut stage = stage(1, 0);
        work(&ask(&mut stage, 0, 1, Span::ZERO), 1);
        assert_eq!(answers(&ask(&mut stage, 0, 2, Span::ZERO)), [(2, Status::Rejected)]);
    }

    #[test]
    fn what_waited_longer_than_its_limit_is_rejected_when_its_turn_comes() {
        let mut stage = stage(1, 8);
        let first = work(&ask(&mut stage, 0, 1, Span::from_millis(1)), 1);
        ask(&mut stage, 0, 2, Span::from_millis(19));
        ask(&mut stage, 1, 3, Span::from_millis(19));
        ask(&mut stage, 0, 4, Span::ZERO);
        let wishes = done(&mut stage, 20, first, WorkResult::Done);
        assert_eq!(
            answers(&wishes),
            [(1, Status::Success), (2, Status::Rejected)],
            "its own limit is on the wait alone"
        );
        let third = work(&wishes, 3);
        let wishes = done(&mut stage, 10_000, third, WorkResult::Done);
        work(&wishes, 4);
    }

    #[test]
    fn it_goes_on_answering_after_the_stop() {
        let mut stage = stage(1, 8);
        let first = work(&ask(&mut stage, 0, 1, Span::ZERO), 1);
        ask(&mut stage, 0, 2, Span::ZERO);
        assert_eq!(stage.tell(at(5), Event::Stop), []);
        let wishes = done(&mut stage, 20, first, WorkResult::Done);
        let second = work(&wishes, 2);
        assert_eq!(answers(&done(&mut stage, 40, second, WorkResult::Done)), [(2, Status::Success)]);
    }

    #[test]
    fn the_acknowledgement_is_json_of_a_fixed_length() {
        let mut stage = stage(1, 0);
        let first = work(&ask(&mut stage, 0, 7, Span::ZERO), 7);
        let wishes = done(&mut stage, 20, first, WorkResult::Done);
        let [Command::Respond { reply, .. }] = wishes[..] else { panic!("{wishes:?}") };
        for (seq, expected) in [(reply.payload.seq, 107_u64), (u64::MAX, u64::MAX)] {
            let text = stage.render(Payload { seq, ..reply.payload });
            assert_eq!(text.len(), 40);
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).expect("JSON")["ack"], expected);
        }
        assert_eq!(stage.recipe(reply.payload).content_type(), "application/json");
    }

    #[test]
    fn datagrams_want_no_answer() {
        let mut stage = stage(1, 0);
        let payload = Payload::new(10, Payload::RECEIVED, 0);
        let event = Event::Datagram { head: &Head::default(), times: &Times::default(), payload: &payload };
        assert_eq!(stage.tell(at(0), event), []);
    }

    #[test]
    fn every_request_is_answered_once_in_the_order_of_arrival() {
        let mut stage = stage(3, 5);
        let (mut keys, mut seen) = (VecDeque::new(), Vec::new());
        for n in 0..200 {
            let mut wishes = ask(&mut stage, n, n, Span::ZERO);
            if n % 2 == 0 && keys.len() == 3 {
                let key = keys.pop_front().expect("a busy worker");
                wishes.extend(done(&mut stage, n, key, WorkResult::Done));
            }
            seen.extend(answers(&wishes));
            keys.extend(
                wishes.iter().filter_map(|w| if let Command::Work { key, .. } = w { Some(*key) } else { None }),
            );
            assert!(keys.len() <= 3, "never more than the workers");
        }
        while let Some(key) = keys.pop_front() {
            let wishes = done(&mut stage, 1000, key, WorkResult::Done);
            seen.extend(answers(&wishes));
            keys.extend(
                wishes.iter().filter_map(|w| if let Command::Work { key, .. } = w { Some(*key) } else { None }),
            );
        }
        let served: Vec<u64> = seen.iter().filter(|a| a.1 == Status::Success).map(|a| a.0).collect();
        assert!(served.is_sorted(), "{served:?}");
        let mut all: Vec<u64> = seen.iter().map(|a| a.0).collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
        assert!(served.len() > 100 && served.len() < 200);
    }

    /// The `lab` node's actor is number 0, the receiver number 1: one has a worker of its own, the others share two.
    #[test]
    fn a_pool_serves_its_senders_and_nobody_else() {
        let pool = PoolParams { from: vec!["receiver/main".into()], workers: 1, backlog: 1 };
        let params = ReceiverParams { pools: vec![pool], ..params(2, 0) };
        let mut stage = Experiment::default().build::<Receiver>(&params).expect("it builds");
        let mut ask = |n: u64, from: Option<u32>| {
            let head = Head { from: from.map(ActorId), seq: n, ..Head::default() };
            let payload = Payload::new(10, Payload::RECEIVED, 0);
            stage.tell(at(0), Event::Request { exchange: ExchangeId(n), head: &head, payload: &payload })
        };
        let own = work(&ask(1, Some(1)), 1);
        assert_eq!(ask(2, Some(1)), [], "it waits for its own worker, though others are free");
        assert_eq!(answers(&ask(3, Some(1))), [(3, Status::Rejected)]);
        work(&ask(4, Some(0)), 4);
        let shared = work(&ask(5, None), 5);
        assert_eq!(answers(&ask(6, Some(7))), [(6, Status::Rejected)], "the shared ones are all at work");
        assert_ne!(own, shared);
        let wishes = done(&mut stage, 20, own, WorkResult::Done);
        assert_eq!(answers(&wishes), [(1, Status::Success)]);
        work(&wishes, 2);
        assert_eq!(answers(&done(&mut stage, 20, shared, WorkResult::Done)), [(5, Status::Success)]);
    }

    #[test]
    fn pools_are_checked() {
        let with = |from: &[&str], workers: u32| {
            let pool = PoolParams { from: from.iter().map(|name| (*name).to_owned()).collect(), workers, backlog: 0 };
            ReceiverParams {
                pools: vec![pool.clone(), PoolParams { from: vec!["lab/main".into()], ..pool }],
                ..params(1, 1)
            }
        };
        let refusal = |params: &ReceiverParams| Experiment::default().refusal::<Receiver>(params);
        assert_eq!(refusal(&with(&["nobody/main"], 1)).1, "there is no `nobody/main`; write `node/actor`");
        assert_eq!(refusal(&with(&["receiver/main"], 0)).0, Some("pools"));
        assert_eq!(refusal(&with(&["lab/main"], 1)).1, "a sender has one pool; name it in one `from` only");
    }

    #[test]
    fn addresses_and_workers_are_checked() {
        let listen = |text: &str| ReceiverParams { listen: Some(text.into()), ..ReceiverParams::default() };
        let stage = Experiment::default().build::<Receiver>(&listen("127.0.0.1:8080")).expect("an address");
        let serve = stage.assembly.groups[0].serve.expect("it serves");
        assert_eq!(serve.listen.map(|a| a.port()), Some(8080));
        let (key, reason) = Experiment::default().refusal::<Receiver>(&listen("localhost"));
        assert_eq!(key, Some("listen"));
        assert_eq!(reason, "`localhost` is no address; write for instance `127.0.0.1:8080`");
        let two = Experiment { count: 2, ..Experiment::default() };
        assert_eq!(two.refusal::<Receiver>(&listen("127.0.0.1:8080")).0, Some("listen"));
        assert!(two.build::<Receiver>(&ReceiverParams::default()).is_ok());
        assert_eq!(two.refusal::<Receiver>(&params(0, 1)).0, Some("workers"));
    }
}
