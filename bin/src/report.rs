//! What a verb prints when its runs are over, and the exit code that follows.

use std::error::Error;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use anyhow::Result;
use rehearsal_export::{ExportError, Finished, index};
use rehearsal_scenario::Experiment;

use crate::cli::{Format, Output};
use crate::destination::Destination;
use crate::exit::Refused;

/// A bundle that cannot be begun: the run is refused.
pub fn refuse(why: ExportError) -> Refused {
    Refused(chain(&why))
}

/// An error and its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |e| (*e).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Notes on the experiment, on stderr.
pub fn notes(notes: &[String], quiet: bool) {
    for note in notes.iter().filter(|_| !quiet) {
        eprintln!("note: {note}");
    }
}

/// Which repetition begins, on stderr.
pub fn heading(output: &Output, repetition: u32, repetitions: u32) {
    if !output.quiet && repetitions > 1 {
        eprintln!("repetition {} of {repetitions}", repetition + 1);
    }
}

/// Prints the summary, or one line for each repetition; the exit code is the worst.
///
/// # Errors
/// When the index of the repetitions cannot be written.
pub fn finish(
    output: &Output,
    experiment: &Experiment,
    destination: &Destination,
    finished: &[Finished],
) -> Result<ExitCode> {
    let code = index::worst(finished.iter().map(|f| f.exit_code));
    if experiment.repetitions > 1 {
        let index = index::write(destination.base(), &experiment.name, finished)?;
        match output.format {
            Format::Json => print(&serde_json::to_string_pretty(&index)?),
            Format::Text => {
                for each in finished {
                    print(&each.text());
                }
                print(&format!("results: {}\n", destination.base().display()));
            }
        }
    } else if let [only] = finished {
        match output.format {
            Format::Json => print(&only.json()),
            Format::Text => print(&only.text()),
        }
    }
    Ok(ExitCode::from(code))
}

/// One line for each repetition: fingerprint of the event trace and digest of the schedule.
pub fn digests(finished: &[Finished]) {
    for each in finished {
        let of = |d: &Option<String>| d.clone().unwrap_or_else(|| "-".to_owned());
        let (trace, schedule) = (of(&each.summary.fingerprint), of(&each.summary.schedule_digest));
        print(&format!("fingerprint {trace}  schedule {schedule}"));
    }
}

/// Prints to stdout; a reader that went away (`| head`) ends nothing.
pub fn print(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") };
    let _ = out.flush();
}

/// An error for a person: its causes in one line each.
pub fn error(error: &anyhow::Error) {
    let mark = if stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        "\x1b[1;31merror\x1b[0m"
    } else {
        "error"
    };
    eprintln!("{mark}: {error:#}");
}
