//! What users of a run got: how many were where, delays by class, the quality of speech, and how their traffic varies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rehearsal_export::summary::Occupancy;
use rehearsal_export::{Bundle, ExportError, Grid};
use serde::Serialize;

use super::nodes::NodeSeries;
use super::page::chart::escape;

pub mod delays;
pub mod memory;
mod senders;
pub mod voice;

use delays::Delay;
use memory::Memory;
use voice::Voice;

/// See the module. Any part may be empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Users {
    /// Users of populations by state, means over the repetitions.
    pub states: Vec<Occupancy>,
    /// Delays by sending actor, where there are several, or users.
    pub delays: Vec<Delay>,
    /// The quality of speech of each codec.
    pub voice: Vec<Voice>,
    /// Whether rates have a long memory.
    pub memory: Vec<Memory>,
}

/// How they are told.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Play-out buffer of a receiver of speech.
    pub playout_ns: u64,
    /// Level of confidence.
    pub level: f64,
    /// Where random numbers begin.
    pub seed: u64,
}

#[cfg(test)]
impl How {
    /// A playout delay of 60 ms, and intervals as of every other test.
    pub fn plain() -> How {
        How { playout_ns: 60_000_000, level: 0.95, seed: 1 }
    }
}

/// Those of a group's repetitions; `ranges` are the seconds without ramps.
///
/// # Errors
/// When a bundle's histograms cannot be read.
pub fn of(
    bundles: &[Bundle],
    series: &[Vec<NodeSeries>],
    ranges: &[(usize, usize)],
    how: &How,
) -> Result<Users, ExportError> {
    let Some(first) = bundles.first() else { return Ok(Users::default()) };
    let senders = senders::of(first);
    let times = delays::Times::read(bundles, &senders)?;
    let states = states(bundles);
    let several = senders.len() > 1 || !states.is_empty();
    Ok(Users {
        delays: if several { delays::of(&senders, &times) } else { Vec::new() },
        voice: voice::of(bundles, &senders, &times, how.playout_ns),
        memory: memory::of(series, ranges, how),
        states,
    })
}

fn states(bundles: &[Bundle]) -> Vec<Occupancy> {
    let mut sums: BTreeMap<(String, String), (f64, Option<f64>)> = BTreeMap::new();
    for row in bundles.iter().flat_map(|bundle| Occupancy::of(&bundle.summary)) {
        let sum = sums.entry((row.actor, row.state)).or_insert((0.0, Some(0.0)));
        *sum = (sum.0 + row.seen, sum.1.zip(row.expected).map(|(sum, more)| sum + more));
    }
    let many = bundles.len() as f64;
    let row = |((actor, state), (seen, expected)): (_, (f64, Option<f64>))| Occupancy {
        actor,
        state,
        seen: seen / many,
        expected: expected.map(|users| users / many),
    };
    sums.into_iter().map(row).collect()
}

impl Users {
    /// For people; empty if there is nothing to tell.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for grid in self.grids().into_iter().flatten() {
            let _ = write!(text, "\n{grid}");
        }
        for note in self.notes() {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    /// The same for a page.
    pub fn html(&self) -> String {
        let text = self.text();
        match text.trim() {
            "" => String::new(),
            text => format!("<h3>What users got</h3><div class=\"wide\"><pre>{}</pre></div>\n", escape(text)),
        }
    }

    fn grids(&self) -> [Option<Grid>; 3] {
        let some = |rows: usize, heads: &[&str]| (rows > 0).then(|| Grid::new(heads));
        let mut states = some(self.states.len(), &["users of", "state", "in the mean", "by the model"]);
        if let Some(grid) = &mut states {
            for row in &self.states {
                let expected = row.expected.map_or_else(|| "-".to_owned(), |users| format!("{users:.2}"));
                grid.row(vec![row.actor.clone(), row.state.clone(), format!("{:.2}", row.seen), expected]);
            }
        }
        let mut delays = some(self.delays.len(), &delays::HEADS);
        if let Some(grid) = &mut delays {
            self.delays.iter().for_each(|row| grid.row(row.cells()));
        }
        let mut voice = some(self.voice.len(), &voice::HEADS);
        if let Some(grid) = &mut voice {
            self.voice.iter().for_each(|row| grid.row(row.cells()));
        }
        [states, delays, voice]
    }

    fn notes(&self) -> Vec<String> {
        let shared = self.delays.iter().any(|row| row.shared);
        let mut notes = Vec::new();
        if shared {
            notes.push("* delays of all whom the same receiver hears: it does not tell its senders apart".to_owned());
        }
        if let Some(row) = self.voice.first() {
            notes.push(voice::assumed(row.playout_ms));
        }
        notes.extend(self.memory.iter().filter_map(Memory::text));
        notes
    }
}
