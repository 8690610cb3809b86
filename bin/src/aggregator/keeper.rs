//! The leader's side of a process that stores: started, started again when it is killed, and asked for the bundle.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rehearsal_core::messages::StopReason;
use rehearsal_emu::Control;
use rehearsal_export::{Finished, RunFacts};

use super::{Answer, READER, Task};
use crate::exit::Refused;
use crate::live::Alarm;
use crate::processes::from_lasting_thread;
use crate::unfinished::Unfinished;

/// Times that it is started again. Assumed: what kills it a fourth time is no accident.
const RESTARTS_MAX: u32 = 3;
/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long it may take to begin a bundle. Assumed: it prepares no media that the leader has not prepared before.
const BEGIN: Duration = Duration::from_secs(60);
/// Answers that may wait to be heard: more than it gives.
const ANSWERS_MAX: usize = 16;
/// How long it may take to read what the server keeps and to finish the bundle.
const FINISH: Duration = Duration::from_secs(120);

/// A process that stores. It is killed when this is dropped.
pub struct Keeper {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

struct Shared {
    task: Task,
    unfinished: Unfinished,
    over: AtomicBool,
    /// Whether it has stored anything that is worth keeping.
    stored: Arc<AtomicBool>,
    /// Told when a threshold does not hold.
    alarm: Alarm,
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<Answer>,
    restarts: u32,
    /// Folders that earlier processes began.
    before: Vec<PathBuf>,
    partial: PathBuf,
}

impl Keeper {
    /// Starts the process of `task` and waits until it has begun the bundle.
    ///
    /// # Errors
    /// When it cannot be started, or the bundle cannot be begun.
    pub fn start(task: Task, alarm: Alarm, unfinished: &Unfinished) -> Result<(PathBuf, Keeper)> {
        let stored: Arc<AtomicBool> = Arc::default();
        let (child, stdin, answers, partial) = launch(&task, 0, unfinished, &stored, &alarm)?;
        let process = Process { child, stdin, answers, restarts: 0, before: Vec::new(), partial: partial.clone() };
        let over = AtomicBool::new(false);
        let shared = Shared { task, unfinished: unfinished.clone(), over, stored, alarm, process: Mutex::new(process) };
        Ok((partial, Keeper { shared: Arc::new(shared), watcher: None }))
    }

    /// Starts it again whenever it ends before its time. When that has happened too often the run is stopped.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn watch(&mut self, control: &Control) -> Result<()> {
        let (shared, control) = (self.shared.clone(), control.clone());
        let watch = move || {
            while !shared.over.load(Ordering::Acquire) {
                if let Err(why) = shared.process().keep_alive(&shared) {
                    eprintln!("aggregator: {why:#}");
                    return control.stop(StopReason::Fault);
                }
                thread::sleep(LOOK);
            }
        };
        self.watcher = Some(thread::Builder::new().name("aggregator".to_owned()).spawn(watch)?);
        Ok(())
    }

    /// Hands over how the run ended, and waits for the bundle.
    ///
    /// # Errors
    /// When it does not come about.
    pub fn finish(mut self, mut facts: RunFacts) -> Result<Finished> {
        self.stop_watching();
        let shared = self.shared.clone();
        let mut process = shared.process();
        loop {
            process.keep_alive(&shared)?;
            let mut told = facts.clone();
            told.notes.extend(process.note());
            let mut line = serde_json::to_vec(&told)?;
            line.push(b'\n');
            // one that has died meanwhile is found below
            let _ = process.stdin.write_all(&line).and_then(|()| process.stdin.flush());
            match process.answer(FINISH) {
                Some(Answer::Finished(finished)) => {
                    let _ = process.child.wait();
                    process.forget_before();
                    return Ok(*finished);
                }
                Some(Answer::Failed(why)) => bail!(why),
                _ => {
                    facts.notes.push("the process that stores did not finish the bundle at its first try".to_owned());
                    // it may stand still: what it has not stored is read again
                    let _ = process.child.kill();
                    let _ = process.child.wait();
                }
            }
        }
    }

