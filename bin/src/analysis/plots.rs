//! The points of a report's plots: rate over time, times by percentile, CPU load against rate, and memory over time.

use rehearsal_export::{Bundle, ExportError, merge_latency};

use super::nodes::{NodeSeries, Role};
use super::users::delays::{Curves, curves as delays};

/// Curves over time that are drawn of each role: one for each repetition, the first ones.
const REPETITIONS_MAX: usize = 10;
/// Points of one curve over time; longer runs are averaged.
const CURVE_POINTS_MAX: usize = 600;
/// Points of a cloud; of more every second, third, … is drawn.
const CLOUD_POINTS_MAX: usize = 4_000;
/// Percentiles are drawn at so many steps of each factor of ten towards 100 %.
const STEPS_PER_DECADE: f64 = 20.0;
/// Metrics whose percentiles are drawn, in the order of a legend.
const METRICS: [&str; 7] = ["response", "service", "handling", "lag", "one-way", "inter-departure", "jitter"];

/// A curve or cloud.
pub type Points = Vec<(f64, f64)>;

/// All points of one report.
#[derive(Clone, Debug, Default)]
pub struct Plots {
    /// Requests per second of all receivers, and of all senders, over seconds since the start of traffic; one curve for
    /// each repetition.
    pub received: Vec<Points>,
    /// Likewise of senders.
    pub sent: Vec<Points>,
    /// Seconds that one point of these is the mean of.
    pub seconds_per_point: usize,
    /// By metric: share of values below, 0 to 1, and the value in ns; all repetitions merged, measured seconds only.
    pub spectrum: Vec<(&'static str, Points)>,
    /// CPU load, %, against rate of the first receiver, without ramps.
    pub steady: Points,
    /// The same in the ramps.
    pub ramps: Points,
    /// Only every so-manieth point of the clouds is there.
    pub cloud_step: usize,
    /// Resident memory of nodes over time, MB, in the first repetition.
    pub memory: Vec<(String, Points)>,
    /// Delays of each sending actor.
    pub delays: Vec<Curves>,
}

/// The points of a group's repetitions. `ranges` are the seconds without ramps.
///
/// # Errors
/// When a bundle's histograms cannot be read.
pub fn of(bundles: &[Bundle], series: &[Vec<NodeSeries>], ranges: &[(usize, usize)]) -> Result<Plots, ExportError> {
    let longest = series.iter().flatten().map(|node| node.rate.len()).max().unwrap_or(0);
    let per_point = longest.div_ceil(CURVE_POINTS_MAX).max(1);
    let curves = |role| series.iter().take(REPETITIONS_MAX).filter_map(|nodes| curve(nodes, role, per_point)).collect();
    let (mut steady, mut ramps) = (Points::new(), Points::new());
    for (nodes, (from, to)) in series.iter().zip(ranges) {
        if let Some(receiver) = nodes.iter().find(|node| node.role == Role::Receiver) {
            for second in 0..receiver.rate.len() {
                let point = (receiver.rate[second], receiver.cpu_percent[second]);
                let into = if (*from..*to).contains(&second) { &mut steady } else { &mut ramps };
                into.extend((point.0.is_finite() && point.1.is_finite()).then_some(point));
            }
        }
    }
    let cloud_step = (steady.len() + ramps.len()).div_ceil(CLOUD_POINTS_MAX).max(1);
    let thin = |cloud: Points| cloud.into_iter().step_by(cloud_step).collect();
    Ok(Plots {
        received: curves(Role::Receiver),
        sent: curves(Role::Sender),
        seconds_per_point: per_point,
        spectrum: spectrum(bundles)?,
        steady: thin(steady),
        ramps: thin(ramps),
        cloud_step,
        delays: delays(bundles)?,
        memory: series.first().map(|nodes| memory(nodes, per_point)).unwrap_or_default(),
    })
}

/// The sum over nodes of a role; a second that one of them does not know is left out.
fn curve(nodes: &[NodeSeries], role: Role, per_point: usize) -> Option<Points> {
    let nodes: Vec<&NodeSeries> = nodes.iter().filter(|node| node.role == role).collect();
    // the last second is seldom a whole one, and would look like a fall
    let seconds = nodes.first()?.rate.len();
    let sums: Vec<f64> = (0..seconds.saturating_sub(1).max(1).min(seconds))
        .map(|second| nodes.iter().map(|node| node.rate[second]).sum())
        .collect();
    Some(averaged(&sums, per_point))
}

fn memory(nodes: &[NodeSeries], per_point: usize) -> Vec<(String, Points)> {
    let megabytes = |node: &NodeSeries| node.memory_bytes.iter().map(|bytes| bytes / 1e6).collect::<Vec<f64>>();
    let curves = nodes.iter().map(|node| (node.node.clone(), averaged(&megabytes(node), per_point)));
    curves.filter(|(_, points)| !points.is_empty()).collect()
}

/// Means of so many seconds each, at their middle; what is unknown is left out.
fn averaged(values: &[f64], per_point: usize) -> Points {
    let mean = |(at, chunk): (usize, &[f64])| {
        let known: Vec<f64> = chunk.iter().copied().filter(|value| value.is_finite()).collect();
        let middle = at as f64 * per_point as f64 + chunk.len() as f64 / 2.0;
        (!known.is_empty()).then(|| (middle, known.iter().sum::<f64>() / known.len() as f64))
    };
    values.chunks(per_point).enumerate().filter_map(mean).collect()
}

fn spectrum(bundles: &[Bundle]) -> Result<Vec<(&'static str, Points)>, ExportError> {
    let mut curves = Vec::new();
    let mut merged = std::collections::BTreeMap::new();
    for bundle in bundles {
        let (from, to) = (u64::from(bundle.summary.window.from_second), u64::from(bundle.summary.window.to_second));
        let found = merge_latency(&bundle.path, |interval| {
            let drawn = METRICS.contains(&interval.metric) && from <= interval.second && interval.until <= to;
            drawn.then(|| interval.metric.to_owned())
        })?;
        for (metric, histogram) in found {
            merged
                .entry(metric)
                .and_modify(|all: &mut hdrhistogram::Histogram<u64>| {
                    all.add(&histogram).expect("all histograms of the project have one shape");
                })
                .or_insert(histogram);
        }
    }
    for metric in METRICS {
        if let Some(histogram) = merged.get(metric).filter(|h| !h.is_empty()) {
            curves.push((metric, percentiles(histogram)));
        }
    }
    Ok(curves)
}

/// As far as the number of values reaches: 99.9 % takes a thousand.
pub fn percentiles(histogram: &hdrhistogram::Histogram<u64>) -> Points {
    let decades = (histogram.len() as f64).log10();
    let steps = (decades * STEPS_PER_DECADE) as u32;
    let shares = (0..=steps).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / STEPS_PER_DECADE));
    shares.map(|share| (share, histogram.value_at_quantile(share) as f64)).collect()
}

#[cfg(test)]
mod tests {
    use rehearsal_core::parts::ledger::histogram;

    use super::*;

    #[test]
    fn long_curves_are_averaged_and_gaps_left_out() {
        let values = [1.0, 3.0, f64::NAN, 5.0, f64::NAN, f64::NAN, 7.0];
        assert_eq!(averaged(&values, 2), [(1.0, 2.0), (3.0, 5.0), (6.5, 7.0)]);
        assert_eq!(averaged(&values[..2], 1), [(0.5, 1.0), (1.5, 3.0)]);
    }

    #[test]
    fn percentiles_go_no_further_than_the_values() {
        let mut h = histogram();
        (1..=1000).for_each(|ms| h.record(ms * 1_000_000).expect("below an hour"));
        let points = percentiles(&h);
        let (share, _) = points[points.len() - 1];
        assert!((share - 0.999).abs() < 1e-9 && points.len() == 61);
        let median = points.iter().find(|(share, _)| *share > 0.49).expect("a median").1;
        assert!((480e6..530e6).contains(&median));
    }
}
