//! The paper's Tables 2 and 3 from bundles: what runs came to over repetitions, and CPU load against rate.

use rehearsal_core::parts::tally::Tally;
use rehearsal_export::Bundle;
use rehearsal_export::summary::{Measures, Rates};
use rehearsal_stats::ndarray::Array1;
use rehearsal_stats::{Bootstrap, Correlation, Described, Line, Method, Pair, Resampled, StatsError};
use serde::Serialize;

use super::nodes::{NodeSeries, Pairs, Role, steady};

/// The fewest seconds of a repetition whose correlation is told. Assumed: below, one odd second decides it.
pub const SECONDS_MIN: usize = 10;

/// A row of Table 2 and its like.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// What it came to.
    #[serde(flatten)]
    pub described: Described,
}

/// CPU load of one node against its rate.
#[derive(Clone, Debug, Serialize)]
pub struct NodeRow {
    /// The node instance.
    pub node: String,
    /// What it does.
    pub role: Role,
    /// Mean CPU load without ramps, %; `None` if it is unknown.
    pub cpu_percent: Option<Described>,
    /// Mean resident memory without ramps, bytes.
    pub memory_bytes: Option<Described>,
    /// The widest spread of memory in any repetition without ramps, 95th less 5th percentile, as a share of its median.
    pub memory_spread: Option<f64>,
    /// The same as a share of the node's limit, or of its host's memory where it has none.
    pub memory_spread_of_limit: Option<f64>,
    /// All seconds of traffic.
    pub all: Related,
    /// Without ramps.
    pub steady: Related,
}

/// CPU load against rate over some seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Related {
    /// It can be told.
    Known(Box<Relation>),
    /// It cannot.
    Unknown {
        /// Seconds of all repetitions in which both are known.
        n: usize,
        /// Why.
        why: String,
    },
}

/// Coefficients over repetitions.
#[derive(Clone, Debug, Serialize)]
pub struct Relation {
    /// Seconds of all repetitions.
    pub n: usize,
    /// Pearson's r.
    pub pearson: Coefficient,
    /// Spearman's ρ.
    pub spearman: Coefficient,
    /// CPU load, %, on rate, 1/s: one line for each repetition.
    pub lines: Vec<Line>,
    /// How much the rate varies in the repetition where it does most, 95th less 5th percentile, 1/s; `None` if half of
    /// a repetition's seconds are idle.
    pub rate_spread: Option<f64>,
    /// The same as a share of the median.
    pub rate_spread_share: Option<f64>,
}

/// One coefficient over repetitions.
#[derive(Clone, Debug, Serialize)]
pub struct Coefficient {
    /// Mean over repetitions.
    pub r: f64,
    /// Its interval by a moving block bootstrap in each repetition.
    pub interval: Resampled,
    /// Student's interval of the repetitions; no half width for a single one.
    pub repetitions: Described,
    /// As many independent seconds would tell as much, all repetitions together.
    pub effective_n: f64,
    /// The largest p-value of a repetition, by the t test on its seconds, as the paper gives it.
    pub p: f64,
    /// The largest p-value on the effective number of seconds; `None` where a repetition has too few.
    pub p_effective: Option<f64>,
}

impl Related {
    /// The coefficients, if they can be told.
    pub fn known(&self) -> Option<&Relation> {
        match self {
            Related::Known(relation) => Some(relation),
            Related::Unknown { .. } => None,
        }
    }
}

