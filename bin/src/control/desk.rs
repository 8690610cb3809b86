//! The desk of a run: a socket in the user's runtime folder, where whoever watches asks for something.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rehearsal_core::steer::Ask;
use rehearsal_emu::Control;
use serde::{Deserialize, Serialize};

use super::{LINE_BYTES_MAX, PATIENCE, place};

/// How long a question may take to be written: the desk serves one after the other.
const SLOW: Duration = Duration::from_secs(1);

/// The answer of a run, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The run.
    pub run: String,
    /// The process that leads it.
    pub pid: u32,
    /// Where its nodes run.
    pub placement: String,
    /// Its NATS server, without any password.
    pub nats: Option<String>,
    /// Whether it is done.
    pub accepted: bool,
    /// What is done, or why not.
    pub text: String,
}

/// Answers questions about one run until it is dropped.
pub struct Desk {
    socket: PathBuf,
    over: Arc<AtomicBool>,
    clerk: Option<JoinHandle<()>>,
}

impl Desk {
    /// Opens the desk of the run that `known` names; questions go to `control`.
    ///
    /// # Errors
    /// When there is no place for its socket. The run can go on without.
    pub fn open(known: Reply, control: Control) -> Result<Desk> {
        let socket = place::socket(&known.run)?;
        // what killed runs left goes now; whoever cannot look leaves it
        let _ = place::runs();
        // a socket without a listener is taken for such a rest: it gets its name with the listener on it
        let unnamed = socket.with_extension("new");
        let listener = UnixListener::bind(&unnamed)
            .and_then(|listener| fs::rename(&unnamed, &socket).map(|()| listener))
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        let over = Arc::new(AtomicBool::new(false));
        let done = over.clone();
        let serve = move || {
            for stream in listener.incoming() {
                if done.load(Ordering::Acquire) {
                    return;
                }
                // whoever hangs up does not want to know
                let _ = stream.and_then(|stream| answer(stream, &known, &control));
            }
        };
        let clerk = thread::Builder::new().name("desk".to_owned()).spawn(serve).context("cannot start a thread")?;
        Ok(Desk { socket, over, clerk: Some(clerk) })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let woken = UnixStream::connect(&self.socket).is_ok();
        // a folder that somebody has cleared away takes the desk with it
        let _ = fs::remove_file(&self.socket);
        if let Some(clerk) = self.clerk.take().filter(|_| woken) {
            // it panics only by a bug, and then it is gone too
            let _ = clerk.join();
        }
    }
}

fn answer(mut stream: UnixStream, known: &Reply, control: &Control) -> io::Result<()> {
    stream.set_read_timeout(Some(SLOW))?;
    stream.set_write_timeout(Some(SLOW))?;
    let ask: Ask = serde_json::from_str(&line(stream.try_clone()?)?)?;
    let (accepted, text) = match control.ask(ask, PATIENCE) {
        Ok(answer) => (answer.accepted, answer.text),
        Err(why) => (false, why),
    };
    let mut line = serde_json::to_vec(&Reply { accepted, text, ..known.clone() })?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// One line of what comes in.
pub(super) fn line(stream: UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}
