//! The paper's own stack as a peer: a Flask receiver and senders of `requests`, in the releases of its year, in a
//! virtual environment below `target/`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::lab::Lab;
use super::machine::said;
use super::process::{Running, free_address};

/// Releases of 2023, when PL-5G was measured; Flask 2.3 needs a Werkzeug before 3.
const PACKAGES: [&str; 3] = ["flask==2.3.*", "requests==2.31.*", "werkzeug<3"];
/// Prints the versions that are there, or fails.
const VERSIONS: &str = "import sys, flask, requests; from importlib.metadata import version as v; \
                        print('Python ' + sys.version.split()[0] + ', Flask ' + v('flask') + ', requests ' + v('requests'))";
/// What senders may take longer than they are told: to start, and to end an exchange.
const SENDERS_EXTRA: Duration = Duration::from_secs(40);

/// The stack, ready to run.
pub struct Paper {
    python: PathBuf,
    scripts: PathBuf,
    /// Python, Flask and requests.
    pub versions: String,
}

/// What its senders do.
pub struct Sending {
    /// Size of a request's body, bytes.
    pub bytes: u32,
    /// Media type of the body.
    pub media_type: &'static str,
    /// How long.
    pub seconds: u64,
    /// Processes, each a closed loop.
    pub processes: u32,
    /// Where they run.
    pub core: Option<usize>,
}

/// What its senders came to.
#[derive(Debug, Deserialize)]
pub struct Sent {
    /// Requests that were answered with success.
    pub requests: u64,
    /// Requests that were not.
    pub failed: u64,
    /// How long the slowest process took.
    pub seconds: f64,
}

impl Paper {
    /// Makes the virtual environment if it is not there.
    ///
    /// # Errors
    /// Why the stack is missing: no Python, no `venv`, no packages.
    pub fn prepare(lab: &Lab) -> Result<Self> {
        let folder = lab.target.join("bench-venv");
        let python = folder.join("bin/python");
        let versions = |python: &Path| said(&python.to_string_lossy(), &["-c", VERSIONS]);
        if versions(&python).is_none() {
            eprintln!("installing Flask and requests into {}", folder.display());
            quiet(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            quiet(Command::new(&python).args(pip).args(PACKAGES))?;
        }
        let versions = versions(&python).context("Flask and requests were installed and cannot be imported")?;
        Ok(Paper { python, scripts: lab.root.join("xtask/src/bench"), versions })
    }

    /// Starts its receiver, which answers after a pause, and waits until it listens.
    pub fn receiver(&self, lab: &mut Lab, pause: Duration, core: Option<usize>) -> Result<(Running, SocketAddr)> {
        let address = free_address()?;
        let mut command = lab.command(&self.python, core);
        command.arg(self.scripts.join("paper_receiver.py"));
        command.args([address.port().to_string(), pause.as_secs_f64().to_string()]);
        let receiver = lab.start("paper-receiver", &mut command)?;
        receiver.listening(address)?;
        Ok((receiver, address))
    }

    /// Runs its senders: what they came to, and their CPU seconds.
    pub fn send(&self, lab: &mut Lab, to: SocketAddr, is: &Sending) -> Result<(Sent, f64)> {
        let mut command = lab.command(&self.python, is.core);
        command.arg(self.scripts.join("paper_sender.py")).arg(format!("http://{to}/"));
        command.args([is.bytes.to_string(), is.seconds.to_string(), is.processes.to_string()]).arg(is.media_type);
        let within = Duration::from_secs(is.seconds) + SENDERS_EXTRA;
        let done = lab.start(&format!("paper-sender-{}", is.processes), &mut command)?.finish(within, &[0])?;
        let sent = serde_json::from_str(&done.stdout).context("what the paper's senders print")?;
        Ok((sent, done.cpu_seconds))
    }
}

/// Runs a command whose output matters only when it fails.
fn quiet(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{program} cannot be started"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().last().unwrap_or_default();
    anyhow::ensure!(output.status.success(), "{program}: {}: {why}", output.status);
    Ok(())
}
