//! The calibration of a dry run: from the command line, or from the experiment.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rehearsal_core::calibration::Calibration;
use rehearsal_scenario::{Experiment, load_calibration};

/// The calibration in `file`, or else the one that the experiment names, if it names one.
///
/// # Errors
/// What is wrong with it, with its line.
pub fn of(experiment: &Experiment, file: Option<&Path>) -> Result<Option<Arc<Calibration>>> {
    let named = experiment.calibration.as_ref().map(|name| experiment.base.join(name));
    let Some(path) = file.map(Path::to_path_buf).or(named) else { return Ok(None) };
    Ok(Some(Arc::new(load_calibration(&path)?)))
}
