//! Frames of a gamma-beta autoregressive process: each is a part of the one before and something new.
//!
//! X(n) = A(n) · X(n−1) + B(n), where A ~ Beta(α, β−α) and B ~ Gamma(β−α, λ) are independent of each other and of what was.
//! Then every X ~ Gamma(β, λ), as a Gamma(β) times a Beta(α, β−α) is a Gamma(α), and frames k apart have the correlation
//! (α/β)^k. Source: Heyman, "The GBAR source model for VBR videoconferences", IEEE/ACM Transactions on Networking 5(4), 1997.

use rand_distr::{Beta, Gamma};
use rehearsal_core::distribution::{Distribution, Name};
use rehearsal_core::units::ByteSize;
use rehearsal_core::{BuildError, RngStream};

use super::module::{Kind, Module};

/// Largest frame, bytes. Assumed: the largest payload that a model may ask for.
const BYTES_MAX: f64 = (64 << 20) as f64;
/// Largest mean, bytes: sizes have no bound of their own, and frames beyond the largest must be too rare to be seen.
const MEAN_MAX: u64 = 1 << 20;
/// Least coefficient of variation. Assumed: what varies less is as good as constant.
const CV_MIN: f64 = 0.01;
/// Largest correlation of a frame and the next. Assumed: half an hour at 25 frames/s until it is forgotten.
const CORRELATION_MAX: f64 = 0.9999;

/// How a frame follows from the one before.
#[derive(Debug)]
pub(super) struct Gbar {
    kept: Beta<f64>,
    new: Gamma<f64>,
}

/// The law of one frame by itself, if it is of this kind.
pub(super) fn frames(module: &Module) -> Option<Distribution<ByteSize>> {
    let is = module.kind == Kind::Gbar;
    is.then(|| Distribution { mean: module.bytes, cv: module.cv, ..Distribution::plain(Name::Gamma) })
}

impl Gbar {
    /// Of a module, if it is of this kind.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn of(module: &Module) -> Result<Option<Gbar>, BuildError> {
        let (Kind::Gbar, Some(mean), Some(cv), Some(correlation)) =
            (module.kind, module.bytes, module.cv, module.correlation)
        else {
            return Ok(None);
        };
        let refused = |why: &dyn std::fmt::Display| BuildError::of("diagram", format!("`gbar` cannot be drawn: {why}"));
        let beta = 1.0 / (cv * cv);
        let (alpha, scale) = (correlation * beta, mean.0 as f64 / beta);
        let kept = Beta::new(alpha, beta - alpha).map_err(|why| refused(&why))?;
        let new = Gamma::new(beta - alpha, scale).map_err(|why| refused(&why))?;
        Ok(Some(Gbar { kept, new }))
    }

    /// The frame after one of that size, bytes.
    pub fn next(&self, size: f64, rng: &mut RngStream) -> f64 {
        let kept: f64 = rng.sample(&self.kept);
        let new: f64 = rng.sample(&self.new);
        kept * size + new
    }

    /// A size in whole bytes.
    pub fn bytes(&self, size: f64) -> u32 {
        size.round().clamp(1.0, BYTES_MAX) as u32
    }
}

impl Module {
    /// What is wrong with the keys of `gbar`: the key and the reason.
    pub(super) fn gbar_fault(&self) -> Option<(&'static str, String)> {
        if self.kind != Kind::Gbar {
            return None;
        }
        if self.bytes.is_some_and(|mean| mean.0 > MEAN_MAX) {
            return Some(("bytes", "frames have at most 1MiB in the mean".to_owned()));
        }
        if self.cv.is_some_and(|cv| !(CV_MIN..=2.0).contains(&cv)) {
            return Some(("cv", format!("it is from {CV_MIN} to 2")));
        }
        let likely = |correlation: f64| correlation > 0.0 && correlation <= CORRELATION_MAX;
        if self.correlation.is_some_and(|correlation| !likely(correlation)) {
            return Some(("correlation", format!("it is above 0 and at most {CORRELATION_MAX}")));
        }
        None
    }
}
