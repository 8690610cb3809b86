//! A checked distribution: its moments, its survival function, its bounds.

use super::Truncate;
use super::special::{beta_i, gamma_q, ln_gamma, normal_survival};

/// The least share of draws within the bounds that rejection is allowed with. Assumed: with 1,000 tries, fewer than one
/// draw in 10^45 is then clamped.
pub const ACCEPT_MIN: f64 = 0.1;
/// Tries of one draw by rejection.
pub const REJECTIONS_MAX: u32 = 1_000;
/// Largest parameter, in nanoseconds or bytes. Assumed: a year; no size comes near it.
const BASE_MAX: f64 = 366.0 * 86_400e9;
/// Steps of the integral of a survival function over the logarithm. Assumed: its error is then below 1e-6.
const STEPS: u32 = 8_000;
/// Euler's constant. Source: DLMF 5.2.3.
pub(super) const EULER: f64 = 0.577_215_664_901_532_9;
/// Where a survival function is taken as ended: its part of the second moment.
const TAIL: f64 = 1e-13;

/// A distribution with parameters in base units: nanoseconds, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// One value.
    Constant(f64),
    /// Between both.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Gaussian.
    Normal {
        /// Mean before truncation.
        mean: f64,
        /// Standard deviation before truncation.
        sd: f64,
    },
    /// Mean shape · scale.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Survival exp(−(x / scale)^shape).
    Weibull {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Survival (scale / x)^shape above the scale.
    Pareto {
        /// Shape.
        shape: f64,
        /// Scale, the least value.
        scale: f64,
    },
    /// Its logarithm is normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Survival ½ − atan((x − median) / scale) / π.
    Cauchy {
        /// Median.
        median: f64,
        /// Half the distance of the quartiles.
        scale: f64,
    },
    /// Survival 1 − exp(−exp(−(x − mode) / scale)): the extreme-value distribution of type I.
    Gumbel {
        /// The most likely value.
        mode: f64,
        /// Scale.
        scale: f64,
    },
    /// Density in proportion to (x − low)^(alpha − 1) · (high − x)^(beta − 1).
    Beta {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// First shape.
        alpha: f64,
        /// Second shape.
        beta: f64,
    },
}

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Mean, base units.
    pub mean: f64,
    /// Standard deviation, base units; infinite where it does not exist.
    pub sd: f64,
}

impl Moments {
    /// Coefficient of variation.
    pub fn cv(&self) -> f64 {
        self.sd / self.mean
    }
}

/// A distribution within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    family: Family,
    min: f64,
    max: f64,
    truncate: Option<Truncate>,
    moments: Moments,
}

impl Family {
    /// Whether its parameters are of use.
    pub(super) fn check(&self) -> Result<(), String> {
        let positive = |what: &str, value: f64| match value {
            value if value > 0.0 && value <= BASE_MAX => Ok(()),
            _ => Err(format!("{what} must be above zero, and at most a year or as many bytes as that has nanoseconds")),
        };
        let shape = |shape: f64| match shape {
            // 1 / cv² of the cv that are allowed
            shape if (1e-4..=1e4).contains(&shape) => Ok(()),
            _ => Err("`shape` must be from 0.01 to 10000, and `cv` from 0.01 to 100".to_owned()),
        };
        match *self {
            Family::Constant(value) => positive("`value`", value),
            Family::Uniform { low, high } if low < high => positive("`high`", high),
            Family::Uniform { .. } => Err("`low` must be below `high`".to_owned()),
            Family::Exponential { mean } => positive("`mean`", mean),
            Family::Normal { mean, sd } => positive("`mean`", mean).and_then(|()| positive("`sd`", sd)),
            Family::Gamma { shape: k, scale } => shape(k).and_then(|()| positive("the scale", scale)),
            Family::Weibull { shape: k, scale } if k >= 0.1 => shape(k).and_then(|()| positive("the scale", scale)),
            Family::Weibull { .. } => Err("`shape` of `weibull` must be at least 0.1".to_owned()),
            Family::Pareto { shape: k, scale } => shape(k).and_then(|()| positive("the scale", scale)),
            Family::Lognormal { mu, sigma } => {
                let spread = sigma > 0.0 && sigma <= 5.0;
                positive("the median", mu.exp()).and_then(|()| {
                    spread.then_some(()).ok_or_else(|| "`sigma` must be above zero and at most 5".to_owned())
                })
            }
            Family::Cauchy { median, scale } => positive("`median`", median).and_then(|()| positive("`scale`", scale)),
            Family::Gumbel { mode, scale } => positive("`mode`", mode).and_then(|()| positive("the scale", scale)),
            Family::Beta { low, high, .. } if low >= high => Err("`low` must be below `high`".to_owned()),
            Family::Beta { high, alpha, beta, .. } if alpha.min(beta) >= 0.01 && alpha.max(beta) <= 1e4 => {
                positive("`high`", high)
            }
            Family::Beta { .. } => Err("`alpha` and `beta` must be from 0.01 to 10000".to_owned()),
        }
    }

