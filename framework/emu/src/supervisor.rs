//! One run from its threads to its end: the system, its shards, the steps of their life, and the watch over them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::Addr;
use actix_rt::{Arbiter, System};
use rehearsal_bus::{Inbox, Port};
use rehearsal_core::Time;
use rehearsal_core::assembly::Assembly;
use rehearsal_core::messages::StopReason;
use rehearsal_core::run::{Fault, Progress, RunEnd};
use rehearsal_core::sink::Sink;
use tokio::sync::{mpsc, oneshot};

use crate::control::Control;
use crate::error::EmuError;
use crate::host::{Host, Query, Standing, Step};
use crate::notes::{Note, Notes};
use crate::options::EmuOptions;
use crate::placement;
use crate::preflight::{Bound, prepare};
use crate::sample::Usage;
use crate::seed::Seed;
use crate::store::{Keeper, Storing};
use crate::world::{Actors, World};

mod finish;

/// Between two looks at the shards while they drain.
const LOOK: Duration = Duration::from_millis(5);
/// Between two looks at them while the run goes on, and between two calls of `progress`.
const WATCH: Duration = Duration::from_secs(1);
/// After the grace, the longest time until everything has ended.
const HARD_STOP: Duration = Duration::from_secs(5);

/// Runs `assembly` in real time and returns when it has ended.
///
/// Blocks the calling thread, which must not run an asynchronous runtime. Records go to `sink` from a thread of its
/// own; `progress` is called about once a second, on the calling thread. Any number of runs may follow each other.
///
/// # Errors
/// [`EmuError`] if the run was refused ([`EmuError::is_refusal`]), or could not be started. What goes wrong later is a
/// fault in [`RunEnd::faults`].
pub fn run(
    assembly: Assembly,
    options: EmuOptions,
    sink: Box<dyn Sink>,
    control: Control,
    progress: Box<dyn FnMut(Progress) + Send>,
) -> Result<RunEnd, EmuError> {
    let (checked, bound) = prepare(&assembly, &options)?;
    let shard_of = placement::place(&assembly, checked.shards);
    let routes = assembly.routes();
    let subjects = assembly.subjects.names().len() as u32;
    let here = bound.iter().map(|b| (b.actor, b.address));
    let addresses: BTreeMap<_, _> = here.chain(checked.elsewhere.iter().copied()).collect();
    let (world, actors) = World::new(assembly, options, shard_of, checked.shards, addresses);
    let world = Arc::new(world);
    let ends = rehearsal_bus::local(&routes, subjects, world.shards, &|actor| world.shard_of(actor));
    let system = System::new();
    system.block_on(async {
        let mut supervisor = Supervisor::start(world, actors, bound, ends, sink, control, progress).await?;
        supervisor.until_stop().await;
        Ok(supervisor.finish().await)
    })
}

/// What watches over a run.
struct Supervisor {
    world: Arc<World>,
    hosts: Vec<Addr<Host>>,
    arbiters: Vec<Arbiter>,
    /// Each resolves when its shard's thread has let go of everything.
    gone: Vec<oneshot::Receiver<()>>,
    notes: mpsc::Receiver<Note>,
    storing: Storing,
    control: Control,
    progress: Box<dyn FnMut(Progress) + Send>,
    reason: Option<StopReason>,
    stuck: BTreeSet<usize>,
    faults: Vec<Fault>,
    facts: BTreeMap<String, u64>,
    usage: Usage,
    cores_max: f64,
}

impl Supervisor {
    async fn start(
        world: Arc<World>,
        actors: Vec<Actors>,
        bound: Vec<Bound>,
        ends: Vec<(Port, Inbox)>,
        sink: Box<dyn Sink>,
        control: Control,
        progress: Box<dyn FnMut(Progress) + Send>,
    ) -> Result<Supervisor, EmuError> {
        let (notes, received) = Notes::channel();
        let keeper = Keeper::new(world.clone());
        let (mut hosts, mut arbiters, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for seed in Seed::for_each(&world, actors, bound, ends, &notes, &keeper) {
            let (arbiter, host, end) = seed.plant().await?;
            arbiters.push(arbiter);
            hosts.push(host);
            gone.push(end);
        }
        let storing = keeper
            .start(sink, hosts.clone())
            .map_err(|source| EmuError::Start { what: "the thread that stores records", source })?;
        for host in &hosts {
            host.do_send(Step::Start);
        }
        Ok(Supervisor {
            world,
            hosts,
            arbiters,
            gone,
            notes: received,
            storing,
            control,
            progress,
            reason: None,
            stuck: BTreeSet::new(),
            faults: Vec::new(),
            facts: BTreeMap::new(),
            usage: Usage::now(),
            cores_max: 0.0,
        })
    }

    /// Watches until somebody stops the run: its controller, a signal, a fault.
    async fn until_stop(&mut self) {
        let mut next = tokio::time::Instant::now() + WATCH;
        while self.reason.is_none() {
            tokio::select! {
                Some(note) = self.notes.recv() => self.hear(note),
                () = self.control.told() => self.reason = self.control.reason(),
                () = tokio::time::sleep_until(next) => {
                    next += WATCH;
                    self.watch().await;
                }
            }
        }
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Start => {
                if let Some(at) = self.world.start() {
                    self.tell(|| Step::Begin(at));
                }
            }
            Note::Stop(reason) => _ = self.reason.get_or_insert(reason),
            Note::Broken(shard) if self.stuck.insert(shard) => {
                self.fault(format!("shard {shard} ended before its time: this is a bug"));
            }
            Note::Broken(_) => {}
            Note::Fact(text) => *self.facts.entry(text).or_default() += 1,
        }
    }

    fn fault(&mut self, text: String) {
        let at = self.world.clock.now();
        self.faults.push(Fault { at, node: String::new(), actor: String::new(), text });
        self.reason.get_or_insert(StopReason::Fault);
    }

    fn tell(&self, step: impl Fn() -> Step) {
        self.hosts.iter().for_each(|host| host.do_send(step()));
    }

    /// The watchdog, and the progress.
    async fn watch(&mut self) {
        self.cores_max = self.cores_max.max(self.usage.since_last().unwrap_or(0.0));
        let now = self.world.clock.now();
        let patience = self.world.options.stuck_after;
        for shard in 0..self.hosts.len() {
            let last = Time::from_nanos(self.world.shared.beats[shard].load(Ordering::Relaxed));
            if !self.hosts[shard].connected() {
                self.hear(Note::Broken(shard));
            } else if now.since(last) > patience && self.stuck.insert(shard) {
                self.fault(format!("shard {shard} did not answer for {} s: an actor blocks", patience.as_secs_f64()));
            }
        }
        let states = self.ask(WATCH / 2).await;
        let sum = |of: fn(&Standing) -> u64| states.iter().flatten().map(of).sum();
        (self.progress)(Progress {
            at: now,
            start: self.world.start(),
            stopping: self.reason.is_some(),
            events: sum(|s| s.events),
            generated: sum(|s| s.generated),
            settled: sum(|s| s.settled),
        });
    }

    /// Asks every shard how it stands; `None` where none answers within `patience`.
    async fn ask(&self, patience: Duration) -> Vec<Option<Standing>> {
        let mut states = Vec::new();
        let end = tokio::time::Instant::now() + patience;
        let asked: Vec<_> = self.hosts.iter().map(|host| host.send(Query)).collect();
        for (shard, answer) in asked.into_iter().enumerate() {
            if self.stuck.contains(&shard) {
                states.push(None);
                continue;
            }
            states.push(tokio::time::timeout_at(end, answer).await.ok().and_then(Result::ok));
        }
        states
    }
}
