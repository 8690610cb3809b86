//! `[provision]`: a lab's own commands that make the hosts of an experiment before agents are looked for, and take them away
//! when the run is over, however it ended.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_scenario::Experiment;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use crate::connection::SECRET_VARIABLES;
use crate::exit::{Refused, Stopped};
use crate::signals::Signals;

/// Between two looks at whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command that is told to end may take to do so.
const LEAVE: Duration = Duration::from_secs(5);

/// Hosts that were made; they are taken away when this is dropped.
pub struct Provision(());

/// The command that takes them away, for as long as it was not run: a process that ends at once starts it all the same.
static DESTROY: Mutex<Option<Hook>> = Mutex::new(None);

/// One of the commands with its surroundings.
#[derive(Clone, Debug)]
struct Hook {
    name: &'static str,
    words: Vec<String>,
    patience: Duration,
    variables: Vec<(&'static str, String)>,
}

/// What a command is told of one host.
#[derive(Debug, Serialize)]
struct HostWanted<'a> {
    /// Its name in the experiment; none for nodes that may run anywhere.
    name: Option<&'a str>,
    /// Its cores in the experiment.
    cores: Option<u32>,
    /// Its memory in the experiment.
    memory_bytes: Option<u64>,
    /// Labels that its agent must have.
    labels: std::collections::BTreeMap<String, String>,
    /// The name that its agent must have.
    agent: Option<&'a str>,
    /// Cores that its nodes need.
    vcpu: f64,
    /// Memory that its nodes need.
    needed_bytes: u64,
    /// Node instances.
    nodes: Vec<String>,
}

impl Provision {
    /// Runs `create`, if the experiment has a `[provision]`. From then on `destroy` will run.
    ///
    /// # Errors
    /// When it fails, takes too long, or a signal comes meanwhile.
    pub fn create(
        experiment: &Experiment,
        nats: &ConnectSettings,
        run: &str,
        signals: &Signals,
    ) -> Result<Option<Provision>> {
        let Some(table) = &experiment.provision else { return Ok(None) };
        let hosts = serde_json::to_string(&hosts(experiment))?;
        let variables =
            vec![("REHEARSAL_NATS", nats.shown()), ("REHEARSAL_RUN", run.to_owned()), ("REHEARSAL_HOSTS", hosts)];
        let hook = |name, words: &[String]| Hook {
            name,
            words: words.to_vec(),
            patience: table.timeout.to_std(),
            variables: variables.clone(),
        };
        *DESTROY.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook("provision.destroy", &table.destroy));
        let made = Provision(());
        let created = hook("provision.create", &table.create).run(|| signals.code().is_some());
        if let Some(code) = signals.code() {
            return Err(Stopped(code).into());
        }
        created.map_err(Refused)?;
        Ok(Some(made))
    }

    /// Starts what takes hosts away, without waiting for it: this process ends at once.
    pub fn abandon() {
        let Some(hook) = DESTROY.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        match hook.start() {
            Ok(Some(_)) => eprintln!("{} goes on by itself", hook.name),
            Ok(None) => {}
            Err(why) => eprintln!("{why}"),
        }
    }
}

impl Drop for Provision {
    fn drop(&mut self) {
        let hook = DESTROY.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(why)) = hook.map(|hook| hook.run(|| false)) {
            eprintln!("error: {why}: hosts may be left behind");
        }
    }
}

impl Hook {
    /// Runs it to its end; `stop` ends it before.
    fn run(&self, stop: impl Fn() -> bool) -> Result<(), String> {
        let Some(mut child) = self.start()? else { return Ok(()) };
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("{} failed: {status}", self.name)),
                Ok(None) => {}
                Err(why) => return Err(format!("{} cannot be waited for: {why}", self.name)),
            }
            if begun.elapsed() >= self.patience {
                end(&mut child);
                return Err(format!("{} did not end within {:?} and was ended", self.name, self.patience));
            }
            if stop() {
                end(&mut child);
                return Err(format!("{} was interrupted", self.name));
            }
            thread::sleep(LOOK);
        }
    }

    /// Starts it in a process group of its own; `None` if there is no such command. What it says goes to stderr.
    fn start(&self) -> Result<Option<Child>, String> {
        let Some((program, arguments)) = self.words.split_first() else { return Ok(None) };
        let failed = |why: std::io::Error| format!("{}: {program} cannot be started: {why}", self.name);
        let mut command = Command::new(program);
        SECRET_VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
        command.args(arguments).process_group(0).stdin(Stdio::null());
        for secret in crate::connection::SECRET_VARIABLES {
            command.env_remove(secret);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdout(std::io::stderr().as_fd().try_clone_to_owned().map_err(failed)?);
        command.spawn().map(Some).map_err(failed)
    }
}

/// Ends a command with what it has started: first asked, then told.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    // a group that is gone is what is wanted
    let _ = kill_process_group(group, Signal::TERM);
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < LEAVE {
        thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Every host with its nodes, then the nodes that may run anywhere.
fn hosts(experiment: &Experiment) -> Vec<HostWanted<'_>> {
    let nodes = |row: Option<usize>| {
        let here = experiment.nodes.iter().filter(move |node| node.measured && !node.foreign && node.host == row);
        here.flat_map(|node| (0..node.count()).map(move |index| (node, node.instance(index))))
    };
    let wanted = |row: Option<usize>| {
        let host = row.map(|row| &experiment.hosts[row]);
        HostWanted {
            name: host.map(|host| host.name.as_str()),
            cores: host.map(|host| host.cores),
            memory_bytes: host.and_then(|host| host.memory).map(|memory| memory.0),
            labels: host.map(|host| host.labels.clone()).unwrap_or_default(),
            agent: host.and_then(|host| host.agent.as_deref()),
            vcpu: nodes(row).filter_map(|(node, _)| node.vcpu).sum(),
            needed_bytes: nodes(row).filter_map(|(node, _)| node.memory).map(|memory| memory.0).sum(),
            nodes: nodes(row).map(|(_, name)| name).collect(),
        }
    };
    let named = (0..experiment.hosts.len()).map(|row| wanted(Some(row)));
    let anywhere = std::iter::once(wanted(None)).filter(|host| !host.nodes.is_empty());
    named.chain(anywhere).collect()
}
