//! Where the desks of a user's runs are: a folder that nobody else may enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rehearsal_core::subject::check_token;

use crate::exit::Refused;

/// Ends the names of sockets.
const ENDING: &str = ".sock";
/// Runs that are looked at.
const RUNS_MAX: usize = 1024;

/// The folder, made if it is not there.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub(super) fn folder() -> Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let folder = match runtime.filter(|dir| dir.is_dir()) {
        Some(dir) => dir.join("rehearsal"),
        None => std::env::temp_dir().join(format!("rehearsal-{uid}")),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
            return Err(why).with_context(|| format!("cannot make {}", folder.display()));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        let text = format!("{} is not this user's alone; remove it, or set XDG_RUNTIME_DIR", folder.display());
        return Err(Refused(text).into());
    }
    Ok(folder)
}

/// The socket of a run.
pub(super) fn socket(run: &str) -> Result<PathBuf> {
    Ok(folder()?.join(format!("{run}{ENDING}")))
}

/// Connects to a desk. The socket of a run that was killed, where nobody listens any more, is taken away.
///
/// # Errors
/// When nobody takes the connection.
pub(super) fn connect(socket: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(socket).inspect_err(|why| {
        if why.kind() == io::ErrorKind::ConnectionRefused {
            // whoever comes first clears it away
            let _ = fs::remove_file(socket);
        }
    })
}

/// Runs that go on, in the order of their names. What killed ones left is taken away.
pub(super) fn runs() -> Result<Vec<String>> {
    let folder = folder()?;
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut runs: Vec<String> = names
        .filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned))
        .filter(|run| check_token(run).is_ok())
        .take(RUNS_MAX)
        .filter(|run| connect(&folder.join(format!("{run}{ENDING}"))).is_ok())
        .collect();
    runs.sort();
    Ok(runs)
}
