//! The machines of a run, the processes that nodes share, and what measuring took.

use std::collections::BTreeMap;

use rehearsal_core::messages::{HostSample, Scope};
use serde::{Deserialize, Serialize};

use super::{HostBook, NodeResources};

/// Machines and processes that are known. Assumed: a fleet has some hundreds.
const KNOWN_MAX: usize = 4096;

/// What nodes tell of machines and shared processes. Each is told of by one node: who is first.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    known: BTreeMap<(String, Scope), Spoken>,
    /// What measuring took.
    pub measuring: Measuring,
}

#[derive(Debug)]
struct Spoken {
    by: String,
    book: HostBook,
}

impl Machines {
    /// Whether a sample is the one to tell; adds it if it is of a measured second.
    pub fn add(&mut self, by: &str, sample: &HostSample, measured: bool) -> bool {
        let key = (sample.node.clone(), sample.scope);
        if sample.scope == Scope::Node || (self.known.len() >= KNOWN_MAX && !self.known.contains_key(&key)) {
            return false;
        }
        let fresh = || Spoken { by: by.to_owned(), book: HostBook::default() };
        let spoken = self.known.entry(key).or_insert_with(fresh);
        if spoken.by != by {
            return false;
        }
        if measured {
            spoken.book.add(sample);
        }
        true
    }

    /// What they came to, by name.
    pub fn resources(&self) -> Vec<NodeResources> {
        let of = |((name, scope), spoken): (&(String, Scope), &Spoken)| {
            Some(NodeResources { scope: *scope, ..spoken.book.resources(name)? })
        };
        self.known.iter().filter_map(of).collect()
    }
}

/// What measuring took: reading the kernel's files and encoding the histograms of each second, in all processes of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measuring {
    /// Seconds that were completed, of each thread that runs nodes.
    pub samples: u64,
    /// Time of all of them together, ns.
    pub wall_ns: u64,
    /// The longest, ns.
    pub wall_ns_max: u64,
    /// CPU time of all of them together, ns.
    pub cpu_ns: u64,
    /// CPU time in each second of traffic, ns: 10,000,000 is one per cent of a core.
    pub cpu_ns_per_second: Option<f64>,
    /// Time in each second of traffic, ns.
    pub wall_ns_per_second: Option<f64>,
}

impl Measuring {
    /// Adds what a node tells.
    pub fn add(&mut self, sample: &HostSample) {
        if let Some((wall_ns, cpu_ns)) = sample.measuring_ns.zip(sample.measuring_cpu_ns) {
            self.samples += 1;
            self.wall_ns = self.wall_ns.saturating_add(wall_ns);
            self.wall_ns_max = self.wall_ns_max.max(wall_ns);
            self.cpu_ns = self.cpu_ns.saturating_add(cpu_ns);
        }
    }

    /// The same for a run with so many seconds of traffic; `None` if nobody measured.
    pub fn over(self, seconds: f64) -> Option<Measuring> {
        let each = |ns: u64| (seconds > 0.0).then(|| ns as f64 / seconds);
        let (cpu_ns_per_second, wall_ns_per_second) = (each(self.cpu_ns), each(self.wall_ns));
        (self.samples > 0).then_some(Measuring { cpu_ns_per_second, wall_ns_per_second, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_of_by_one_node() {
        let mut machines = Machines::default();
        let sample = |scope, second| HostSample { steal_percent: Some(2.0), ..HostSample::of(scope, "lab", second) };
        assert!(machines.add("a", &sample(Scope::Machine, 0), false), "told, but before the measured seconds");
        assert!(machines.add("a", &sample(Scope::Machine, 1), true));
        assert!(!machines.add("b", &sample(Scope::Machine, 1), true), "another node of the same machine");
        assert!(machines.add("b", &sample(Scope::Process, 1), true));
        assert!(!machines.add("a", &sample(Scope::Node, 1), true));
        let all: Vec<_> = machines.resources().into_iter().map(|r| (r.node, r.scope, r.seconds)).collect();
        assert_eq!(all, [("lab".to_owned(), Scope::Process, 1), ("lab".to_owned(), Scope::Machine, 1)]);
    }

    #[test]
    fn what_measuring_takes_is_stated_per_second() {
        let sample =
            |ns| HostSample { measuring_ns: Some(ns), measuring_cpu_ns: Some(ns / 2), ..HostSample::default() };
        let mut measuring = Measuring::default();
        assert_eq!(measuring.over(10.0), None);
        [100, 300, 200].into_iter().for_each(|ns| measuring.add(&sample(ns)));
        measuring.add(&HostSample::default());
        let over = measuring.over(10.0).unwrap();
        assert_eq!((over.samples, over.wall_ns, over.wall_ns_max, over.cpu_ns), (3, 600, 300, 300));
        assert_eq!((over.cpu_ns_per_second, over.wall_ns_per_second), (Some(30.0), Some(60.0)));
        assert_eq!(measuring.over(0.0).unwrap().cpu_ns_per_second, None);
    }
}
