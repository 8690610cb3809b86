//! Whether rates have a long memory: the Hurst parameter by variance and time, where a run is long enough.

use rehearsal_stats::hurst::{DRIFT_SHARE_MIN, HurstInterval, VarianceTime, variance_time};
use rehearsal_stats::ndarray::Array1;
use serde::Serialize;

use super::super::nodes::{NodeSeries, Role};
use super::How;

/// Shortest blocks that the slope is taken from, seconds: the series has no shorter ones.
const FROM: usize = 1;

/// The rate of all senders, or of all receivers, in one repetition.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Whose.
    pub role: Role,
    /// Which repetition, from 1.
    pub repetition: usize,
    /// What variance and time say, if they can.
    #[serde(flatten)]
    pub found: Option<VarianceTime>,
    /// Where the parameter lies.
    pub interval: Option<HurstInterval>,
    /// Why nothing can be told.
    pub why: Option<String>,
}

impl Memory {
    /// A line of a report; none where nothing can be told.
    pub fn text(&self) -> Option<String> {
        let (found, interval) = (self.found.as_ref()?, self.interval.as_ref()?);
        let longest = found.points.last().map_or(1, |(length, _)| *length);
        let trend = if interval.is_stationary() {
            String::new()
        } else {
            format!(
                "; its halves differ as in less than {:.0} % of such series: that is a trend",
                DRIFT_SHARE_MIN * 100.0
            )
        };
        Some(format!(
            "Hurst parameter of the {}s' rate in repetition {}: {:.2}, {:.0} % interval {:.2} to {:.2} (variance of blocks of {} to \
             {longest} s, {} seconds, held against {} series of fractional Gaussian noise; of a stationary load){trend}",
            self.role.word(),
            self.repetition,
            interval.hurst,
            interval.level * 100.0,
            interval.lower,
            interval.upper,
            found.from,
            found.samples,
            interval.replicates,
        ))
    }
}

/// Senders and receivers of each repetition.
pub fn of(series: &[Vec<NodeSeries>], ranges: &[(usize, usize)], how: &How) -> Vec<Memory> {
    let mut all = Vec::new();
    for (at, (nodes, (from, to))) in series.iter().zip(ranges).enumerate() {
        for role in [Role::Sender, Role::Receiver] {
            let nodes: Vec<&NodeSeries> = nodes.iter().filter(|node| node.role == role).collect();
            let Some(first) = nodes.first() else { continue };
            let seconds = (*from).min(*to)..(*to).min(first.rate.len());
            let rate: Array1<f64> =
                seconds.map(|second| nodes.iter().map(|node| node.rate[second]).sum::<f64>()).collect();
            all.push(one(role, at + 1, &rate, how));
        }
    }
    all
}

fn one(role: Role, repetition: usize, rate: &Array1<f64>, how: &How) -> Memory {
    let told = variance_time(rate.view(), FROM).and_then(|found| {
        let interval = found.interval(how.level, how.seed)?;
        Ok((found, interval))
    });
    match told {
        Ok((found, interval)) => Memory { role, repetition, found: Some(found), interval: Some(interval), why: None },
        Err(why) => Memory { role, repetition, found: None, interval: None, why: Some(why.to_string()) },
    }
}
