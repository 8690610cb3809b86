//! The same through the whole engine: a test actor sends requests by chance over a link that takes no time, another
//! computes on its node's cores and answers.

use std::sync::{Arc, Mutex};

use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::calibration::{Calibration, Scheduling};
use rehearsal_core::kind::{BuildError, GroupContext, Role, Targets, Wiring};
use rehearsal_core::messages::{HostSample, StartAt};
use rehearsal_core::plan::by_hand::built;
use rehearsal_core::plan::{GroupPlan, HostPlan, LinkSpec, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sink::{Sink, SinkError};
use rehearsal_core::subject::Plane;
use rehearsal_core::{
    Actor, Body, Event, ExchangeId, Outbox, Payload, Pool, RecipeId, Reply, Request, RngStream, Span, Status,
    SubjectId, Time, TimerKey, Token, Work, WorkKey,
};
use rehearsal_sim::{SimOptions, Simulation};

use crate::formulas::{erlang_b, mg1_wait, mm1_time, mm1k_loss, mmc_wait};
use crate::interval::{check, mean, settled};
use crate::station::{Service, UNIT};

const COUNT: u64 = 30_000;

/// One experiment: who serves, and what is offered.
#[derive(Clone, Copy, Debug)]
struct Bench {
    cores: u32,
    vcpu: f64,
    scheduling: Scheduling,
    /// Requests that have room at the receiver.
    room: u32,
    service: Service,
    /// Requests per unit of time.
    load: f64,
    calibrated: bool,
}

/// What came of it.
struct Outcome {
    /// In the order of their ends: time in system, or `None` if it was turned away.
    times: Vec<Option<f64>>,
    samples: Vec<HostSample>,
    /// Core time that the receiver asked for, ns.
    asked: u64,
    /// Integral over time of the requests that the receiver has, and the time that requests spent there.
    little: (u128, u128),
    end: RunEnd,
}

#[derive(Debug, Default)]
struct Seen {
    times: Vec<Option<f64>>,
    samples: Vec<HostSample>,
    asked: u64,
    number: u64,
    last: Time,
    integral: u128,
    spent: u128,
}

type Shared = Arc<Mutex<Seen>>;

/// Sends by chance, and announces the start.
struct Source {
    to: Targets,
    recipe: RecipeId,
    gap: Span,
    random: RngStream,
    left: u64,
    start: SubjectId,
    seen: Shared,
}

impl Actor for Source {
    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Start => {
                out.publish(self.start, StartAt { at: now, until: None });
                out.set_timer(TimerKey(0), now + self.random.exponential(self.gap));
            }
            Event::Timer { due, .. } => {
                self.left -= 1;
                out.request(Request {
                    to: self.to.base,
                    token: Token(0),
                    stream: 0,
                    seq: self.left,
                    attempt: 0,
                    last: true,
                    intended: due,
                    at: due,
                    deadline: Span::MAX,
                    limit: Span::ZERO,
                    reply_bytes: 0,
                    payload: Payload::new(100, self.recipe, 0),
                });
                if self.left > 0 {
                    out.set_timer(TimerKey(0), due + self.random.exponential(self.gap));
                }
            }
            Event::Outcome { outcome, .. } => {
                let time = outcome.times.done.since(outcome.times.intended).as_nanos() as f64 / UNIT;
                let time = (outcome.status == Status::Success).then_some(time);
                self.seen.lock().expect("nobody panics with it").times.push(time);
            }
            _ => {}
        }
    }
}

/// Computes for each request that has room.
struct Server {
    bench: Bench,
    random: RngStream,
    here: Vec<(u64, ExchangeId, Time)>,
    next: u64,
    seen: Shared,
}

impl Server {
    /// The number of requests here changes.
    fn count(&self, now: Time) {
        let mut seen = self.seen.lock().expect("nobody panics with it");
        seen.integral += u128::from(now.since(seen.last).as_nanos()) * u128::from(seen.number);
        (seen.last, seen.number) = (now, self.here.len() as u64);
    }
}

impl Actor for Server {
    fn timers(&self) -> u32 {
        0
    }

    fn handle(&mut self, now: Time, event: Event<'_>, out: &mut Outbox) {
        match event {
            Event::Request { exchange, .. } => {
                if self.here.len() >= self.bench.room as usize {
                    out.respond(exchange, Reply { status: Status::Rejected, payload: Payload::EMPTY });
                    return;
                }
                let spin = Span::from_nanos(self.bench.service.draw(&mut self.random) as u64);
                self.here.push((self.next, exchange, now));
                self.count(now);
                self.seen.lock().expect("nobody panics with it").asked += spin.as_nanos();
                out.work(WorkKey(self.next), Work::Analyze { exchange, decode: false, pause: Span::ZERO, spin });
                self.next += 1;
            }
            Event::WorkDone { key, .. } => {
                let place = self.here.iter().position(|(number, ..)| *number == key.0).expect("it is here");
                let (_, exchange, came) = self.here.swap_remove(place);
                self.count(now);
                self.seen.lock().expect("nobody panics with it").spent += u128::from(now.since(came).as_nanos());
                out.respond(exchange, Reply { status: Status::Success, payload: Payload::EMPTY });
            }
            _ => {}
        }
    }
}

