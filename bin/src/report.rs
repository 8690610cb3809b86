//! What a verb prints when its runs are over, and the exit code that follows.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rehearsal_export::{ExportError, Finished, index};
use rehearsal_scenario::{Experiment, printable, printable_lines};

use crate::cli::{Format, Output};
use crate::destination::Destination;
use crate::exit::Refused;

/// A bundle that cannot be begun: the run is refused.
pub fn refuse(why: ExportError) -> Refused {
    match &why {
        // another process made it between the look and the deed
        ExportError::Unwritable { path, source } if source.kind() == ErrorKind::AlreadyExists && stands(path) => {
            Refused(format!("{} exists already and is never overwritten; choose another name", path.display()))
        }
        _ => Refused(chain(&why)),
    }
}

/// Whether a bundle of that name is there, whole or being written.
fn stands(path: &Path) -> bool {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    path.symlink_metadata().or_else(|_| Path::new(&partial).symlink_metadata()).is_ok()
}

/// An error and its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |e| (*e).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Notes on the experiment, on stderr.
pub fn notes(notes: &[String], quiet: bool) {
    for note in notes.iter().filter(|_| !quiet) {
        eprintln!("note: {}", printable(note));
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
/// When the index of the repetitions cannot be written, or see [`print`].
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
            Format::Json => print(&serde_json::to_string_pretty(&index)?)?,
            Format::Text => {
                for each in finished {
                    print(&each.text())?;
                }
                print(&format!("results: {}\n", destination.base().display()))?;
            }
        }
    } else if let [only] = finished {
        match output.format {
            Format::Json => print(&only.json())?,
            Format::Text => print(&only.text())?,
        }
    }
    Ok(ExitCode::from(code))
}

/// One line for each repetition: fingerprint of the event trace and digest of the schedule.
///
/// # Errors
/// See [`print`].
pub fn digests(finished: &[Finished]) -> Result<()> {
    for each in finished {
        let of = |d: &Option<String>| d.clone().unwrap_or_else(|| "-".to_owned());
        let (trace, schedule) = (of(&each.summary.fingerprint), of(&each.summary.schedule_digest));
        print(&format!("fingerprint {trace}  schedule {schedule}"))?;
    }
    Ok(())
}

/// Prints to stdout; a reader that went away (`| head`) ends nothing.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    match written {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(why).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

/// An error for a person: its causes in one line each.
pub fn error(error: &anyhow::Error) {
    let mark = if stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        "\x1b[1;31merror\x1b[0m"
    } else {
        "error"
    };
    eprintln!("{mark}: {}", printable_lines(&format!("{error:#}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_second_is_told_so() {
        let at = |path: &str, kind: ErrorKind| {
            refuse(ExportError::Unwritable { path: path.into(), source: kind.into() }).to_string()
        };
        let here = env!("CARGO_MANIFEST_DIR");
        assert!(at(here, ErrorKind::AlreadyExists).contains("exists already and is never overwritten"));
        assert!(at(here, ErrorKind::PermissionDenied).contains("cannot be written"));
        assert!(at("/nowhere/at/all", ErrorKind::AlreadyExists).contains("cannot be written"));
    }
}
