//! One node's cores by themselves: customers come, are served or turned away, and go.

use rehearsal_core::rng::{RngStream, Seed};
use rehearsal_core::{Span, Time};
use rehearsal_models::compute::{Allowance, Cores, Lane};

/// A mean service, ns.
pub const UNIT: f64 = 1e6;

/// How long a service takes, in units; each has mean 1.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    Exponential,
    Fixed,
    /// 0.5 in nine cases of ten, 5.5 in the tenth: E[S²] = 3.25.
    Bimodal,
}

impl Service {
    pub fn draw(self, random: &mut RngStream) -> f64 {
        match self {
            Service::Exponential => random.exponential(Span::from_nanos(UNIT as u64)).as_nanos() as f64,
            Service::Fixed => UNIT,
            Service::Bimodal => UNIT * if random.unit() < 0.9 { 0.5 } else { 5.5 },
        }
    }
}

/// A queue: who serves, how many, how, and what has room.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    pub cores: u32,
    /// First come, first served; or all at once.
    pub fifo: bool,
    /// Customers that have room, those in service among them.
    pub room: usize,
    pub service: Service,
}

/// A customer that was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Customer {
    pub came: u64,
    pub work: f64,
    /// `None` if it was turned away.
    pub left: Option<u64>,
}

impl Customer {
    /// Time in system, units.
    pub fn time(&self) -> Option<f64> {
        Some((self.left? - self.came) as f64 / UNIT)
    }
}

pub fn random(seed: u64, purpose: &str) -> RngStream {
    RngStream::new(Seed { seed, repetition: 0, group: "theory", member: 0, stream: 0, purpose })
}

/// Times at which `count` customers come, `load` of them per unit of time on average.
pub fn poisson(seed: u64, load: f64, count: usize) -> Vec<u64> {
    let mut random = random(seed, "arrivals");
    let mean = Span::from_nanos((UNIT / load) as u64);
    let mut at = 0;
    let mut next = || {
        at += random.exponential(mean).as_nanos();
        at
    };
    (0..count).map(|_| next()).collect()
}

impl Station {
    pub fn new(cores: u32, fifo: bool, service: Service) -> Self {
        Station { cores, fifo, room: usize::MAX, service }
    }

    pub fn cores<T>(&self) -> Cores<T> {
        let work = if self.fifo { self.cores } else { u32::MAX };
        Cores::new(Allowance { cores: Some(self.cores), work, ..Allowance::UNLIMITED })
    }

    /// What becomes of customers that come at these times; and the core time that was used.
    pub fn serve(&self, seed: u64, arrivals: &[u64]) -> (Vec<Customer>, f64) {
        let mut random = random(seed, "services");
        let mut cores: Cores<usize> = self.cores();
        let mut all: Vec<Customer> = Vec::with_capacity(arrivals.len());
        let mut end = Time::ZERO;
        loop {
            let came = arrivals.get(all.len()).map(|at| Time::from_nanos(*at));
            // whoever is done at this instant has left before the next one comes
            match (cores.next(), came) {
                (Some(next), came) if came.is_none_or(|came| next <= came) => {
                    end = next;
                    if let Some(who) = cores.pop(next) {
                        all[who].left = Some(next.as_nanos());
                    }
                }
                (_, Some(came)) => {
                    let work = self.service.draw(&mut random);
                    if cores.pieces() < self.room {
                        cores.submit(came, Lane::Work, work, all.len());
                    }
                    all.push(Customer { came: came.as_nanos(), work, left: None });
                }
                (_, None) => return (all, cores.busy(end)),
            }
        }
    }

    /// The same, of `count` customers that come by chance.
    pub fn run(&self, seed: u64, load: f64, count: usize) -> Vec<Customer> {
        self.serve(seed, &poisson(seed, load, count)).0
    }
}
