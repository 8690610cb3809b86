//! One run from its threads to its end: the system, its shards, the steps of their life, and the watch over them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::Addr;
use actix_rt::{Arbiter, System};
use rehearsal_bus::{Inbox, Port};
use rehearsal_core::assembly::Assembly;
use rehearsal_core::messages::StopReason;
use rehearsal_core::run::{Fault, Progress, RunEnd};
use rehearsal_core::sink::Sink;
use rehearsal_core::{ActorId, Time};
use tokio::sync::{mpsc, oneshot};

use crate::bridge::{self, Bridge};
use crate::control::Control;
use crate::error::EmuError;
use crate::host::{Host, Query, Standing, Step};
use crate::notes::{Note, Notes};
use crate::options::EmuOptions;
use crate::placement;
use crate::preflight::{Bound, aimed_at, prepare};
use crate::sample::Usage;
use crate::seed::Seed;
use crate::store::{Keeper, Storing};
use crate::tls::Trust;
use crate::world::{Actors, World};

mod finish;
mod losing;
mod peers;
mod steering;

use losing::Registry;
use steering::Helm;

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
    let subjects = assembly.subjects.len();
    let beyond = options.remote.is_some().then(|| (bridge::outgoing(&assembly), aimed_at(&assembly)));
    let here = bound.iter().map(|b| (b.actor, b.address));
    let addresses: BTreeMap<_, _> = here.chain(checked.elsewhere.iter().copied()).collect();
    let trust = Trust::of(&assembly, bound.iter().map(|bound| bound.address.ip()))?;
    let (mut world, actors) = World::new(assembly, options, shard_of, checked.shards, addresses);
    world.trust = trust;
    let world = Arc::new(world);
    let shard_of = |actor| world.shard_of(actor);
    let ends = match beyond {
        None => Ends { shards: rehearsal_bus::local(&routes, subjects, world.shards, &shard_of), beyond: None },
        Some((heard, aims)) => {
            let mut shards = rehearsal_bus::local_and_beyond(&routes, &heard, world.shards, &shard_of);
            let beyond = shards.pop().map(|end| (end, aims));
            Ends { shards, beyond }
        }
    };
    let system = System::new();
    system.block_on(async {
        let mut supervisor = Supervisor::start(world, actors, bound, ends, sink, control, progress).await?;
        supervisor.until_stop().await;
        Ok(supervisor.finish().await)
    })
}

/// The ends of the local bus: one for each shard, and the one that leads out of the process with the receivers elsewhere
/// that senders here aim at.
struct Ends {
    shards: Vec<(Port, Inbox)>,
    beyond: Option<((Port, Inbox), BTreeSet<ActorId>)>,
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
    /// Over any stretch between two looks; `None` if the run was too short for one.
    cores_max: Option<f64>,
    /// Looks that came more than a second late: by so much in all.
    held_up: Duration,
    bridge: Option<Rc<Bridge>>,
    helm: Helm,
    losses: Registry,
    /// Nodes in other processes that will not tell their end.
    lost: BTreeSet<String>,
}

impl Supervisor {
    async fn start(
        world: Arc<World>,
        actors: Vec<Actors>,
        bound: Vec<Bound>,
        ends: Ends,
        sink: Box<dyn Sink>,
        control: Control,
        progress: Box<dyn FnMut(Progress) + Send>,
    ) -> Result<Supervisor, EmuError> {
        let (notes, received) = Notes::channel();
        let mut bridge = None;
        if let (Some(remote), Some((end, aims))) = (&world.options.remote, ends.beyond) {
            bridge = Some(Bridge::open(remote, &world, aims, end, &notes).await?);
        }
        let keeper = Keeper::new(world.clone());
        let (mut hosts, mut arbiters, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for seed in Seed::for_each(&world, actors, bound, ends.shards, &notes, &keeper) {
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
            cores_max: None,
            held_up: Duration::ZERO,
            bridge,
            helm: Helm::default(),
            losses: Registry::default(),
            lost: BTreeSet::new(),
        })
    }

    /// Watches until somebody stops the run: its controller, a signal, a fault.
    async fn until_stop(&mut self) {
        let mut next = tokio::time::Instant::now() + WATCH;
        while self.reason.is_none() {
            tokio::select! {
                Some(note) = self.notes.recv() => self.hear(note),
                () = self.control.told() => self.hear_control(),
                () = tokio::time::sleep_until(next) => {
                    // looks that were missed are not made up for
                    let now = tokio::time::Instant::now();
                    let late = now.duration_since(next);
                    next = (next + WATCH).max(now + WATCH / 2);
                    if late > WATCH {
                        self.held_up += late;
                    }
                    self.watch(late > WATCH).await;
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
            Note::Steer(steer) => self.helm.learn(steer),
            Note::Answer(answer) => self.answered(answer),
            Note::Ask(ask, reply) => self.ask_from_afar(ask, reply),
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

    /// The watchdog, and the progress. Whoever was held up itself, as by SIGSTOP, does not blame the shards for it.
    async fn watch(&mut self, held_up: bool) {
        self.look_at_usage();
        let now = self.world.clock.now();
        let patience = self.world.options.stuck_after;
        for shard in 0..self.hosts.len() {
            let last = Time::from_nanos(self.world.shared.beats[shard].load(Ordering::Relaxed));
            if !self.hosts[shard].connected() {
                self.hear(Note::Broken(shard));
            } else if !held_up && now.since(last) > patience && self.stuck.insert(shard) {
                self.fault(format!("shard {shard} did not answer for {} s: an actor blocks", patience.as_secs_f64()));
            }
        }
        for why in self.bridge.as_ref().map(|b| b.forbidden()).unwrap_or_default() {
            self.fault(why);
        }
        if !held_up {
            self.watch_others().await;
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

    fn look_at_usage(&mut self) {
        let cores = self.usage.since_last();
        self.cores_max = self.cores_max.into_iter().chain(cores).reduce(f64::max);
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
