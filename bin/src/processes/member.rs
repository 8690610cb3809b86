//! One node's process: started with its orders, listened to, watched, ended. Whoever runs processes on a host uses it.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use anyhow::{Context as _, Result};
use rehearsal_core::units::ByteSize;
use rehearsal_host::cgroup::{Cgroups, Group};
use rehearsal_host::machine;
use rehearsal_host::network::Network;
use rustix::process::Signal;

use super::network::reached;
use crate::connection::SECRET_VARIABLES;
use crate::node::Orders;

/// Lines of one process's stderr that are passed on.
const LINES_MAX: usize = 1000;

/// How processes of nodes are started on this host.
#[derive(Clone)]
pub struct Home {
    program: PathBuf,
    said: Arc<Said>,
    groups: Option<Cgroups>,
    network: Option<Weak<Network>>,
    machine: String,
}

/// Hears each line that a node says on stderr: the node, then the line.
pub type Said = dyn Fn(&str, &str) + Send + Sync;

impl Home {
    /// Processes of this program; what they say on stderr goes to `said`.
    ///
    /// # Errors
    /// When the program cannot find itself.
    pub fn new(said: impl Fn(&str, &str) + Send + Sync + 'static) -> Result<Home> {
        // its path may lead to another version by now: an agent lives long
        let program = PathBuf::from("/proc/self/exe");
        std::fs::metadata(&program).context("cannot find this program")?;
        Ok(Home { program, said: Arc::new(said), groups: None, network: None, machine: machine::name() })
    }

    /// The same, which passes on to this process's stderr what nodes say, each line behind its node's name.
    ///
    /// # Errors
    /// When the program cannot find itself.
    pub fn on_stderr() -> Result<Home> {
        Home::new(|node, line| eprintln!("{node}: {line}"))
    }

    /// The same, with each process in a control group of its own that holds it to its limits.
    #[must_use]
    pub fn within(self, groups: Option<Cgroups>) -> Home {
        Home { groups, ..self }
    }

    /// The same, with each process in a network namespace of its own, if the network has one for it. Whoever made the
    /// network keeps it.
    #[must_use]
    pub fn on(self, network: Option<&Arc<Network>>) -> Home {
        Home { network: network.map(Arc::downgrade), ..self }
    }

    /// The same on a machine that has this name in the run's fleet.
    #[must_use]
    pub fn named(self, machine: &str) -> Home {
        Home { machine: machine.to_owned(), ..self }
    }

    /// The machine's name.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Starts the process of the node that `orders` name.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn launch(&self, orders: &Orders) -> Result<Member> {
        self.spawn(orders).with_context(|| format!("cannot start a process for `{}`", orders.node))
    }

    fn spawn(&self, orders: &Orders) -> Result<Member> {
        let create = |groups: &Cgroups| groups.create(&orders.run, &orders.node, orders.limits);
        let group = self.groups.as_ref().map(create).transpose()?;
        let mut orders = Orders { meter: group.as_ref().map(|g| g.meter().clone()), ..orders.clone() };
        let network =
            self.network.as_ref().map(|network| network.upgrade().context("the network is gone")).transpose()?;
        let space = network.as_ref().and_then(|network| Some((network, network.space(&orders.node)?)));
        if let Some((network, space)) = space {
            orders.own_network = true;
            orders.listen = Some(space.address().into());
            orders.allow.push(network.range().to_string());
            orders.nats = reached(network, &orders.nats)?;
        }
        let mut command = Command::new(&self.program);
        if group.is_some() || space.is_some() {
            command.arg("child");
            let folders = group.iter().flat_map(Group::folders);
            folders.for_each(|folder| _ = command.arg("--group").arg(folder));
            space.iter().for_each(|(_, space)| _ = command.arg("--space").arg(space.path()));
            command.arg("--").arg(&self.program);
        }
        command.arg("node");
        // Ctrl-C in a terminal goes to whole process groups: this process tells the others to drain
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = from_lasting_thread(command)?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let (mut stdin, stderr) = stdin.zip(stderr).context("its pipes are missing")?;
        // one that has died already is found by whoever watches
        let _ = stdin.write_all(&serde_json::to_vec(&orders)?);
        drop(stdin);
        let (node, said) = (orders.node.clone(), self.said.clone());
        thread::Builder::new().name("stderr".to_owned()).spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            for (number, line) in lines.enumerate() {
                if number < LINES_MAX {
                    said(&node, &line);
                }
            }
        })?;
        Ok(Member { node: orders.node, child, ended: None, group })
    }
}

/// A node's process. It is killed when this is dropped.
pub struct Member {
    node: String,
    child: Child,
    ended: Option<Ended>,
    /// Removed when all processes in it have ended.
    group: Option<Group>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What the kernel says.
    pub status: ExitStatus,
    /// The memory limit, bytes, if the kernel killed a process because its group had reached it.
    pub out_of_memory: Option<u64>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.out_of_memory {
            Some(bytes) => write!(f, "killed by the kernel: it reached its memory limit of {}", spaced(bytes)),
            None => write!(f, "its process ended before the run did: {}", self.status),
        }
    }
}

/// A number of bytes for a sentence: `64 MiB`.
fn spaced(bytes: u64) -> String {
    let text = ByteSize(bytes).to_string();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..unit], &text[unit..])
}

impl Member {
    /// The node instance.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn try_ended(&mut self) -> Option<&Ended> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(Ended { status, out_of_memory: self.out_of_memory(status) });
        }
        self.ended.as_ref()
    }

    /// Ends it at once, if it still runs.
    pub fn kill(&mut self) {
        if self.try_ended().is_none() {
            // one that ends by itself at this moment is as good
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.try_ended();
        }
    }
}

impl Member {
    /// The limit that ended it: the kernel kills with SIGKILL, and counts that.
    fn out_of_memory(&self, status: ExitStatus) -> Option<u64> {
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        let meter = self.group.as_ref()?.meter();
        meter.limits().memory_bytes.filter(|_| killed && meter.usage().oom_kills.is_some_and(|n| n > 0))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

type Wish = (Command, SyncSender<std::io::Result<Child>>);

/// Wishes that may wait; whoever has another one waits too.
const WISHES_MAX: usize = 16;

/// Starts `command` from a thread that lasts as long as this process: a process that asks the kernel to be ended with its
/// parent ends with the thread that started it (prctl(2), PR_SET_PDEATHSIG).
pub(crate) fn from_lasting_thread(mut command: Command) -> Result<Child> {
    SECRET_VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
    static STARTER: OnceLock<SyncSender<Wish>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (wishes, wished) = sync_channel::<Wish>(WISHES_MAX);
        thread::spawn(move || {
            for (mut command, answer) in wished {
                // whoever asked waits for the answer
                let _ = answer.send(command.spawn());
            }
        });
        wishes
    });
    let (answer, answered) = sync_channel(1);
    starter.send((command, answer)).context("nobody starts processes")?;
    Ok(answered.recv().context("nobody starts processes")??)
}
