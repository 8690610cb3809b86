//! `rehearsal check` and `rehearsal init`: before anything runs.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use rehearsal_scenario::{explain, init_template, json_schema};

use crate::cli::{Check, Init};
use crate::clips::Use;
use crate::exit::Refused;
use crate::experiment::{assemble, load};
use crate::registry::registry;
use crate::report::print;

/// Runs `check`: the file is read, every actor is built as for a dry run, and what it will do is explained.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn check(args: &Check) -> Result<ExitCode> {
    if args.schema {
        print(&serde_json::to_string_pretty(&json_schema(&registry()))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.experiment.file.as_deref().ok_or_else(|| anyhow!("an experiment file is needed"))?;
    let experiment = load(file, &args.experiment.overrides, &args.experiment.part)?;
    let (_, media_notes) = assemble(&experiment, experiment.plan(0), Use::Simulation, false)?;
    if args.resolved {
        print(&experiment.resolved_toml())?;
    } else {
        print(&(explain(&experiment) + &crate::limits::explain(&experiment)))?;
    }
    crate::report::notes(&media_notes, false);
    Ok(ExitCode::SUCCESS)
}

/// Runs `init`.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn init(args: &Init) -> Result<ExitCode> {
    let refuse = |why: std::io::Error| Refused(format!("{}: {why}", args.file.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&args.file).map_err(|why| {
        if why.kind() == std::io::ErrorKind::AlreadyExists {
            Refused(format!("{} exists; name another file, such as `rehearsal init mine.toml`", args.file.display()))
        } else {
            refuse(why)
        }
    })?;
    file.write_all(init_template().as_bytes()).map_err(refuse)?;
    let name = args.file.display();
    print(&format!("wrote {name}\nnext: rehearsal check {name}, then rehearsal simulate {name}\n"))?;
    Ok(ExitCode::SUCCESS)
}
