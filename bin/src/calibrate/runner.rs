//! Runs a shape for real: the sender in one process of this program, the receiver in another, over the loopback. Over a
//! NATS server both are started by a third, which gathers one bundle.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rehearsal_bus::server::{self, Server};
use rehearsal_core::plan::Carrier;
use rustix::process::{Pid, Signal, kill_process};

use super::gate::{Contention, Watch, calm, process_seconds};
use super::shape::Shape;
use crate::exit::Refused;
use crate::report::chain;

/// Exit codes of runs that are over: whatever their verdict, they have a bundle.
const OVER: [i32; 3] = [0, 10, 20];
/// How long a process may take to listen, or to end beyond its traffic. Assumed: ten times what a busy host needs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a process is looked at: rarely enough to cost nothing.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a failed process that are told.
const TAIL_LINES: usize = 5;

/// Starts processes of this program in a folder of its own.
pub struct Runner {
    program: PathBuf,
    room: PathBuf,
    /// Cores of this host.
    pub cores: u32,
    server: Option<Server>,
    count: u32,
}

/// What a run left.
pub struct Real {
    /// One bundle, or that of the sender and that of the receiver.
    pub bundles: Vec<PathBuf>,
    /// The file that it was run from.
    pub file: PathBuf,
    /// What else the host did.
    pub contention: Contention,
}

impl Runner {
    /// A runner whose folder is inside `room`.
    ///
    /// # Errors
    /// When this program cannot be found.
    pub fn within(room: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok(Runner { program, room: room.to_owned(), cores, server: None, count: 0 })
    }

    /// Starts a private NATS server for runs that need one; false if this host has none.
    ///
    /// # Errors
    /// When there is one and it cannot be started.
    pub fn serve(&mut self) -> Result<bool> {
        if self.server.is_some() {
            return Ok(true);
        }
        if server::find().is_none() {
            return Ok(false);
        }
        let launcher = [self.program.clone().into_os_string(), OsString::from("child"), OsString::from("--")];
        self.server = Some(Server::start(&launcher).map_err(|why| Refused(chain(&why)))?);
        Ok(true)
    }

    /// Runs a shape once. `together`: both ends in one process, whose clocks agree, so that it is known how long datagrams
    /// travel; what each end uses is not.
    ///
    /// # Errors
    /// When a process cannot be started, fails, or hangs.
    pub fn emulate(&mut self, name: &str, shape: &Shape, together: bool) -> Result<Real> {
        self.count += 1;
        let base = self.room.join(format!("real-{}", self.count));
        fs::create_dir_all(&base)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let file = base.join("experiment.toml");
        fs::write(&file, shape.toml(name, self.cores, port))?;
        let server = self.server.as_ref().filter(|_| shape.carrier == Carrier::Nats);
        let used = || server.map_or(0.0, |server| process_seconds(server.id()));
        calm();
        let (watch, before) = (Watch::begin(), used());
        let within = Duration::from_secs(shape.seconds.into()) + PATIENCE;
        let bundles = match server {
            Some(server) => {
                let more = ["--placement", "processes", "--nats", server.url()];
                vec![self.start(&base, "all", &more)?.finish(within)?]
            }
            None if together => vec![self.start(&base, "all", &["--shards", "2"])?.finish(within)?],
            None => self.apart(&base, shape.carrier, port, within)?,
        };
        let contention = watch.end(used() - before);
        Ok(Real { bundles, file, contention })
    }

    /// The receiver alone, then the sender alone; the receiver is told to end when the sender has.
    fn apart(&self, base: &Path, carrier: Carrier, port: u16, within: Duration) -> Result<Vec<PathBuf>> {
        let mut receiver = self.start(base, "receiver", &["--only", "receiver", "--shards", "1"])?;
        receiver.listens(carrier, port)?;
        let sender = self.start(base, "sender", &["--without", "receiver", "--shards", "1"])?.finish(within)?;
        receiver.interrupt();
        Ok(vec![sender, receiver.finish(PATIENCE)?])
    }

    /// A dry run of a file; gives its bundle.
    ///
    /// # Errors
    /// As for [`Runner::emulate`].
    pub fn simulate(&mut self, file: &Path, calibration: &Path) -> Result<PathBuf> {
        self.count += 1;
        let base = self.room.join(format!("dry-{}", self.count));
        fs::create_dir_all(&base)?;
        let mut command = self.command("simulate", file, &base.join("dry"));
        command.arg("--calibration").arg(calibration);
        Process::start(command, &base, "dry")?.finish(Duration::from_secs(600))
    }

    fn start(&self, base: &Path, name: &'static str, more: &[&str]) -> Result<Process> {
        let mut command = self.command("emulate", &base.join("experiment.toml"), &base.join(name));
        command.args(more);
        Process::start(command, base, name)
    }

    /// A call that no variable of the caller changes.
    fn command(&self, verb: &str, file: &Path, out: &Path) -> Command {
        let mut command = Command::new(&self.program);
        // it ends with this process, however that comes about
        command.args(["child", "--"]).arg(&self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REHEARSAL_")) {
            command.env_remove(name);
        }
        command.arg(verb).arg(file).arg("--quiet").arg("--out").arg(out);
        command
    }
}

/// A process of this program; it is killed when this is dropped.
struct Process {
    name: &'static str,
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Process {
    /// A call whose bundle has the process's name in `base`.
    fn start(mut command: Command, base: &Path, name: &'static str) -> Result<Self> {
        let (out, log) = (base.join(name), base.join(name).with_extension("log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("cannot start the {name}"))?;
        Ok(Process { name, child, out, log })
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until it listens.
    fn listens(&mut self, carrier: Carrier, port: u16) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let there = match carrier {
                Carrier::Udp => bound("/proc/net/udp", port),
                _ => TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok(),
            };
            if there {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                return Err(self.failure(&format!("ended with {status} before it listened")));
            }
            if Instant::now() > end {
                return Err(self.failure("does not listen"));
            }
            sleep(LOOK);
        }
    }

    fn interrupt(&self) {
        // it may have ended by itself, which the wait for it finds out
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Waits for its end; gives its bundle.
    fn finish(mut self, within: Duration) -> Result<PathBuf> {
        let end = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.ended()? {
                break status;
            }
            if Instant::now() > end {
                return Err(self.failure("does not end"));
            }
            sleep(LOOK);
        };
        if !status.code().is_some_and(|code| OVER.contains(&code)) {
            bail!(self.failure(&format!("ended with {status}")));
        }
        Ok(self.out.clone())
    }

    fn failure(&self, what: &str) -> anyhow::Error {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("; ");
        anyhow!("the {} {what}: {tail}", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // it may have ended by itself, which is as good
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether some socket of this host is bound to a port, as the kernel lists them: `sl local_address …`, in hexadecimal.
fn bound(list: &str, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    let text = fs::read_to_string(list).unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&wanted)))
}
