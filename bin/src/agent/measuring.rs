//! A calibration of this host that a leader asked for: a process of this program, whose leader keeps it going.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rehearsal_core::fleet::{Calibrate, Calibrating};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::room::Room;

/// A calibration whose leader is silent for so long is ended.
const LEASE: Duration = Duration::from_secs(30);
/// Characters of a line that are passed on.
const LINE_CHARS_MAX: usize = 400;
/// Lines of an error that are passed on.
const LINES_MAX: usize = 5;

/// A calibration under way, or its end. Its processes end when this is dropped.
pub(super) struct Measuring {
    order: String,
    leader: String,
    child: Child,
    room: Room,
    said: Arc<Mutex<Vec<String>>>,
    left: Duration,
    over: Option<Calibrating>,
}

impl Measuring {
    /// Begins one.
    pub(super) fn begin(asked: &Calibrate) -> Result<Measuring, String> {
        let failed = |why: &dyn std::fmt::Display| format!("the calibration cannot be started: {why}");
        let program = std::env::current_exe().map_err(|why| failed(&why))?;
        let room = Room::within(&std::env::temp_dir(), "rehearsal-measured").map_err(|why| failed(&why))?;
        let mut command = Command::new(&program);
        // it ends with this process, and has a group of its own so that what it started ends with it
        command.args(["child", "--"]).arg(&program).arg("calibrate").arg("--out").arg(file(&room)).process_group(0);
        let flags = [(asked.quick, "--quick"), (asked.anyway, "--anyway")];
        command.args(flags.iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag));
        for way in &asked.ways {
            command.arg("--carrier").arg(way);
        }
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REHEARSAL_")) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| failed(&why))?;
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            let said = said.clone();
            let listen = move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push(line.chars().take(LINE_CHARS_MAX).collect());
                    let more = said.len().saturating_sub(LINES_MAX);
                    said.drain(..more);
                }
            };
            thread::Builder::new().name("stderr".to_owned()).spawn(listen).map_err(|why| failed(&why))?;
        }
        let (order, leader) = (asked.order.clone(), asked.leader.clone());
        Ok(Measuring { order, leader, child, room, said, left: LEASE, over: None })
    }

    /// Whether it is the one that was ordered so.
    pub(super) fn is(&self, order: &str) -> bool {
        self.order == order
    }

    /// Who asked for it.
    pub(super) fn leader(&self) -> &str {
        &self.leader
    }

    /// Whether it goes on.
    pub(super) fn goes_on(&mut self) -> bool {
        matches!(self.look(), Calibrating::Measures { .. })
    }

    /// How it stands, for its leader, who keeps it going by asking.
    pub(super) fn renewed(&mut self) -> Calibrating {
        self.left = LEASE;
        self.look()
    }

    /// Time passes; true once its leader is silent for too long.
    pub(super) fn tick(&mut self, by: Duration) -> bool {
        self.left = self.left.saturating_sub(by);
        self.left.is_zero()
    }

    fn look(&mut self) -> Calibrating {
        if let Some(over) = &self.over {
            return over.clone();
        }
        let lines = || self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let over = match self.child.try_wait() {
            Ok(None) => return Calibrating::Measures { said: lines().pop().unwrap_or_default() },
            Ok(Some(status)) if status.success() => match std::fs::read_to_string(file(&self.room)) {
                Ok(file) => Calibrating::Measured { file },
                Err(why) => Calibrating::Failed { reason: format!("its file cannot be read: {why}") },
            },
            Ok(Some(status)) => {
                Calibrating::Failed { reason: format!("it ended with {status}: {}", lines().join("; ")) }
            }
            Err(why) => Calibrating::Failed { reason: why.to_string() },
        };
        self.over = Some(over.clone());
        over
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        if self.over.is_none() {
            // what it started is in its group; a group that is gone is what is wanted
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn file(room: &Room) -> PathBuf {
    room.path().join("calibration.toml")
}