/// Reads the samples of the receiver's node.
struct Reader(Shared);

impl Actor for Reader {
    fn handle(&mut self, _: Time, event: Event<'_>, _: &mut Outbox) {
        if let Event::Message { body, .. } = event
            && let Ok(sample) = body.get::<HostSample>()
        {
            self.0.lock().expect("nobody panics with it").samples.push(sample.into_owned());
        }
    }
}

fn node(
    name: &str,
    role: Role,
    build: impl Fn(&GroupContext<'_>, &mut dyn Wiring) -> Result<Box<dyn Pool>, BuildError> + Send + Sync + 'static,
) -> NodePlan {
    NodePlan::by_hand(name, vec![GroupPlan::by_hand("main", role, 1, built(build))])
}

#[derive(Debug)]
struct Nothing;

impl rehearsal_core::Recipe for Nothing {
    fn content_type(&self) -> &'static str {
        "text/plain"
    }
    fn render(&self, _: rehearsal_core::payload::RenderContext, _: &mut bytes::BytesMut) {
        unreachable!("a simulation renders nothing")
    }
}

struct NoSink;

impl Sink for NoSink {
    fn store(&mut self, _: &Body) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Bench {
    fn new(cores: u32, scheduling: Scheduling, service: Service, load: f64) -> Self {
        let vcpu = f64::from(cores);
        Bench { cores, vcpu, scheduling, room: u32::MAX, service, load, calibrated: true }
    }

    fn nodes(self, seen: &Shared) -> Vec<NodePlan> {
        let [sender, server, reader] = [seen, seen, seen].map(Arc::clone);
        let source = node("source", Role::Sender, move |_, wiring| {
            Ok(Box::new(vec![Source {
                to: wiring.target("server/main")?,
                recipe: wiring.recipe(Arc::new(Nothing)),
                gap: Span::from_nanos((UNIT / self.load) as u64),
                random: wiring.rng(0, 0, "arrivals"),
                left: COUNT,
                start: wiring.own(Plane::Control, "start"),
                seen: sender.clone(),
            }]))
        });
        let mut queue = node("server", Role::Receiver, move |_, wiring| {
            wiring.serve(None);
            let (random, seen) = (wiring.rng(0, 0, "services"), server.clone());
            Ok(Box::new(vec![Server { bench: self, random, here: Vec::new(), next: 0, seen }]))
        });
        (queue.host, queue.vcpu) = (Some(0), Some(self.vcpu));
        let reader = node("reader", Role::Service, move |_, wiring| {
            wiring.subscribe("lab.v1.*.tel.server.host")?;
            Ok(Box::new(vec![Reader(reader.clone())]))
        });
        vec![source, queue, reader]
    }

    fn run(self, seed: u64) -> Outcome {
        let seen = Shared::default();
        let info = RunInfo { grace: Span::from_secs(1), ..RunInfo::by_hand("t", Stop::AllRequestsDone) };
        let host = HostPlan {
            name: "host".to_owned(),
            cores: self.cores,
            memory: None,
            labels: Default::default(),
            agent: None,
        };
        let plan = Plan { seed, hosts: vec![host], ..Plan::by_hand(info, self.nodes(&seen), LinkSpec::default()) };
        let mut free = Calibration::free("nothing costs anything");
        free.cpu.scheduling = self.scheduling;
        let calibration = self.calibrated.then(|| Arc::new(free));
        let options = SimOptions { calibration, ..SimOptions::default() };
        let assembly = Assembly::build(plan, &mut NoMedia).expect("a plan of ours can be built");
        let end = Simulation::new(assembly, options).run(&mut NoSink, &mut |_| {});
        let Seen { times, samples, asked, integral, spent, .. } =
            std::mem::take(&mut *seen.lock().expect("nobody panicked with it"));
        assert_eq!(times.len() as u64, COUNT, "each request has one end");
        Outcome { times, samples, asked, little: (integral, spent), end }
    }
}

fn time(outcome: &Outcome) -> f64 {
    mean(settled(&outcome.times).iter().filter_map(|time| *time))
}

fn lost(outcome: &Outcome) -> f64 {
    mean(settled(&outcome.times).iter().map(|time| f64::from(u8::from(time.is_none()))))
}

#[test]
fn queues_come_out_of_the_engine() {
    use Scheduling::{Fifo, Sharing};
    use Service::{Bimodal, Exponential, Fixed};
    let bench = Bench::new;
    check("M/M/1", mm1_time(0.7), 0.07, |seed| time(&bench(1, Fifo, Exponential, 0.7).run(seed)));
    check("M/D/1", mg1_wait(0.7, 1.0) + 1.0, 0.05, |seed| time(&bench(1, Fifo, Fixed, 0.7).run(seed)));
    check("M/M/4", mmc_wait(4, 3.0) + 1.0, 0.05, |seed| time(&bench(4, Fifo, Exponential, 3.0).run(seed)));
    check("M/G/1-PS", mm1_time(0.7), 0.12, |seed| time(&bench(1, Sharing, Bimodal, 0.7).run(seed)));
    let five = Bench { room: 5, ..bench(5, Fifo, Exponential, 4.0) };
    check("M/M/5/5", erlang_b(5, 4.0), 0.06, |seed| lost(&five.run(seed)));
    let ten = Bench { room: 10, ..bench(1, Fifo, Exponential, 0.9) };
    check("M/M/1/10", mm1k_loss(0.9, 10), 0.2, |seed| lost(&ten.run(seed)));
}

#[test]
fn without_a_calibration_nothing_is_known_and_cores_are_shared() {
    let plain = Bench { calibrated: false, ..Bench::new(1, Scheduling::Sharing, Service::Exponential, 0.7) };
    let known = Bench { calibrated: true, ..plain };
    let (plain, known) = (plain.run(1), known.run(1));
    // to the nanosecond that the end of a shared piece of work is rounded by
    let same = |(a, b): (&Option<f64>, &Option<f64>)| a.zip(*b).is_some_and(|(a, b)| (a - b).abs() * UNIT < 1.5);
    assert!(plain.times.iter().zip(&known.times).all(same), "costs of nothing change nothing");
    assert!(plain.samples.iter().all(|s| s.cpu_percent.is_none() && s.memory_bytes.is_none()));
    assert!(known.samples.iter().all(|s| s.memory_bytes.is_some() && s.throttled_ns == Some(0)));
    assert!(!plain.samples.is_empty());
}

#[test]
fn littles_law_and_utilisation_are_exact_in_the_engine() {
    for scheduling in [Scheduling::Fifo, Scheduling::Sharing] {
        let outcome = Bench { room: 20, ..Bench::new(2, scheduling, Service::Exponential, 1.9) }.run(4);
        assert_eq!(outcome.little.0, outcome.little.1, "{scheduling:?}");
        let tally = |group: usize| outcome.end.groups[group].tally;
        let (source, server) = (tally(0), tally(1));
        assert_eq!((source.generated, source.success + source.rejected), (COUNT, COUNT));
        assert_eq!((server.received, server.served, server.turned_away), (COUNT, source.success, source.rejected));
        assert!(server.turned_away > 0);
        // per cent of two cores over a second each; the last sample is of what is left
        let percents: Vec<f64> = outcome.samples.iter().filter_map(|s| s.cpu_percent).collect();
        assert!(percents.len() > 10, "one for each second");
        let whole: f64 = percents.iter().map(|percent| percent * 2.0 / 100.0).sum();
        let asked = outcome.asked as f64 / 1e9;
        // what is done after the last second is in no sample, if that is less than half of one; the end of each piece of
        // work is rounded by a nanosecond
        let rest = asked - whole;
        assert!((-(COUNT as f64) / 1e9..=1.0).contains(&rest), "{whole} s of {asked} s");
        assert!(percents.iter().all(|percent| *percent <= 100.0 + 1e-9));
    }
}

/// A quota of half a core over periods of 100 ms: the same work takes twice as long, in bursts, and the samples say so.
#[test]
fn a_quota_holds_a_node_back() {
    let free = Bench::new(4, Scheduling::Sharing, Service::Fixed, 0.48).run(1);
    let held = Bench { vcpu: 0.5, ..Bench::new(4, Scheduling::Sharing, Service::Fixed, 0.48) }.run(1);
    let throttled = |o: &Outcome| o.samples.iter().filter_map(|s| s.throttled_ns).sum::<u64>();
    assert_eq!(throttled(&free), 0);
    assert!(throttled(&held) > 0);
    assert!(time(&held) > 3.0 * time(&free), "{} and {}", time(&held), time(&free));
    assert!((held.asked as i64 - free.asked as i64).abs() == 0);
    let most = held.samples.iter().filter_map(|s| s.cpu_percent).fold(0.0, f64::max);
    // ten periods, and no more than their quotas
    assert!((80.0..=100.0 + 1e-6).contains(&most), "{most}");
}
