//! The experiment file: read, checked, explained, and turned into the plan that both engines run.
//!
//! [`load`] takes a path and the [`Registry`] of kinds and gives an [`Experiment`], or every error at once, each with its
//! place and what to write instead. Reading order: [`tables`] (what is written), `read` and `check` (against the JSON
//! Schemas of the tables and kinds), `validate` (against each other), `compose` (defaults that need the whole),
//! [`experiment`] (the result).

mod apart;
mod arrivals;
mod blame;
mod calibration;
mod check;
mod compose;
mod control;
mod decode;
mod draft;
mod endless;
mod error;
mod experiment;
mod explain;
mod init;
mod keys;
mod load;
pub mod mix;
mod model;
mod notes;
mod overrides;
mod printable;
mod read;
mod registry;
mod resolved;
mod schema;
mod shape;
mod source;
mod suggest;
mod table;
pub mod tables;
mod threshold;
mod totals;
mod trace;
mod validate;
mod verdict;

pub use calibration::load_calibration;
pub use compose::outside::OutsideSpec;
pub use error::{ERRORS_MAX, Problem, ScenarioError, ScenarioErrors};
pub use experiment::{ActorSpec, Experiment, NodeSpec};
pub use explain::explain;
pub use init::init_template;
pub use load::{FILE_BYTES_MAX, LoadOptions, load, parse};
pub use model::load_model;
pub use printable::{printable, printable_lines};
pub use registry::{KindEntry, Registry};
pub use schema::json_schema;
pub use source::Place;
pub use threshold::{COUNT_STATISTICS, COUNTS, Comparison, STATISTICS, TIMES, Threshold, ThresholdUnit};
pub use totals::Totals;
pub use verdict::{Bound, Bounds, Gravity, SetBound, VerdictTable};