    /// P(X > x) before truncation.
    pub fn survival(&self, x: f64) -> f64 {
        match *self {
            Family::Constant(value) => f64::from(u8::from(x < value)),
            Family::Uniform { low, high } => ((high - x) / (high - low)).clamp(0.0, 1.0),
            Family::Normal { mean, sd } => normal_survival((x - mean) / sd),
            Family::Cauchy { median, scale } => 0.5 - ((x - median) / scale).atan() / std::f64::consts::PI,
            // 1 − exp(−y), exact also where y is small
            Family::Gumbel { mode, scale } => -(-(-(x - mode) / scale).exp()).exp_m1(),
            Family::Beta { low, high, alpha, beta } => beta_i(beta, alpha, ((high - x) / (high - low)).clamp(0.0, 1.0)),
            _ if x <= 0.0 => 1.0,
            Family::Exponential { mean } => (-x / mean).exp(),
            Family::Gamma { shape, scale } => gamma_q(shape, x / scale),
            Family::Weibull { shape, scale } => (-(x / scale).powf(shape)).exp(),
            Family::Pareto { shape, scale } => (scale / x).powf(shape).min(1.0),
            Family::Lognormal { mu, sigma } => normal_survival((x.ln() - mu) / sigma),
        }
    }

    /// Mean and standard deviation before truncation; `None` without a mean, or with negative draws.
    fn moments(&self) -> Option<Moments> {
        let (mean, sd) = match *self {
            Family::Constant(value) => (value, 0.0),
            Family::Uniform { low, high } => ((low + high) / 2.0, (high - low) / 12_f64.sqrt()),
            Family::Exponential { mean } => (mean, mean),
            Family::Gamma { shape, scale } => (shape * scale, shape.sqrt() * scale),
            Family::Weibull { shape, scale } => {
                let moment = |n: f64| ln_gamma(1.0 + n / shape).exp();
                (scale * moment(1.0), scale * (moment(2.0) - moment(1.0).powi(2)).max(0.0).sqrt())
            }
            Family::Pareto { shape, scale } if shape > 1.0 => {
                let sd = (shape / (shape - 2.0)).sqrt() * scale / (shape - 1.0);
                (shape * scale / (shape - 1.0), if shape > 2.0 { sd } else { f64::INFINITY })
            }
            Family::Lognormal { mu, sigma } => {
                let mean = (mu + sigma * sigma / 2.0).exp();
                (mean, mean * (sigma * sigma).exp_m1().sqrt())
            }
            Family::Beta { low, high, alpha, beta } => {
                let (sum, width) = (alpha + beta, high - low);
                (low + width * alpha / sum, width * (alpha * beta / (sum + 1.0)).sqrt() / sum)
            }
            Family::Normal { .. } | Family::Pareto { .. } | Family::Cauchy { .. } | Family::Gumbel { .. } => {
                return None;
            }
        };
        Some(Moments { mean, sd })
    }

    /// Whether its tail falls by a power, so slowly that an integral over it would not end.
    fn is_heavy(&self) -> bool {
        matches!(self, Family::Pareto { .. } | Family::Cauchy { .. })
    }
}

