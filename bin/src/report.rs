//! What a verb prints when its runs are over, and the exit code that follows.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rehearsal_export::verdict::EXIT_THRESHOLDS;
use rehearsal_export::{Engine, ExportError, Finished, index};
use rehearsal_scenario::{Experiment, printable, printable_lines};

use crate::baseline::{Baseline, Comparison, Subject};
use crate::cli::{Format, Output};
use crate::destination::Destination;
use crate::exit::Refused;
use crate::junit;
use crate::tags;

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
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |e| (*e).source()).map(ToString::to_string) {
        // some errors tell their cause themselves
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
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

/// What is done when a verb's runs are over.
pub struct Ending<'a> {
    output: &'a Output,
    experiment: &'a Experiment,
    baseline: Option<(Baseline, Vec<String>)>,
}

impl<'a> Ending<'a> {
    /// Looks before the run whether all that is wanted after it can be had.
    ///
    /// # Errors
    /// When a file has no place, or the baseline cannot be compared with.
    pub fn begin(output: &'a Output, experiment: &'a Experiment, engine: Engine) -> Result<Self> {
        junit::check(output.beside.junit.as_deref())?;
        let baseline = Baseline::open(&output.against)?;
        let resolved = experiment.resolved_toml();
        let subject = Subject { experiment: &experiment.name, engine, resolved: &resolved };
        let checked = |baseline: Baseline| {
            let notes = baseline.check(&subject)?;
            Ok::<_, anyhow::Error>((baseline, notes))
        };
        Ok(Ending { output, experiment, baseline: baseline.map(checked).transpose()? })
    }

    /// Prints the summary, or one line for each repetition, and what was compared; the exit code is the worst.
    ///
    /// # Errors
    /// When the index of the repetitions or a file beside it cannot be written, or see [`print`].
    pub fn finish(self, destination: &Destination, finished: &[Finished]) -> Result<ExitCode> {
        let Ending { output, experiment, baseline } = self;
        let compared = baseline.map(|(baseline, notes)| baseline.compare_finished(&experiment.name, finished, notes));
        let mut code = index::worst(finished.iter().map(|f| f.exit_code));
        if compared.as_ref().is_some_and(|compared| compared.regression) {
            code = index::worst([code, EXIT_THRESHOLDS].into_iter());
        }
        if experiment.repetitions > 1 {
            let index = index::write(destination.base(), &experiment.name, finished)?;
            match output.format {
                Format::Json => print(&with(&serde_json::to_string_pretty(&index)?, compared.as_ref())?)?,
                Format::Text => {
                    for each in finished {
                        print(&each.text())?;
                    }
                    print(&format!("results: {}\n", destination.base().display()))?;
                }
            }
        } else if let [only] = finished {
            match output.format {
                Format::Json => print(&with(&only.json(), compared.as_ref())?)?,
                Format::Text if output.scratch => print(&only.report())?,
                Format::Text => print(&only.text())?,
            }
        }
        if let Some(compared) = compared.as_ref().filter(|_| output.format == Format::Text) {
            print(&format!("\n{}", compared.text()))?;
        }
        if let Some(file) = &output.beside.junit {
            let tags = tags::of_run(&output.called.tags)?;
            let runs = finished.iter().map(|each| junit::of_run(each, &tags, output.strict));
            junit::write(file, &runs.chain(compared.iter().map(junit::of_comparison)).collect::<Vec<_>>())?;
        }
        Ok(ExitCode::from(code))
    }
}

/// A document with the comparison at its end, if there is one; its keys keep their order, the verdict first.
fn with(document: &str, compared: Option<&Comparison>) -> Result<String> {
    let document = document.trim_end();
    let Some((compared, open)) = compared.zip(document.strip_suffix("\n}")) else { return Ok(document.to_owned()) };
    let compared = serde_json::to_string_pretty(compared)?.replace('\n', "\n  ");
    Ok(format!("{open},\n  \"comparison\": {compared}\n}}"))
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
    fn what_an_error_tells_of_its_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("no stream: no disk")]
        struct Twice(#[source] std::io::Error);
        let twice = Twice(std::io::Error::other("no disk"));
        assert_eq!(chain(&twice), "no stream: no disk");
        let once = ExportError::Unwritable { path: "x".into(), source: std::io::Error::other("no disk") };
        assert!(chain(&once).ends_with(": no disk"), "{}", chain(&once));
    }

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
