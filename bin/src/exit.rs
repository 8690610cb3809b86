//! The one place that maps errors to exit codes.

use std::process::ExitCode;

use rehearsal_emu::EmuError;
use rehearsal_scenario::ScenarioErrors;

/// 1: internal.
pub const INTERNAL: u8 = 1;
/// 2: usage or file.
pub const USAGE: u8 = 2;
/// 3: refused before the start.
pub const REFUSED: u8 = 3;
/// 130: ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// 143: ended by SIGTERM.
pub const TERMINATED: u8 = 143;

/// Something the user wrote on the command line cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The run cannot start here and now.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A signal came before the run began; holds the exit code.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the run began")]
pub struct Stopped(pub u8);

/// The code for an error that reached `main`.
pub fn code(error: &anyhow::Error) -> ExitCode {
    let code = if error.is::<ScenarioErrors>() || error.is::<UsageError>() {
        USAGE
    } else if error.is::<Refused>() {
        REFUSED
    } else if let Some(Stopped(code)) = error.downcast_ref() {
        *code
    } else if let Some(emu) = error.downcast_ref::<EmuError>() {
        if emu.is_refusal() { REFUSED } else { INTERNAL }
    } else {
        INTERNAL
    };
    ExitCode::from(code)
}
