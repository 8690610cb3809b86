//! Statistics that a reviewer can check, over series (`ndarray`, f64) and over packets; nothing here reads a file.
//!
//! | question | answer |
//! |---|---|
//! | what did it come to over repetitions? | [`Described`]: mean, deviation with n − 1, Student's interval |
//! | do CPU and rate go together? | [`Correlation`]: Pearson, Spearman with ties, n, p, effective n |
//! | how sure is that, in a run whose seconds resemble each other? | [`Bootstrap`]: moving blocks |
//! | by how much? | [`Line`]: least squares with R², and whether its residuals allow it |
//! | is it only start-up and drain? | [`without_ramps`] |
//! | from which load on is it too much? | [`knee()`] |
//! | does a series have a long memory? | [`variance_time`]: Hurst's parameter, with an interval by noise of a known one |
//! | what do the network standards call it? | [`standards`] |
//!
//! ```
//! use rehearsal_stats::ndarray::Array1;
//! use rehearsal_stats::{Bootstrap, Correlation, Method};
//!
//! let rate: Array1<f64> = (0..60).map(|s| 100.0 + f64::from(s % 7)).collect();
//! let cpu: Array1<f64> = (0..60).map(|s| 20.0 + f64::from(s % 7) + f64::from(s * 5 % 3)).collect();
//! let pearson = Correlation::of(Method::Pearson, rate.view(), cpu.view())?;
//! let interval = Bootstrap::default().correlation(Method::Pearson, rate.view(), cpu.view())?;
//! assert!(pearson.is_strong() && (interval.lower..interval.upper).contains(&pearson.r));
//! # Ok::<(), rehearsal_stats::StatsError>(())
//! ```
//!
//! Every function says what it needs and refuses the rest: too few samples, a series that never changes, a value that is
//! no number. The tests hold reference values computed with SciPy, or by hand where a standard gives a formula.

pub mod autocorrelation;
pub mod bootstrap;
pub mod correlation;
pub mod distributions;
pub mod error;
pub mod hurst;
pub mod knee;
pub mod line;
pub mod noise;
mod ranks;
pub mod repetitions;
pub mod series;
mod special;
pub mod standards;
#[cfg(test)]
mod testing;

pub use bootstrap::{Bootstrap, Pair, Resampled};
pub use correlation::{Correlation, Method, correlation_matrix};
pub use error::StatsError;
pub use hurst::{HurstInterval, VarianceTime, variance_time};
pub use knee::{Knee, knee};
pub use line::{Line, Residuals};
pub use ndarray;
pub use repetitions::{Described, half_width};
pub use series::without_ramps;
pub use standards::Held;
