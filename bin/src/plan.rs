//! `rehearsal plan`: what to book before anything is booked, and how much fits.
//!
//! ```text
//!   files ──> experiment ──> pilot (a short dry run) ──┐
//!   published figures, --rate ─────────────────────────┼──> estimate ──> booking ──> text, Markdown, JSON
//!   facility ──────────────────────────────────────────┘
//! ```

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use schemars::generate::SchemaSettings;

use crate::calibration;
use crate::cli::{Part, Plan, PlanFormat};
use crate::exit::UsageError;
use crate::experiment::load;
use crate::report::print;

mod arithmetic;
mod booking;
mod estimate;
mod facility;
mod figures;
mod find;
mod page;
mod pilot;
mod search;
mod sheet;
mod warnings;

use estimate::Estimate;
use facility::Facility;
use figures::Figures;
use page::Style;
use pilot::Pilot;
use sheet::{SCHEMA_VERSION, Sheet};

/// Files in one plan, at most. Assumed: ten times the largest campaign known.
const FILES_MAX: usize = 100;

/// Runs the verb.
///
/// # Errors
/// What is wrong with the files or the command line.
pub fn plan(args: &Plan) -> Result<ExitCode> {
    if args.schema {
        let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Sheet>();
        print(&serde_json::to_string_pretty(&schema)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.find.is_some() {
        return find::find(args);
    }
    let sheet = sheet(args)?;
    print(&match args.format {
        PlanFormat::Text => page::write(&sheet, Style::Text),
        PlanFormat::Markdown => page::write(&sheet, Style::Markdown),
        PlanFormat::Json => serde_json::to_string_pretty(&sheet)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn sheet(args: &Plan) -> Result<Sheet> {
    if args.files.len() > FILES_MAX {
        return Err(UsageError(format!("{} files are too many, at most {FILES_MAX}", args.files.len())).into());
    }
    let facility = Facility::named(&args.facility)?;
    let mut figures = Figures::given(&args.rate)?;
    let mut notes = Vec::new();
    let mut files: Vec<&Path> = Vec::new();
    for file in &args.files {
        match figures.take(file) {
            Some(note) => notes.push(note),
            None => files.push(file),
        }
    }
    if files.is_empty() {
        return Err(UsageError(format!("no experiment was named: {}", notes.join("; "))).into());
    }
    let mut experiments = Vec::new();
    for file in files {
        let experiment = load(file, &args.overrides, &Part::default())?;
        let calibration = calibration::of(&experiment, args.calibration.as_deref())?;
        let pilot = Pilot::run(&experiment, calibration)?;
        let figure = figures.of(&experiment.name);
        let name = file.display().to_string();
        let of = Estimate { experiment: &experiment, file: &name, facility: &facility, figure: &figure, pilot: &pilot };
        experiments.push(of.part()?);
    }
    if let Some(name) = figures.named().find(|name| experiments.iter().all(|e| e.name != *name)) {
        return Err(UsageError(format!("--rate {name}=…: no file's experiment is called `{name}`")).into());
    }
    Ok(Sheet {
        schema_version: SCHEMA_VERSION,
        facility: facility.facility.title.clone(),
        booking: booking::booking(&experiments, &facility),
        assumptions: booking::assumptions(&experiments, &facility),
        experiments,
        notes,
    })
}
