//! The crowd on nexosim, on one thread: a model for each device, one for the receiver, one for who gathers counters.
//! Arguments: devices, seconds of virtual time. One line of JSON goes to stdout.
//!
//! What travels is delayed by its sender, which spares a model for each link.

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::Output;
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoroshiro128PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

const LINK: Duration = Duration::from_millis(5);
const MESSAGE: Duration = Duration::from_micros(100);
const SECOND: Duration = Duration::from_secs(1);
const LOAD: f64 = 0.8;

/// Events of the model, as all peers count them.
static EVENTS: AtomicU64 = AtomicU64::new(0);
static OUTCOMES: AtomicU64 = AtomicU64::new(0);

fn count() {
    EVENTS.fetch_add(1, Ordering::Relaxed);
}

fn exponential(rng: &mut Xoroshiro128PlusPlus, mean: f64) -> Duration {
    let x: f64 = Exp1.sample(rng);
    Duration::from_nanos((x * mean) as u64 + 1)
}

#[derive(Serialize, Deserialize)]
struct Sensor {
    number: u32,
    rng: Xoroshiro128PlusPlus,
    requests: Output<u32>,
    counters: Output<u64>,
    sent: u64,
    success: u64,
}

#[Model]
impl Sensor {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        let first = exponential(&mut self.rng, 1e9);
        let phase = Duration::from_nanos(u64::from(self.number) * 7_919_017 % 1_000_000_000 + 1);
        cx.schedule_event(first, schedulable!(Self::arrival), ()).expect("the future");
        cx.schedule_event(phase, schedulable!(Self::tick), ()).expect("the future");
    }

    #[nexosim(schedulable)]
    fn arrival(&mut self, _: (), cx: &Context<Self>) {
        count();
        self.sent += 1;
        cx.schedule_event(LINK, schedulable!(Self::leave), ()).expect("the future");
        let gap = exponential(&mut self.rng, 1e9);
        cx.schedule_event(gap, schedulable!(Self::arrival), ()).expect("the future");
    }

    #[nexosim(schedulable)]
    async fn leave(&mut self, _: ()) {
        self.requests.send(self.number).await;
    }

    #[nexosim(schedulable)]
    fn tick(&mut self, _: (), cx: &Context<Self>) {
        count();
        cx.schedule_event(MESSAGE, schedulable!(Self::tell), ()).expect("the future");
        cx.schedule_event(SECOND, schedulable!(Self::tick), ()).expect("the future");
    }

    #[nexosim(schedulable)]
    async fn tell(&mut self, _: ()) {
        self.counters.send(self.sent).await;
    }

    pub fn outcome(&mut self, _: u32) {
        count();
        OUTCOMES.fetch_add(1, Ordering::Relaxed);
        self.success += 1;
    }
}

#[derive(Serialize, Deserialize)]
struct Receiver {
    rng: Xoroshiro128PlusPlus,
    mean: f64,
    busy: bool,
    backlog: VecDeque<u32>,
    replies: Vec<Output<u32>>,
}

#[Model]
impl Receiver {
    pub fn request(&mut self, from: u32, cx: &Context<Self>) {
        count();
        if std::mem::replace(&mut self.busy, true) {
            self.backlog.push_back(from);
        } else {
            self.begin(from, cx);
        }
    }

    fn begin(&mut self, from: u32, cx: &Context<Self>) {
        let span = exponential(&mut self.rng, self.mean);
        cx.schedule_event(span, schedulable!(Self::done), from).expect("the future");
    }

    #[nexosim(schedulable)]
    fn done(&mut self, from: u32, cx: &Context<Self>) {
        count();
        cx.schedule_event(LINK, schedulable!(Self::reply), from).expect("the future");
        match self.backlog.pop_front() {
            Some(next) => self.begin(next, cx),
            None => self.busy = false,
        }
    }

    #[nexosim(schedulable)]
    async fn reply(&mut self, to: u32) {
        self.replies[to as usize].send(to).await;
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Gatherer {
    generated: u64,
}

#[Model]
impl Gatherer {
    pub fn counters(&mut self, generated: u64) {
        count();
        self.generated += generated;
    }
}

/// CPU time of this thread, seconds.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// The most memory that this process had so far, bytes.
fn memory_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) * 1024.0
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("a whole number"));
    let (devices, seconds) = (args.next().expect("devices"), args.next().expect("seconds"));
    let empty = memory_bytes();
    let (receives, gathers) = (Mailbox::new(), Mailbox::new());
    let mut bench = SimInit::with_num_threads(1);
    let rng = |seed| Xoroshiro128PlusPlus::seed_from_u64(seed);
    let mean = 1e9 * LOAD / f64::from(devices);
    let mut receiver =
        Receiver { rng: rng(u64::MAX), mean, busy: false, backlog: VecDeque::new(), replies: Vec::new() };
    for number in 0..devices {
        let (mut requests, mut counters, mut reply) = (Output::default(), Output::default(), Output::default());
        let mailbox = Mailbox::new();
        requests.connect(Receiver::request, &receives);
        counters.connect(Gatherer::counters, &gathers);
        reply.connect(Sensor::outcome, &mailbox);
        receiver.replies.push(reply);
        let sensor = Sensor { number, rng: rng(u64::from(number)), requests, counters, sent: 0, success: 0 };
        bench = bench.add_model(sensor, mailbox, "sensor");
    }
    bench = bench.add_model(receiver, receives, "receiver").add_model(Gatherer::default(), gathers, "gatherer");
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("a bench of ours");
    simulation.step_until(Duration::from_secs(u64::from(seconds / 5))).expect("it runs");
    let read = || (EVENTS.load(Ordering::Relaxed), OUTCOMES.load(Ordering::Relaxed), cpu_seconds());
    let first = read();
    simulation.step_until(Duration::from_secs(u64::from(seconds - seconds / 5))).expect("it runs");
    let last = read();
    let (events, requests, cpu) = (last.0 - first.0, last.1 - first.1, last.2 - first.2);
    let bytes = (memory_bytes() - empty) / f64::from(devices);
    println!("{{\"events\":{events},\"requests\":{requests},\"cpu_seconds\":{cpu},\"bytes_per_device\":{bytes:.1}}}");
}