impl Law {
    pub(super) fn new(
        family: Family,
        min: Option<f64>,
        max: Option<f64>,
        truncate: Option<Truncate>,
    ) -> Result<Law, String> {
        let bounded = min.is_some() || max.is_some();
        if matches!(family, Family::Constant(_) | Family::Uniform { .. } | Family::Beta { .. })
            && (bounded || truncate.is_some())
        {
            return Err("it has bounds of its own, so `min`, `max` and `truncate` mean nothing".to_owned());
        }
        let signed = matches!(family, Family::Normal { .. } | Family::Cauchy { .. } | Family::Gumbel { .. });
        if truncate.is_none() && (bounded || signed) {
            let why = if signed { "it has draws below zero" } else { "it has bounds" };
            return Err(format!("{why}: say `truncate = \"clamp\"` or `truncate = \"reject\"`"));
        }
        if truncate.is_some() && !bounded && !signed {
            return Err("`truncate` means nothing without `min` or `max`".to_owned());
        }
        if family.is_heavy() && max.is_none() && (bounded || family.moments().is_none()) {
            return Err("its tail has no mean that could be told: give a `max` and `truncate`".to_owned());
        }
        let (min, max) = (min.unwrap_or(0.0), max.unwrap_or(f64::INFINITY));
        if min >= max {
            return Err("`min` must be below `max`".to_owned());
        }
        let moments = family.moments().unwrap_or(Moments { mean: 0.0, sd: 0.0 });
        let mut law = Law { family, min, max, truncate, moments };
        if truncate.is_some() {
            let share = law.accepted();
            if truncate == Some(Truncate::Reject) && share < ACCEPT_MIN {
                let least = ACCEPT_MIN * 100.0;
                return Err(format!(
                    "only {:.2} % of the draws are within `min` and `max`; rejection needs {least} %: widen them, or clamp",
                    share * 100.0
                ));
            }
            law.moments = law.integrated();
        }
        if law.moments.mean > 0.0 { Ok(law) } else { Err("its mean is zero".to_owned()) }
    }

    /// Without truncation.
    pub fn exponential(mean: f64) -> Law {
        let moments = Moments { mean, sd: mean };
        Law { family: Family::Exponential { mean }, min: 0.0, max: f64::INFINITY, truncate: None, moments }
    }

    /// The distribution before truncation.
    pub fn family(&self) -> Family {
        self.family
    }

    /// What becomes of a draw outside the bounds, if there can be one.
    pub fn truncate(&self) -> Option<Truncate> {
        self.truncate
    }

    /// Least and largest value that is drawn; the largest may be infinite.
    pub fn bounds(&self) -> (f64, f64) {
        match self.family {
            Family::Constant(value) => (value, value),
            Family::Uniform { low, high } | Family::Beta { low, high, .. } => (low, high),
            Family::Pareto { scale, .. } => (self.min.max(scale), self.max),
            _ => (self.min, self.max),
        }
    }

    /// Mean and standard deviation of what is drawn.
    pub fn moments(&self) -> Moments {
        self.moments
    }

    /// P(X > x) of what is drawn.
    pub fn survival(&self, x: f64) -> f64 {
        if x < self.min {
            return 1.0;
        }
        if x >= self.max {
            return 0.0;
        }
        match self.truncate {
            Some(Truncate::Reject) => {
                let above = if self.max.is_finite() { self.family.survival(self.max) } else { 0.0 };
                ((self.family.survival(x) - above) / self.accepted()).clamp(0.0, 1.0)
            }
            _ => self.family.survival(x),
        }
    }

    /// The share of draws within the bounds.
    fn accepted(&self) -> f64 {
        let above = if self.max.is_finite() { self.family.survival(self.max) } else { 0.0 };
        self.family.survival(self.min) - above
    }

    /// E X = min + ∫ S(x) dx and E X² = min² + ∫ 2 x S(x) dx from `min` to `max`, by Simpson's rule over ln x.
    fn integrated(&self) -> Moments {
        let mut high = self.max;
        if high.is_infinite() {
            high = self.family.moments().map_or(1.0, |m| m.mean).max(self.min).max(1.0);
            if let Family::Normal { mean, sd } = self.family {
                high = mean.max(self.min) + sd;
            }
            if let Family::Gumbel { mode, scale } = self.family {
                high = mode.max(self.min) + scale;
            }
            let scale = high;
            for _ in 0..200 {
                let part = self.survival(high) * (high / scale).powi(2);
                if part < TAIL {
                    break;
                }
                high *= 1.5;
            }
        }
        let low = self.min.max(high * 1e-16);
        let (from, to) = (low.ln(), high.ln());
        let step = (to - from) / f64::from(STEPS);
        let (mut first, mut second) = (0.0, 0.0);
        for i in 0..=STEPS {
            let x = (from + step * f64::from(i)).exp();
            let weight = if i == 0 || i == STEPS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
            // the survival function ends in a step at `max`: its value just below is meant
            let part = weight * self.survival(x.clamp(low, high * (1.0 - 1e-15))) * x;
            first += part;
            second += 2.0 * part * x;
        }
        // below the first step the survival function is 1, or nearly so
        let start = low;
        let mean = start + first * step / 3.0;
        let square = start * start + second * step / 3.0;
        Moments { mean, sd: (square - mean * mean).max(0.0).sqrt() }
    }
}
