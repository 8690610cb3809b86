//! How near a run came to what its machines have: CPU that others used, descriptors, ports and buffers. For the verdict.

use std::collections::BTreeMap;

use rehearsal_core::messages::{HostSample, Scope};

/// Machines and processes that one node tells of. Assumed: a node speaks for one of each, and a few more after moves.
const KNOWN_MAX: usize = 64;

/// What the samples of one node tell, by what they are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Strain(BTreeMap<(Scope, String), Use>);

/// Sums and extremes of one node, process or machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Use {
    cpu_seconds: u64,
    cpu_sum: f64,
    /// Of machines: what the whole run used.
    run_seconds: u64,
    run_sum: f64,
    /// Most file descriptors, per cent of those there may be.
    pub files_percent: Option<f64>,
    /// Most ephemeral ports, per cent of the range.
    pub ports_percent: Option<f64>,
    /// Datagrams for which a receive buffer had no room.
    pub udp_received: u64,
    /// Datagrams for which a send buffer had no room.
    pub udp_sent: u64,
    /// Segments for which a receive buffer had no room.
    pub tcp_received: u64,
    /// Connections for which a queue of `listen` had no room.
    pub listening: u64,
}

impl Strain {
    /// Adds one sample.
    pub fn add(&mut self, sample: &HostSample) {
        let key = (sample.scope, sample.node.clone());
        if self.0.len() < KNOWN_MAX || self.0.contains_key(&key) {
            self.0.entry(key).or_default().add(sample);
        }
    }

    /// Adds those of another node.
    pub fn merge(&mut self, other: &Strain) {
        for (key, used) in &other.0 {
            self.0.entry(key.clone()).or_default().merge(used);
        }
    }

    /// All that is known.
    pub fn all(&self) -> impl Iterator<Item = (Scope, &str, &Use)> {
        self.0.iter().map(|((scope, name), used)| (*scope, name.as_str(), used))
    }

    /// CPU of all machines, and of it what the run used, in per cent of all their cores; `None` if either is unknown. What
    /// the run used is told of the machine where it can be, for its leader and servers are no nodes; else it is what its
    /// nodes tell.
    pub fn cpu_percent(&self) -> Option<(f64, f64)> {
        let all = |machine: bool, of: fn(&Use) -> Option<f64>| {
            let means = self.all().filter(|(scope, ..)| (*scope == Scope::Machine) == machine);
            means.filter_map(|(.., used)| of(used)).collect::<Vec<f64>>()
        };
        let (machines, nodes) = (all(true, Use::cpu_percent), all(false, Use::cpu_percent));
        let runs = all(true, Use::run_percent);
        let count = machines.len() as f64;
        let mean = |shares: &[f64]| (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / count);
        let run = mean(&runs).filter(|_| runs.len() == machines.len());
        // either may have missed a process that ended
        let own = greater(mean(&nodes), run)?;
        Some((mean(&machines)?, own))
    }
}

impl Use {
    fn add(&mut self, sample: &HostSample) {
        if let Some(percent) = sample.cpu_host_percent.filter(|percent| percent.is_finite()) {
            (self.cpu_seconds, self.cpu_sum) = (self.cpu_seconds + 1, self.cpu_sum + percent);
        }
        if let Some(percent) = sample.cpu_run_percent.filter(|percent| percent.is_finite()) {
            (self.run_seconds, self.run_sum) = (self.run_seconds + 1, self.run_sum + percent);
        }
        let share = |used: Option<u64>, limit: Option<u64>| {
            let (used, limit) = used.zip(limit.filter(|limit| *limit > 0))?;
            Some(used as f64 / limit as f64 * 100.0)
        };
        self.files_percent = greater(self.files_percent, share(sample.open_files, sample.open_files_limit));
        self.ports_percent = greater(self.ports_percent, share(sample.ephemeral_ports, sample.ephemeral_ports_limit));
        for (sum, more) in [
            (&mut self.udp_received, sample.udp_receive_buffer_errors),
            (&mut self.udp_sent, sample.udp_send_buffer_errors),
            (&mut self.tcp_received, sample.tcp_receive_buffer_drops),
            (&mut self.listening, sample.tcp_listen_overflows),
        ] {
            *sum = sum.saturating_add(more.unwrap_or(0));
        }
    }

    fn merge(&mut self, other: &Use) {
        self.cpu_seconds += other.cpu_seconds;
        self.cpu_sum += other.cpu_sum;
        self.run_seconds += other.run_seconds;
        self.run_sum += other.run_sum;
        self.files_percent = greater(self.files_percent, other.files_percent);
        self.ports_percent = greater(self.ports_percent, other.ports_percent);
        for (sum, more) in [
            (&mut self.udp_received, other.udp_received),
            (&mut self.udp_sent, other.udp_sent),
            (&mut self.tcp_received, other.tcp_received),
            (&mut self.listening, other.listening),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    fn cpu_percent(&self) -> Option<f64> {
        (self.cpu_seconds > 0).then(|| self.cpu_sum / self.cpu_seconds as f64)
    }

    fn run_percent(&self) -> Option<f64> {
        (self.run_seconds > 0).then(|| self.run_sum / self.run_seconds as f64)
    }
}

/// The greater of what is known.
fn greater(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_the_machine_used_and_the_run_did_not() {
        let mut strain = Strain::default();
        assert_eq!(strain.cpu_percent(), None);
        let cpu = |scope, percent| HostSample { cpu_host_percent: Some(percent), ..HostSample::of(scope, "x", 0) };
        for (machine, process) in [(80.0, 30.0), (60.0, 10.0)] {
            strain.add(&cpu(Scope::Machine, machine));
            assert!(strain.cpu_percent().is_none() || process < 30.0, "the run's own share is not known yet");
            strain.add(&cpu(Scope::Process, process));
        }
        assert_eq!(strain.cpu_percent(), Some((70.0, 20.0)));
    }

    #[test]
    fn what_leads_a_run_is_none_of_the_others() {
        let mut strain = Strain::default();
        let machine = |run| HostSample {
            cpu_host_percent: Some(80.0),
            cpu_run_percent: run,
            ..HostSample::of(Scope::Machine, "x", 0)
        };
        strain.add(&HostSample { cpu_host_percent: Some(20.0), ..HostSample::of(Scope::Node, "n", 0) });
        strain.add(&machine(None));
        assert_eq!(strain.cpu_percent(), Some((80.0, 20.0)), "no more is known than what nodes tell");
        strain.add(&machine(Some(65.0)));
        assert_eq!(strain.cpu_percent(), Some((80.0, 65.0)));
        strain.add(&HostSample { node: "y".to_owned(), ..machine(None) });
        assert_eq!(strain.cpu_percent(), Some((80.0, 10.0)), "it is unknown of another machine");
    }

    #[test]
    fn shares_are_the_greatest_and_errors_add_up() {
        let sample = |files, errors| HostSample {
            open_files: Some(files),
            open_files_limit: Some(200),
            udp_receive_buffer_errors: errors,
            ..HostSample::of(Scope::Node, "n", 0)
        };
        let (mut one, mut other) = (Strain::default(), Strain::default());
        one.add(&sample(190, Some(3)));
        one.add(&sample(20, None));
        other.add(&sample(10, Some(4)));
        other.merge(&one);
        let all: Vec<_> = other.all().map(|(_, name, used)| (name, used.files_percent, used.udp_received)).collect();
        assert_eq!(all, [("n", Some(95.0), 7)]);
    }
}
