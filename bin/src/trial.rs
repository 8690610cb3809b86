//! Dry runs whose figures are kept and whose bundles are not: the points of sweeps, and the tries of searches.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use rehearsal_core::calibration::Calibration;
use rehearsal_export::{BundleWriter, Engine, Finished};
use rehearsal_scenario::Experiment;
use rehearsal_sim::{SimOptions, Simulation};

use crate::clips::Use;
use crate::experiment::assemble;
use crate::facts::{Roster, meta};
use crate::report::refuse;
use crate::room::Room;
use crate::signals::Signals;
use crate::unfinished::Unfinished;

/// Room for dry runs; it goes with this value.
pub struct Trials {
    room: Room,
    unfinished: Unfinished,
    count: AtomicU32,
}

impl Trials {
    /// Room in `parent`, which a signal empties; what a killed process left there is taken away.
    ///
    /// # Errors
    /// When there is no room, or nothing listens for signals.
    pub fn within(parent: &Path) -> Result<Self> {
        let room = Room::within(parent, "rehearsal-trials")?;
        let unfinished = Unfinished::default();
        unfinished.inside(room.path());
        Signals::ending(unfinished.clone())?;
        Ok(Trials { room, unfinished, count: AtomicU32::new(0) })
    }

    /// One repetition, from 0, on this thread.
    ///
    /// # Errors
    /// What the experiment cannot be built from, or what cannot be written.
    pub fn run(
        &self,
        experiment: &Experiment,
        repetition: u32,
        calibration: Option<Arc<Calibration>>,
    ) -> Result<Finished> {
        experiment.ends_in_virtual_time()?;
        let plan = experiment.plan(repetition);
        let meta = meta(experiment, &plan, Engine::Simulate, false);
        let (assembly, media_notes) = assemble(experiment, plan, Use::Simulation, true)?;
        let roster = Roster::of(&assembly).calibrated(calibration.as_deref());
        let bundle = self.room.path().join(self.count.fetch_add(1, Ordering::Relaxed).to_string());
        let (partial, mut writer) = self.unfinished.begin(|| {
            let writer = BundleWriter::create(&bundle, meta).map_err(refuse)?;
            Ok::<_, anyhow::Error>((writer.partial().to_owned(), writer))
        })?;
        let options = SimOptions { calibration, ..SimOptions::default() };
        let end = Simulation::new(assembly, options).run(&mut writer, &mut |_| {});
        let mut facts = roster.facts(end, Engine::Simulate, false);
        facts.notes.extend(media_notes);
        let finished = self.unfinished.finish(&partial, || {
            let finished = writer.finish(facts);
            // it is never looked at, and a remainder goes with the room
            let _ = fs::remove_dir_all(&bundle);
            finished
        })?;
        Ok(finished)
    }
}
