//! Why a number cannot be told, in words that say what would help.

use thiserror::Error;

/// A statistic is not defined for what was given.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StatsError {
    /// Fewer samples than the statistic needs.
    #[error("{what} needs at least {needed} samples, there are {found}")]
    TooFew {
        /// The statistic.
        what: &'static str,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// A series that never changes has no spread to relate anything to.
    #[error("{what} is not defined for a series that never changes: all of it is {value}")]
    Constant {
        /// The statistic.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Two series that belong together are not equally long.
    #[error("two series that belong together have {left} and {right} samples")]
    Lengths {
        /// Samples of the first.
        left: usize,
        /// Samples of the second.
        right: usize,
    },
    /// A value that is no number.
    #[error("sample {at} is {value}; leave out what is unknown first")]
    NotFinite {
        /// Its place, from 0.
        at: usize,
        /// What stands there.
        value: f64,
    },
    /// A parameter outside its range.
    #[error("{name} is {value}, it must be {range}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        range: &'static str,
    },
}