/// Duration, rates, success, losses and response times over repetitions.
///
/// # Errors
/// When `level` is out of range.
pub fn figures(bundles: &[Bundle], level: f64) -> Result<Vec<Figure>, StatsError> {
    type Of = fn(&Bundle) -> Option<f64>;
    let all: [(&'static str, &'static str, Of); 14] = [
        ("duration", "s", |b| Some(b.summary.duration_seconds)),
        ("rate of receivers", "1/s", |b| rate(b, "receiver", |r| r.served, |r| r.received)),
        ("rate of senders", "1/s", |b| rate(b, "sender", |r| r.success, |r| r.sent)),
        ("success", "%", |b| share(b.summary.total.judged(), |t| t.success)),
        ("lost", "%", |b| share(b.summary.total.judged(), |t| t.lost)),
        ("lost exchanges", "", |b| sends(b).then_some(b.summary.total.judged().lost as f64)),
        ("response p50", "ms", |b| time_ms(b, "response", "p50")),
        ("response p99", "ms", |b| time_ms(b, "response", "p99")),
        ("inter-departure p50", "ms", |b| time_ms(b, "inter-departure", "p50")),
        ("inter-departure p99", "ms", |b| time_ms(b, "inter-departure", "p99")),
        ("response jitter p50", "ms", |b| jitter_ms(b, false, "p50")),
        ("response jitter p99", "ms", |b| jitter_ms(b, false, "p99")),
        ("datagram jitter p50", "ms", |b| jitter_ms(b, true, "p50")),
        ("datagram jitter p99", "ms", |b| jitter_ms(b, true, "p99")),
    ];
    let mut figures = Vec::new();
    for (name, unit, of) in all {
        let values: Option<Vec<f64>> = bundles.iter().map(of).collect();
        if let Some(values) = values.filter(|v| !v.is_empty()) {
            figures.push(Figure { name, unit, described: Described::of(Array1::from(values).view(), level)? });
        }
    }
    Ok(figures)
}

/// Of all groups of a role: answered ones, or datagrams, which nobody answers.
fn rate(b: &Bundle, role: &str, answered: fn(&Rates) -> f64, datagrams: fn(&Rates) -> f64) -> Option<f64> {
    let groups: Vec<_> = b.summary.groups.iter().filter(|g| g.role == role).collect();
    let of = |m: &Measures| if m.has_datagrams() { datagrams(&m.per_second) } else { answered(&m.per_second) };
    (!groups.is_empty()).then(|| groups.iter().map(|g| of(&g.measures)).sum())
}

fn sends(b: &Bundle) -> bool {
    b.summary.groups.iter().any(|g| g.role == "sender")
}

/// Of the exchanges that were settled in the measured seconds, as thresholds have it: what came due in them is another
/// population, since some of it is settled later.
fn share(t: &Tally, of: fn(&Tally) -> u64) -> Option<f64> {
    let settled = [t.success, t.invalid, t.failed, t.lost].iter().fold(0, |n: u64, m| n.saturating_add(*m));
    (settled > 0).then(|| 100.0 * of(t) as f64 / settled as f64)
}

fn time_ms(b: &Bundle, metric: &str, stat: &str) -> Option<f64> {
    b.summary.total.metrics.get(metric)?.stat(stat).map(|ns| ns / 1e6)
}

/// The metric `jitter` is RFC 3550's estimate over what a group sees: of whole response times at a sender, of one way at
/// a receiver of datagrams. They are told apart here; of a run that has both, the histograms would be mixed.
fn jitter_ms(b: &Bundle, of_datagrams: bool, stat: &str) -> Option<f64> {
    let has = |role: &str| {
        let mut groups = b.summary.groups.iter().filter(|g| g.role == role);
        groups.any(|g| g.measures.metrics.contains_key("jitter"))
    };
    (has("receiver") == of_datagrams && has("sender") != of_datagrams).then(|| time_ms(b, "jitter", stat))?
}

/// One node in all repetitions: its bundle beside its series.
pub type Repetitions<'a> = Vec<(&'a Bundle, &'a NodeSeries)>;

/// The row of one node. `ramp` is how many seconds are left out at each end; `None` leaves it to the experiment.
pub fn node_row(repetitions: &Repetitions<'_>, ramp: Option<usize>, draw: &Bootstrap) -> NodeRow {
    let first = repetitions[0].1;
    let all: Vec<Pairs> = repetitions.iter().map(|(_, series)| series.pairs(0, usize::MAX)).collect();
    let ranges: Vec<(usize, usize)> = repetitions.iter().map(|(bundle, _)| steady(bundle, ramp)).collect();
    let cut = repetitions.iter().zip(&ranges);
    let middle: Vec<Pairs> = cut.clone().map(|((_, series), (from, to))| series.pairs(*from, *to)).collect();
    let over = |column: fn(&NodeSeries) -> &[f64]| -> Vec<Vec<f64>> {
        let known = |((_, series), (from, to)): (&(_, &NodeSeries), &(usize, usize))| {
            let column = column(series);
            let to = (*to).min(column.len());
            column[(*from).min(to)..to].iter().copied().filter(|value| value.is_finite()).collect()
        };
        cut.clone().map(known).collect()
    };
    let memory = over(|series| &series.memory_bytes);
    NodeRow {
        node: first.node.clone(),
        role: first.role,
        cpu_percent: mean(&over(|series| &series.cpu_percent), draw.level),
        memory_bytes: mean(&memory, draw.level),
        memory_spread: widest(&memory, |low, middle, high| (high - low) / middle),
        memory_spread_of_limit: widest(&over(|series| &series.memory_percent), |low, _, high| (high - low) / 100.0),
        all: related(&all, draw),
        steady: related(&middle, draw),
    }
}

