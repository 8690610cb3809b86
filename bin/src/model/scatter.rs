//! How a model's traffic varies over time: GenSyn's plot of variance against block length, from a trial without a network.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::rng::Seed;
use rehearsal_core::{RngStream, Span};
use rehearsal_models::diagram::Chain;
use rehearsal_models::diagram::figures::Trial;
use rehearsal_stats::ndarray::Array1;
use rehearsal_stats::variance_time as of_series;

use crate::exit::UsageError;

/// A bin of the series, as GenSyn has it, and how many there are. Assumed: 22 min, in which an eighth of a second can be told.
const BIN: Span = Span::from_millis(10);
const BINS: u64 = 1 << 17;
/// The slope is taken from blocks of a tenth of a second on: below it is the codec's own interval.
const FROM: usize = 16;
/// Level of confidence of the Hurst parameter.
const LEVEL: f64 = 0.95;

/// Normalised variances by block length, and the Hurst parameter.
pub(super) fn variance_time(chain: &Arc<Chain>, users: u32) -> Result<String> {
    let seed = Seed { seed: 1, repetition: 0, group: "model", member: 0, stream: 0, purpose: "variance-time" };
    let (trial, bins) = Trial::binned(chain, users, BIN.saturating_mul(BINS), BIN, RngStream::new(seed));
    if !trial.complete {
        return Err(UsageError(format!("{users} users send too much for a trial; ask for fewer")).into());
    }
    let found =
        of_series(Array1::from(bins).view(), FROM).map_err(|why| UsageError(format!("{users} users: {why}")))?;
    let mut text = format!("\n{:<12} {:>20}  {users} users, {BINS} bins of {BIN}\n", "block", "normalised variance");
    for (length, share) in &found.points {
        let block = BIN.saturating_mul(*length as u64).as_secs_f64();
        let _ = writeln!(text, "{:<12} {share:>20.6}", format!("{block:.2} s"));
    }
    let interval = found.interval(LEVEL, 1).map_err(|why| UsageError(why.to_string()))?;
    let _ = writeln!(
        text,
        "Hurst parameter {:.3}, {:.0} % interval {:.3} to {:.3} (variance over time, blocks of 0.16 s and longer; a trial held \
         against {} series of fractional Gaussian noise)",
        interval.hurst,
        LEVEL * 100.0,
        interval.lower,
        interval.upper,
        interval.replicates
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Poisson messages have no memory at all.
    #[test]
    fn poisson_messages_have_no_memory() {
        let file = format!("{}/../configs/models/sba-pdusession.toml", env!("CARGO_MANIFEST_DIR"));
        let model = rehearsal_scenario::load_model(Path::new(&file)).unwrap_or_else(|errors| panic!("{errors}"));
        let chain = Arc::new(Chain::new(&model).expect("a chain"));
        let text = variance_time(&chain, 1).expect("enough traffic");
        let hurst: f64 =
            text.split("Hurst parameter ").nth(1).and_then(|t| t.split(',').next()?.parse().ok()).expect("H");
        assert!((hurst - 0.5).abs() < 0.1, "{text}");
    }
}