    fn stop_watching(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take() {
            // it only looks, and starts a process that is told to end in any case
            let _ = watcher.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop_watching();
        let mut process = self.shared.process();
        if matches!(process.child.try_wait(), Ok(None)) {
            // one that ends by itself at this moment is as good
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if !self.shared.stored.load(Ordering::Acquire) && process.partial.is_dir() {
            // a folder that nothing was recorded in leaves no trace
            let _ = fs::remove_dir_all(&process.partial);
        }
    }
}

impl Shared {
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Starts another in place of one that has ended.
    fn keep_alive(&mut self, shared: &Shared) -> Result<()> {
        let Ok(Some(status)) = self.child.try_wait() else { return Ok(()) };
        if self.restarts == RESTARTS_MAX {
            bail!("the process that stores ended {} times, the last time with {status}", RESTARTS_MAX + 1);
        }
        self.restarts += 1;
        eprintln!("aggregator: its process ended before the run did ({status}) and is started again");
        self.set_aside()?;
        let (child, stdin, answers, partial) =
            launch(&shared.task, self.restarts, &shared.unfinished, &shared.stored, &shared.alarm)?;
        (self.child, self.stdin, self.answers, self.partial) = (child, stdin, answers, partial);
        Ok(())
    }

    /// What an earlier process stored is kept until a later one has stored it too.
    fn set_aside(&mut self) -> Result<()> {
        if !self.partial.is_dir() {
            return Ok(());
        }
        let mut name = self.partial.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{}", self.restarts));
        let aside = self.partial.with_file_name(name);
        fs::rename(&self.partial, &aside).with_context(|| format!("cannot set {} aside", self.partial.display()))?;
        self.before.push(aside);
        Ok(())
    }

    fn forget_before(&mut self) {
        for folder in self.before.drain(..) {
            // a remainder harms nobody, and its name says what it is
            let _ = fs::remove_dir_all(folder);
        }
    }

    fn note(&self) -> Option<String> {
        let times = match self.restarts {
            0 => return None,
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        Some(format!(
            "the process that stores was started again {times}: it read the run's telemetry again from its beginning"
        ))
    }

    /// The next answer that says how it went; `None` if the process ends, or takes too long.
    fn answer(&mut self, patience: Duration) -> Option<Answer> {
        until(&self.answers, patience)
    }
}

fn until(answers: &Receiver<Answer>, patience: Duration) -> Option<Answer> {
    let end = Instant::now() + patience;
    loop {
        match answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Answer::Stored) => {}
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
}

type Launched = (Child, ChildStdin, Receiver<Answer>, PathBuf);

fn launch(
    task: &Task,
    restarts: u32,
    unfinished: &Unfinished,
    stored: &Arc<AtomicBool>,
    alarm: &Alarm,
) -> Result<Launched> {
    let task = Task { reader: format!("{READER}-{}", restarts + 1), restarts, ..task.clone() };
    let mut command = Command::new(program()?);
    command.arg0("rehearsal").arg("aggregator");
    // Ctrl-C in a terminal goes to whole process groups: this one goes on until everybody has ended
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = from_lasting_thread(command).context("cannot start the process that stores")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (mut stdin, stdout) = stdin.zip(stdout).context("its pipes are missing")?;
    let mut line = serde_json::to_vec(&task)?;
    line.push(b'\n');
    // one that has died already gives no answer
    let _ = stdin.write_all(&line).and_then(|()| stdin.flush());
    let (said, answers) = sync_channel(ANSWERS_MAX);
    let (unfinished, stored, partial) = (unfinished.clone(), stored.clone(), partial(&task.bundle));
    let alarm = alarm.clone();
    thread::Builder::new().name("answers".to_owned()).spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Ok(answer) = serde_json::from_str::<Answer>(&line) else { continue };
            if let Answer::Aborted(aborted) = answer {
                alarm.ring(aborted);
                continue;
            }
            if matches!(answer, Answer::Stored) {
                stored.store(true, Ordering::Release);
                unfinished.keep(&partial);
            }
            if said.send(answer).is_err() {
                return;
            }
        }
    })?;
    match until(&answers, BEGIN) {
        Some(Answer::Begun(partial)) => Ok((child, stdin, answers, partial)),
        Some(Answer::Refused(why)) => Err(Refused(why).into()),
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the process that stores did not begin")
        }
    }
}

/// This very program, also if its file was replaced while the run goes on.
fn program() -> Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe().context("cannot find this program") }
}

fn partial(bundle: &Path) -> PathBuf {
    let mut name = bundle.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    bundle.with_file_name(name)
}
