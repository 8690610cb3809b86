//! Drawing from a [`Law`]: samplers of `rand_distr`, within the law's bounds.
//!
//! | distribution | drawn by | source |
//! |---|---|---|
//! | exponential, normal | ziggurat | Marsaglia & Tsang, J. Statistical Software 5(8), 2000 |
//! | gamma | rejection from a cubed normal | Marsaglia & Tsang, ACM TOMS 26(3), 2000 |
//! | lognormal | e to a normal | definition |
//! | uniform, Weibull, Pareto, Cauchy, Gumbel | inversion | definition |
//! | beta | rejection | Cheng, Communications of the ACM 21(4), 1978 |
//!
//! A draw is an `f64` in nanoseconds or bytes. It follows from the stream's generator alone, so both engines and every host
//! draw the same; where a sampler takes a logarithm or a power, the mathematical library of the platform decides its last
//! bit, and rounding to whole nanoseconds or bytes nearly always hides it. Validated against closed-form quantiles in this
//! file's tests, and by golden vectors.

use rand_distr::{Beta, Cauchy, Exp1, Gamma, Gumbel, LogNormal, Normal, Pareto, Weibull};
use rehearsal_core::distribution::{Family, Law, REJECTIONS_MAX, Truncate};
use rehearsal_core::{BuildError, RngStream};

/// Draws from one law. Has no state: the generator is the caller's.
#[derive(Clone, Debug)]
pub struct Sampler {
    way: Way,
    min: f64,
    max: f64,
    truncate: Option<Truncate>,
}

#[derive(Clone, Debug)]
enum Way {
    Constant(f64),
    Uniform { low: f64, width: f64 },
    Exponential(f64),
    Normal(Normal<f64>),
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
    Pareto(Pareto<f64>),
    Lognormal(LogNormal<f64>),
    Cauchy(Cauchy<f64>),
    Gumbel(Gumbel<f64>),
    Beta { law: Beta<f64>, low: f64, width: f64 },
}

impl Sampler {
    /// For `law`, which the key `key` tells.
    ///
    /// # Errors
    /// If the sampler cannot work with its parameters.
    pub fn new(key: &'static str, law: &Law) -> Result<Self, BuildError> {
        let refused = |why: &dyn std::fmt::Display| BuildError::of(key, format!("this cannot be drawn from: {why}"));
        let way = match law.family() {
            Family::Constant(value) => Way::Constant(value),
            Family::Uniform { low, high } => Way::Uniform { low, width: high - low },
            Family::Exponential { mean } => Way::Exponential(mean),
            Family::Normal { mean, sd } => Way::Normal(Normal::new(mean, sd).map_err(|why| refused(&why))?),
            Family::Gamma { shape, scale } => Way::Gamma(Gamma::new(shape, scale).map_err(|why| refused(&why))?),
            Family::Weibull { shape, scale } => Way::Weibull(Weibull::new(scale, shape).map_err(|why| refused(&why))?),
            Family::Pareto { shape, scale } => Way::Pareto(Pareto::new(scale, shape).map_err(|why| refused(&why))?),
            Family::Lognormal { mu, sigma } => Way::Lognormal(LogNormal::new(mu, sigma).map_err(|why| refused(&why))?),
            Family::Cauchy { median, scale } => Way::Cauchy(Cauchy::new(median, scale).map_err(|why| refused(&why))?),
            Family::Gumbel { mode, scale } => Way::Gumbel(Gumbel::new(mode, scale).map_err(|why| refused(&why))?),
            Family::Beta { low, high, alpha, beta } => {
                let law = Beta::new(alpha, beta).map_err(|why| refused(&why))?;
                Way::Beta { law, low, width: high - low }
            }
        };
        let (min, max) = law.bounds();
        Ok(Sampler { way, min, max, truncate: law.truncate() })
    }

    /// One draw, in nanoseconds or bytes; never below zero.
    #[inline]
    pub fn draw(&self, rng: &mut RngStream) -> f64 {
        let mut value = self.free(rng);
        match self.truncate {
            None => return value,
            Some(Truncate::Clamp) => {}
            Some(Truncate::Reject) => {
                let mut tries = 1;
                while !(self.min..=self.max).contains(&value) && tries < REJECTIONS_MAX {
                    value = self.free(rng);
                    tries += 1;
                }
            }
        }
        value.clamp(self.min, self.max)
    }

    /// One draw in whole base units, at least 1 and at most a century of nanoseconds.
    #[inline]
    pub fn whole(&self, rng: &mut RngStream) -> u64 {
        const MOST: f64 = 3.2e18;
        self.draw(rng).round().clamp(1.0, MOST) as u64
    }

    /// One draw without bounds.
    fn free(&self, rng: &mut RngStream) -> f64 {
        match &self.way {
            Way::Constant(value) => *value,
            Way::Uniform { low, width } => low + width * rng.unit(),
            Way::Exponential(mean) => rng.sample::<f64, _>(&Exp1) * mean,
            Way::Normal(law) => rng.sample(law),
            Way::Gamma(law) => rng.sample(law),
            Way::Weibull(law) => rng.sample(law),
            Way::Pareto(law) => rng.sample(law),
            Way::Lognormal(law) => rng.sample(law),
            Way::Cauchy(law) => rng.sample(law),
            Way::Gumbel(law) => rng.sample(law),
            Way::Beta { law, low, width } => low + width * rng.sample(law),
        }
    }
}

#[cfg(test)]
mod tests;
