//! Percentiles of all repetitions together. They come from the merged histograms of every second, never from the
//! percentiles of the repetitions: an average of those is the percentile of nothing.

use hdrhistogram::Histogram;
use rehearsal_export::{Bundle, ExportError, Percentiles, merge_latency};
use serde::Serialize;

/// Response times of all repetitions together.
#[derive(Clone, Debug, Serialize)]
pub struct Pooled {
    /// The metric.
    pub metric: &'static str,
    /// Repetitions whose measured seconds are merged.
    pub repetitions: usize,
    /// What they came to.
    #[serde(flatten)]
    pub percentiles: Percentiles,
}

/// The response times of all repetitions; `None` where there are fewer than two, or none has any.
///
/// # Errors
/// When a log cannot be read.
pub fn response(bundles: &[Bundle]) -> Result<Option<Pooled>, ExportError> {
    const METRIC: &str = "response";
    if bundles.len() < 2 {
        return Ok(None);
    }
    let mut all: Option<Histogram<u64>> = None;
    for bundle in bundles {
        let window = bundle.summary.window;
        let measured = u64::from(window.from_second)..u64::from(window.to_second);
        let own = |metric: &str, second| metric == METRIC && (!window.trimmed || measured.contains(&second));
        let merged = merge_latency(&bundle.path, |i| own(i.metric, i.second).then(|| METRIC.to_owned()))?;
        for histogram in merged.into_values() {
            match &mut all {
                // both have the shape of every log
                Some(all) => _ = all.add(&histogram),
                None => all = Some(histogram),
            }
        }
    }
    let percentiles = all.as_ref().and_then(Percentiles::of);
    Ok(percentiles.map(|percentiles| Pooled { metric: METRIC, repetitions: bundles.len(), percentiles }))
}

impl Pooled {
    /// One line of a report.
    pub fn text(&self) -> String {
        let ms = |stat: &str| {
            self.percentiles.stat(stat).map_or("too few values".to_owned(), |ns| format!("{:.3} ms", ns / 1e6))
        };
        format!(
            "all {} repetitions together, {} values in one histogram: {} p50 {}, p99 {}, p99.9 {}",
            self.repetitions,
            self.percentiles.count,
            self.metric,
            ms("p50"),
            ms("p99"),
            ms("p999")
        )
    }
}
