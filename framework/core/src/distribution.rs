//! Distributions as an experiment writes them: of gaps, of sizes, of times of stay.
//!
//! One type for all, over the quantity that is drawn: `Distribution<Span>` reads durations, `Distribution<ByteSize>`
//! sizes. [`Distribution::law`] checks it and turns it into a [`Law`], whose moments follow from closed forms, or from
//! its survival function where it is truncated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Span;
use crate::units::ByteSize;

mod law;
mod special;

use law::EULER;
pub use law::{ACCEPT_MIN, Family, Law, Moments, REJECTIONS_MAX};

/// What can be drawn: it has a unit in its text, and a number behind it.
pub trait Quantity: Copy {
    /// In its base unit: nanoseconds, bytes, pieces.
    fn base(self) -> f64;
}

impl Quantity for Span {
    fn base(self) -> f64 {
        self.as_nanos() as f64
    }
}

impl Quantity for ByteSize {
    fn base(self) -> f64 {
        self.0 as f64
    }
}

/// A bare number: how many of something.
impl Quantity for u32 {
    fn base(self) -> f64 {
        f64::from(self)
    }
}

/// A distribution and its parameters. Which ones it takes depends on `dist`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "Q: Deserialize<'de>", serialize = "Q: Serialize"))]
#[schemars(rename = "DistributionOf{Q}")]
pub struct Distribution<Q> {
    /// Its name.
    pub dist: Name,
    /// The only value of `constant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Q>,
    /// Lower end of `uniform` and `beta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Q>,
    /// Upper end of `uniform` and `beta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Q>,
    /// Mean before truncation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Q>,
    /// Standard deviation of `normal` and `gumbel`, before truncation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<Q>,
    /// The most likely value of `gumbel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Q>,
    /// Median of `lognormal` and `cauchy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Q>,
    /// Scale of `gamma`, `weibull`, `cauchy` and `gumbel`; the least value of `pareto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Q>,
    /// Coefficient of variation before truncation: standard deviation by mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 100))]
    pub cv: Option<f64>,
    /// Shape of `gamma`, `weibull` and `pareto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 10_000))]
    pub shape: Option<f64>,
    /// First shape of `beta`: the larger, the nearer to `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 10_000))]
    pub alpha: Option<f64>,
    /// Second shape of `beta`: the larger, the nearer to `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 10_000))]
    pub beta: Option<f64>,
    /// Standard deviation of the logarithm of `lognormal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 5))]
    pub sigma: Option<f64>,
    /// Nothing below this. Nothing is ever below zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Q>,
    /// Nothing above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Q>,
    /// What becomes of a draw outside `min` and `max`. Needed where there are such draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<Truncate>,
}

impl<Q> Distribution<Q> {
    /// With nothing set but its name.
    pub const fn plain(dist: Name) -> Self {
        Distribution {
            dist,
            value: None,
            low: None,
            high: None,
            mean: None,
            sd: None,
            mode: None,
            median: None,
            scale: None,
            cv: None,
            shape: None,
            alpha: None,
            beta: None,
            sigma: None,
            min: None,
            max: None,
            truncate: None,
        }
    }
}

/// The distributions. Densities and moments: Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions, 2nd ed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Always `value`.
    Constant,
    /// Between `low` and `high`.
    Uniform,
    /// With `mean`.
    Exponential,
    /// With `mean` and `sd` or `cv`; it has negative draws, so it is truncated.
    Normal,
    /// With `mean` and `cv`, or `shape` and `scale`.
    Gamma,
    /// With `shape` and `scale` or `mean`.
    Weibull,
    /// With `shape` and `scale` or `mean`. Up to shape 1 it has no mean, so it is truncated.
    Pareto,
    /// With `mean` and `cv`, or `median` and `sigma`.
    Lognormal,
    /// With `median` and `scale`. It has no mean, so it is truncated.
    Cauchy,
    /// The largest of many values: with `mode` and `scale`, or `mean` and `sd`; it has negative draws, so it is truncated.
    Gumbel,
    /// Between `low` and `high`, with shapes `alpha` and `beta`.
    Beta,
}

/// What becomes of a draw outside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Truncate {
    /// It is moved to the nearer bound, which so gets a share of its own.
    Clamp,
    /// It is drawn again, at most 1,000 times, then clamped.
    Reject,
}

/// Parameters that go together, by distribution.
const TAKES: [(Name, &str, &[&[&str]]); 11] = [
    (Name::Constant, "constant", &[&["value"]]),
    (Name::Uniform, "uniform", &[&["low", "high"]]),
    (Name::Exponential, "exponential", &[&["mean"]]),
    (Name::Normal, "normal", &[&["mean", "sd"], &["mean", "cv"]]),
    (Name::Gamma, "gamma", &[&["mean", "cv"], &["scale", "shape"]]),
    (Name::Weibull, "weibull", &[&["scale", "shape"], &["mean", "shape"]]),
    (Name::Pareto, "pareto", &[&["scale", "shape"], &["mean", "shape"]]),
    (Name::Lognormal, "lognormal", &[&["mean", "cv"], &["median", "sigma"]]),
    (Name::Cauchy, "cauchy", &[&["median", "scale"]]),
    (Name::Gumbel, "gumbel", &[&["mode", "scale"], &["mean", "sd"]]),
    (Name::Beta, "beta", &[&["low", "high", "alpha", "beta"]]),
];

