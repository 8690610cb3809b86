//! Placement `processes`: a process for each node on this machine, over a NATS server that is given or private. This
//! process runs what leads the experiment, and writes the bundle.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rehearsal_bus::server::{Server, ServerError};
use rehearsal_core::plan::Plan;
use rehearsal_core::subject::TOKEN_CHARS_MAX;
use rehearsal_emu::{Control, EmuOptions, Remote};
use rehearsal_scenario::Experiment;

use crate::cli::{Emulate, Placement};
use crate::exit::{Refused, UsageError};
use crate::facts::unix_ns;
use crate::node::Orders;
use crate::report::chain;

/// Between two looks at whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long processes may take to end by themselves once the run is over.
const END: Duration = Duration::from_secs(5);
/// Lines of one process's stderr that are passed on.
const LINES_MAX: usize = 1000;

/// The server that the processes of a run talk over.
pub enum Nats {
    /// No process needs one.
    None,
    /// The user named one.
    Given(String),
    /// A private one, for as long as this value lives.
    Own(Server),
}

impl Nats {
    /// Where it is.
    pub fn url(&self) -> Option<&str> {
        match self {
            Nats::None => None,
            Nats::Given(url) => Some(url),
            Nats::Own(server) => Some(server.url()),
        }
    }
}

/// The server that `args` ask for.
///
/// # Errors
/// When none is given and none can be started, or flags contradict each other.
pub fn server(args: &Emulate) -> Result<Nats> {
    if args.placement == Placement::Embedded {
        return match &args.nats {
            Some(_) => Err(UsageError("--nats: only --placement processes talks over a server".to_owned()).into()),
            None => Ok(Nats::None),
        };
    }
    if !(args.part.only.is_empty() && args.part.without.is_empty()) {
        let why = "--placement processes runs every node: leave --only and --without out";
        return Err(UsageError(why.to_owned()).into());
    }
    if let Some(url) = &args.nats {
        probe(url)?;
        return Ok(Nats::Given(url.clone()));
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let launcher = [own.into_os_string(), OsString::from("child"), OsString::from("--")];
    let refuse = |why: ServerError| Refused(chain(&why));
    Ok(Nats::Own(Server::start(&launcher).map_err(refuse)?))
}

/// Whether the server at `url` answers and is new enough: known before anything is written.
fn probe(url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connected = runtime.block_on(rehearsal_bus::nats::Nats::connect(url, "rehearsal"));
    connected.map(|_| ()).map_err(|why| Refused(chain(&why)).into())
}

/// Leaves in `plan` what this process runs, tells `options` of the others, and gives their orders but for the node.
pub fn share(args: &Emulate, experiment: &Experiment, plan: &mut Plan, options: &mut EmuOptions, url: &str) -> Orders {
    let orders = Orders {
        experiment: experiment.resolved_toml(),
        source: experiment.source.clone(),
        base: experiment.base.clone(),
        repetition: plan.repetition,
        run: token(&experiment.name, unix_ns()),
        node: String::new(),
        nats: url.to_owned(),
        epoch_ns: Remote::epoch_now(),
        allow: args.allow.clone(),
        quantum_ns: options.quantum.as_nanos(),
        spin: options.spin,
        shards: options.shards,
    };
    options.remote = Some(Remote { url: url.to_owned(), epoch_ns: orders.epoch_ns, leads: true });
    orders.place(plan, |_, measured| !measured);
    orders
}

/// A run's token in subjects: runs of one experiment share a server without hearing each other.
fn token(name: &str, unix_ns: u64) -> String {
    let suffix = format!("-{:08x}", (unix_ns / 1000) as u32);
    let name: String = name.chars().take(TOKEN_CHARS_MAX - suffix.len()).collect();
    name + &suffix
}

/// The processes of a run. They end when this is dropped.
pub struct Fleet {
    members: Arc<Mutex<Vec<Member>>>,
    over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

struct Member {
    node: String,
    child: Child,
    ended: bool,
}

impl Fleet {
    /// Starts a process for each node that is not local. One that ends before its time is told to `control`.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn start(plan: &Plan, orders: &Orders, control: &Control) -> Result<Fleet> {
        let members = Arc::new(Mutex::new(Vec::new()));
        let mut fleet = Fleet { members: members.clone(), over: Arc::default(), watcher: None };
        for node in plan.nodes.iter().filter(|n| !n.local) {
            let child = spawn(&Orders { node: node.name.clone(), ..orders.clone() })
                .with_context(|| format!("cannot start a process for `{}`", node.name))?;
            lock(&members).push(Member { node: node.name.clone(), child, ended: false });
        }
        let (over, control) = (fleet.over.clone(), control.clone());
        let watch = move || {
            while !over.load(Ordering::Acquire) {
                for (node, why) in ended(&members) {
                    control.lose(&node, why);
                }
                thread::sleep(LOOK);
            }
        };
        fleet.watcher = Some(thread::Builder::new().name("fleet".to_owned()).spawn(watch)?);
        Ok(fleet)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take() {
            // it only sleeps and looks
            let _ = watcher.join();
        }
        let begun = Instant::now();
        while begun.elapsed() < END && !lock(&self.members).iter().all(|m| m.ended) {
            ended(&self.members);
            thread::sleep(LOOK);
        }
        for member in lock(&self.members).iter_mut().filter(|m| !m.ended) {
            eprintln!("{}: did not end by itself and is killed", member.node);
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn lock(members: &Mutex<Vec<Member>>) -> std::sync::MutexGuard<'_, Vec<Member>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes that have ended since the last look, and how.
fn ended(members: &Mutex<Vec<Member>>) -> Vec<(String, String)> {
    let mut all = lock(members);
    let open = all.iter_mut().filter(|m| !m.ended);
    open.filter_map(|member| {
        let status = member.child.try_wait().ok()??;
        member.ended = true;
        Some((member.node.clone(), format!("its process ended before the run did: {status}")))
    })
    .collect()
}

/// Starts a process, hands it its orders, and passes on what it says on stderr.
fn spawn(orders: &Orders) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("node");
    // Ctrl-C in a terminal goes to whole process groups: this process tells the others to drain
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let (mut stdin, stderr) = stdin.zip(stderr).context("its pipes are missing")?;
    // one that has died already is found by the watcher
    let _ = stdin.write_all(&serde_json::to_vec(orders)?);
    drop(stdin);
    let node = orders.node.clone();
    thread::Builder::new().name("stderr".to_owned()).spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        for (number, line) in lines.enumerate() {
            if number < LINES_MAX {
                eprintln!("{node}: {line}");
            }
        }
    })?;
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_fit_the_grammar_and_differ() {
        let long = "a".repeat(32);
        for name in ["uav-control", &long] {
            let token = token(name, 1_700_000_000_123_456_789);
            assert_eq!(rehearsal_core::subject::check_token(&token), Ok(()), "{token}");
        }
        assert_ne!(token("x", 1_000_000), token("x", 2_000_000));
    }
}
