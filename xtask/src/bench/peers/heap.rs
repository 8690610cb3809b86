//! A bare loop over the standard library's heap, with the pops, pushes and draws of the crowd: no actors, no engine.
//! Arguments: devices, seconds of virtual time. One line of JSON goes to stdout.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs;

use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoroshiro128PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const SECOND: u64 = 1_000_000_000;
const LINK: u64 = 5_000_000;
const MESSAGE: u64 = 100_000;
const LOAD: f64 = 0.8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Done,
    Outcome,
    Request,
    Message,
    Arrival,
    Tick,
}

type Entry = Reverse<(u64, u64, Kind, u32)>;

/// The devices, their worker and their queue.
pub struct Crowd {
    queue: BinaryHeap<Entry>,
    pushed: u64,
    rngs: Vec<Xoroshiro128PlusPlus>,
    serves: Xoroshiro128PlusPlus,
    backlog: VecDeque<u32>,
    busy: bool,
    mean: f64,
    outcomes: u64,
    messages: u64,
}

impl Crowd {
    /// So many devices.
    pub fn new(devices: u32) -> Self {
        let rngs = (0..devices).map(|n| Xoroshiro128PlusPlus::seed_from_u64(u64::from(n))).collect();
        let mut crowd = Crowd {
            queue: BinaryHeap::new(),
            pushed: 0,
            rngs,
            serves: Xoroshiro128PlusPlus::seed_from_u64(u64::MAX),
            backlog: VecDeque::with_capacity(1024),
            busy: false,
            mean: SECOND as f64 * LOAD / f64::from(devices),
            outcomes: 0,
            messages: 0,
        };
        for device in 0..devices {
            let first = crowd.gap(device);
            let phase = crowd.rngs[device as usize].next_u64() % SECOND;
            crowd.push(first, Kind::Arrival, device);
            crowd.push(phase, Kind::Tick, device);
        }
        crowd
    }

    fn push(&mut self, at: u64, kind: Kind, device: u32) {
        self.pushed += 1;
        self.queue.push(Reverse((at, self.pushed, kind, device)));
    }

    fn gap(&mut self, device: u32) -> u64 {
        let x: f64 = Exp1.sample(&mut self.rngs[device as usize]);
        (x * SECOND as f64) as u64 + 1
    }

    fn serve(&mut self, now: u64, device: u32) {
        let x: f64 = Exp1.sample(&mut self.serves);
        self.push(now + (x * self.mean) as u64 + 1, Kind::Done, device);
    }

    /// Runs until that time, ns; how many events that were.
    pub fn run(&mut self, until: u64) -> u64 {
        let mut events = 0;
        while let Some(Reverse((now, _, kind, device))) = self.queue.pop() {
            events += 1;
            match kind {
                Kind::Arrival => {
                    self.push(now + LINK, Kind::Request, device);
                    let gap = self.gap(device);
                    self.push(now + gap, Kind::Arrival, device);
                }
                Kind::Request if self.busy => self.backlog.push_back(device),
                Kind::Request => {
                    self.busy = true;
                    self.serve(now, device);
                }
                Kind::Done => {
                    self.push(now + LINK, Kind::Outcome, device);
                    match self.backlog.pop_front() {
                        Some(next) => self.serve(now, next),
                        None => self.busy = false,
                    }
                }
                Kind::Outcome => self.outcomes += 1,
                Kind::Tick => {
                    self.push(now + MESSAGE, Kind::Message, device);
                    self.push(now + SECOND, Kind::Tick, device);
                }
                Kind::Message => self.messages += 1,
            }
            if now >= until {
                break;
            }
        }
        events
    }
}

/// CPU time of this thread, seconds.
pub fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// The most memory that this process had so far, bytes.
pub fn memory_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) * 1024.0
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("a whole number"));
    let (devices, seconds) = (args.next().expect("devices"), args.next().expect("seconds"));
    let empty = memory_bytes();
    let mut crowd = Crowd::new(devices);
    crowd.run(u64::from(seconds / 5) * SECOND);
    let (before, outcomes) = (cpu_seconds(), crowd.outcomes);
    let events = crowd.run(u64::from(seconds) * SECOND);
    let cpu = cpu_seconds() - before;
    let bytes = (memory_bytes() - empty) / f64::from(devices);
    let requests = crowd.outcomes - outcomes;
    println!("{{\"events\":{events},\"requests\":{requests},\"cpu_seconds\":{cpu},\"bytes_per_device\":{bytes:.1}}}");
}