impl Name {
    /// As it is written.
    pub fn word(self) -> &'static str {
        TAKES.iter().find(|(name, ..)| *name == self).map_or("", |(_, word, _)| word)
    }
}

impl<Q: Quantity> Distribution<Q> {
    /// Checks the parameters.
    ///
    /// # Errors
    /// What is wrong with them, and what to write instead.
    pub fn law(&self) -> Result<Law, String> {
        self.takes()?;
        let family = self.family()?;
        family.check()?;
        let bound = |q: Option<Q>| q.map(Quantity::base);
        Law::new(family, bound(self.min), bound(self.max), self.truncate)
    }

    /// Whether the parameters that are there go together.
    fn takes(&self) -> Result<(), String> {
        let there = [
            ("value", self.value.is_some()),
            ("low", self.low.is_some()),
            ("high", self.high.is_some()),
            ("mean", self.mean.is_some()),
            ("sd", self.sd.is_some()),
            ("mode", self.mode.is_some()),
            ("median", self.median.is_some()),
            ("scale", self.scale.is_some()),
            ("cv", self.cv.is_some()),
            ("shape", self.shape.is_some()),
            ("alpha", self.alpha.is_some()),
            ("beta", self.beta.is_some()),
            ("sigma", self.sigma.is_some()),
        ];
        let there: Vec<&str> = there.iter().filter(|(_, is)| *is).map(|(key, _)| *key).collect();
        let (_, word, sets) = TAKES.iter().find(|(name, ..)| *name == self.dist).ok_or("an unknown distribution")?;
        if sets.contains(&there.as_slice()) {
            return Ok(());
        }
        let list = |keys: &[&str]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ");
        let wanted: Vec<String> = sets.iter().map(|keys| list(keys)).collect();
        let has = if there.is_empty() { "none of them".to_owned() } else { list(&there) };
        Err(format!("`{word}` takes {}; this has {has}", wanted.join(", or ")))
    }

    fn family(&self) -> Result<Family, String> {
        let q = |value: Option<Q>| value.map(Quantity::base);
        let [value, low, high, mean, sd] = [self.value, self.low, self.high, self.mean, self.sd].map(q);
        let [median, scale, mode] = [self.median, self.scale, self.mode].map(q);
        let family = match (self.dist, mean, self.cv, self.shape) {
            (Name::Constant, ..) => value.map(Family::Constant),
            (Name::Uniform, ..) => low.zip(high).map(|(low, high)| Family::Uniform { low, high }),
            (Name::Exponential, ..) => mean.map(|mean| Family::Exponential { mean }),
            (Name::Normal, Some(mean), cv, _) => sd.or(cv.map(|cv| cv * mean)).map(|sd| Family::Normal { mean, sd }),
            // shape 1 / cv², scale mean · cv²
            (Name::Gamma, Some(mean), Some(cv), _) => {
                Some(Family::Gamma { shape: 1.0 / (cv * cv), scale: mean * cv * cv })
            }
            (Name::Gamma, _, _, Some(shape)) => scale.map(|scale| Family::Gamma { shape, scale }),
            // mean = scale · Γ(1 + 1 / shape)
            (Name::Weibull, mean, _, Some(shape)) => scale
                .or(mean.map(|mean| mean / special::ln_gamma(1.0 + 1.0 / shape).exp()))
                .map(|scale| Family::Weibull { shape, scale }),
            // mean = scale · shape / (shape − 1)
            (Name::Pareto, Some(_), _, Some(shape)) if shape <= 1.0 => {
                return Err(format!(
                    "a Pareto distribution of shape {shape} has no mean; give its `scale`, and a `max`"
                ));
            }
            (Name::Pareto, mean, _, Some(shape)) => {
                let scale = scale.or(mean.map(|mean| mean * (shape - 1.0) / shape));
                scale.map(|scale| Family::Pareto { shape, scale })
            }
            // σ² = ln(1 + cv²), μ = ln mean − σ² / 2
            (Name::Lognormal, Some(mean), Some(cv), _) => {
                let variance = (cv * cv).ln_1p();
                Some(Family::Lognormal { mu: mean.ln() - variance / 2.0, sigma: variance.sqrt() })
            }
            (Name::Lognormal, ..) => {
                let both = median.zip(self.sigma);
                both.map(|(median, sigma)| Family::Lognormal { mu: median.ln(), sigma })
            }
            (Name::Cauchy, ..) => median.zip(scale).map(|(median, scale)| Family::Cauchy { median, scale }),
            // sd = π / √6 · scale, mean = mode + γ · scale
            (Name::Gumbel, Some(mean), ..) => sd.map(|sd| {
                let scale = sd * 6_f64.sqrt() / std::f64::consts::PI;
                Family::Gumbel { mode: mean - EULER * scale, scale }
            }),
            (Name::Gumbel, ..) => mode.zip(scale).map(|(mode, scale)| Family::Gumbel { mode, scale }),
            (Name::Beta, ..) => low.zip(high).zip(self.alpha.zip(self.beta)).map(|(ends, shapes)| Family::Beta {
                low: ends.0,
                high: ends.1,
                alpha: shapes.0,
                beta: shapes.1,
            }),
            _ => None,
        };
        family.ok_or_else(|| "a parameter is missing".to_owned())
    }
}

#[cfg(test)]
mod tests;