/// The means of repetitions; `None` if one knows nothing.
fn mean(repetitions: &[Vec<f64>], level: f64) -> Option<Described> {
    let mean = |seconds: &Vec<f64>| Array1::from(seconds.clone()).mean();
    let means: Option<Array1<f64>> = repetitions.iter().map(mean).collect();
    Described::of(means?.view(), level).ok()
}

/// The largest over repetitions of a measure of 5th percentile, median and 95th percentile; `None` if one knows nothing.
fn widest(repetitions: &[Vec<f64>], of: fn(f64, f64, f64) -> f64) -> Option<f64> {
    let spread = |seconds: &Vec<f64>| {
        let mut sorted = seconds.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied();
        let (low, middle, high) = (at(0.05)?, at(0.5)?, at(0.95)?);
        (middle > 0.0).then(|| of(low, middle, high))
    };
    repetitions.iter().map(spread).collect::<Option<Vec<_>>>().map(largest)
}

fn largest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn related(repetitions: &[Pairs], draw: &Bootstrap) -> Related {
    let shortest = repetitions.iter().map(|pairs| pairs.cpu.len()).min().unwrap_or(0);
    let n = repetitions.iter().map(|pairs| pairs.cpu.len()).sum();
    let unknown = |why: String| Related::Unknown { n, why };
    if n == 0 {
        return unknown("the CPU load or the rate is not known in any second".to_owned());
    }
    if shortest < SECONDS_MIN {
        return unknown(format!("{shortest} seconds are too few, at least {SECONDS_MIN} are needed"));
    }
    relation(repetitions, draw)
        .map_or_else(|why| unknown(why.to_string()), |relation| Related::Known(Box::new(relation)))
}

fn relation(repetitions: &[Pairs], draw: &Bootstrap) -> Result<Relation, StatsError> {
    let lines: Result<Vec<Line>, _> = repetitions.iter().map(|p| Line::fit(p.rate.view(), p.cpu.view())).collect();
    let rates: Vec<Vec<f64>> = repetitions.iter().map(|pairs| pairs.rate.to_vec()).collect();
    Ok(Relation {
        n: repetitions.iter().map(|pairs| pairs.cpu.len()).sum(),
        pearson: coefficient(Method::Pearson, repetitions, draw)?,
        spearman: coefficient(Method::Spearman, repetitions, draw)?,
        lines: lines?,
        rate_spread: widest(&rates, |low, _, high| high - low),
        rate_spread_share: widest(&rates, |low, middle, high| (high - low) / middle),
    })
}

fn coefficient(method: Method, repetitions: &[Pairs], draw: &Bootstrap) -> Result<Coefficient, StatsError> {
    let views: Vec<Pair<'_>> = repetitions.iter().map(|p| (p.rate.view(), p.cpu.view())).collect();
    let each: Result<Vec<Correlation>, _> = views.iter().map(|(x, y)| Correlation::of(method, *x, *y)).collect();
    let each = each?;
    let described = Described::of(each.iter().map(|c| c.r).collect::<Array1<f64>>().view(), draw.level)?;
    Ok(Coefficient {
        r: described.mean,
        interval: draw.mean_correlation(method, &views)?,
        repetitions: described,
        effective_n: each.iter().map(|c| c.effective_n).sum(),
        p: largest(each.iter().map(|c| c.p).collect()),
        p_effective: each.iter().map(|c| c.p_effective).collect::<Option<Vec<_>>>().map(largest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_settled() {
        // three of the successes came due before the measured seconds
        let window = Tally { generated: 2280, success: 2283, ..Tally::default() };
        assert_eq!(share(&window, |t| t.success), Some(100.0));
        let window =
            Tally { generated: 99, success: 97, lost: 1, failed: 1, invalid: 1, aborted: 7, ..Tally::default() };
        assert_eq!((share(&window, |t| t.success), share(&window, |t| t.lost)), (Some(97.0), Some(1.0)));
        assert_eq!(share(&Tally::default(), |t| t.lost), None);
    }
}
