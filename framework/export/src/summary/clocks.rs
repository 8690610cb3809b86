//! Hosts with clocks of their own: what is known of them, how far apart nodes began, and which delays between hosts can be
//! told at all.

use rehearsal_core::messages::Metric;
use serde::{Deserialize, Serialize};

use super::{Measures, Summary};
use crate::meta::Clock;

/// An agent's host and its clock, as it was read before, during and after the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostClock {
    /// The agent that spoke for the host.
    pub agent: String,
    /// Node instances that ran on it.
    pub nodes: Vec<String>,
    /// Its CLOCK_MONOTONIC less the leader's, by which the run's times were translated, ns; 0 where both read one clock.
    pub offset_ns: Option<i64>,
    /// Largest error of that, drift included: half the shortest round trip and what the clocks moved, ns.
    pub uncertainty_ns: Option<u64>,
    /// It gains on the leader's, parts per billion; `None` if that is below the uncertainty.
    pub drift_ppb: Option<i64>,
    /// How often it was read.
    pub readings: u32,
    /// Whether it is the leader's own clock.
    pub one_clock: bool,
    /// What the kernel counts, such as `tsc`; empty if unknown.
    pub source: String,
}

/// When one node began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    /// The node instance.
    pub node: String,
    /// It woke up so long after the agreed start, by the leader's clock, ns.
    pub late_ns: u64,
}

/// Takes out the one-way delays that the clocks cannot tell: those whose median is not above the uncertainty. What a reader
/// should know of it.
pub(crate) fn withhold(summary: &mut Summary, clock: Clock) -> Option<String> {
    let limit = match clock {
        Clock::One => return None,
        Clock::Measured { uncertainty_ns } => uncertainty_ns,
        Clock::Unknown => u64::MAX,
    };
    let groups = summary.groups.iter_mut().map(|group| &mut group.measures);
    let templates = summary.templates.iter_mut().map(|template| &mut template.measures);
    let measures = groups.chain(templates).chain([&mut summary.total]);
    let withheld = measures.map(|measures| take(measures, limit)).filter(|taken| *taken).count();
    let why = match clock {
        Clock::Measured { uncertainty_ns } => {
            format!("their median is not above the clocks' uncertainty of {:.1} µs", uncertainty_ns as f64 / 1e3)
        }
        _ => "the hosts' clock offsets are unknown".to_owned(),
    };
    (withheld > 0).then(|| format!("one-way delays are left out: {why}"))
}

fn take(measures: &mut Measures, limit_ns: u64) -> bool {
    let name = Metric::OneWay.name();
    let doubtful = measures.metrics.get(name).is_some_and(|delay| delay.p50_ns <= limit_ns);
    doubtful && measures.metrics.remove(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentiles::Percentiles;

    fn summary(p50_ns: u64) -> Summary {
        let delay = Percentiles { p50_ns, ..Percentiles::default() };
        let metrics = [("one-way".to_owned(), delay.clone()), ("response".to_owned(), delay)].into();
        Summary { total: Measures { metrics, ..Measures::default() }, ..Summary::default() }
    }

    #[test]
    fn a_delay_below_the_uncertainty_is_not_claimed() {
        let kept = |p50, clock| {
            let mut summary = summary(p50);
            let note = withhold(&mut summary, clock);
            assert!(summary.total.metrics.contains_key("response"), "only one-way delays need two clocks");
            assert_eq!(note.is_none(), summary.total.metrics.contains_key("one-way"));
            note
        };
        assert_eq!(kept(100, Clock::One), None);
        assert_eq!(kept(100_001, Clock::Measured { uncertainty_ns: 100_000 }), None);
        let note = kept(100_000, Clock::Measured { uncertainty_ns: 100_000 }).expect("left out");
        assert!(note.contains("100.0 µs"), "{note}");
        assert!(kept(u64::MAX, Clock::Unknown).expect("left out").contains("unknown"));
    }
}
