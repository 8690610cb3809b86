//! One run's claim on agents: what they hold for it, from the reservation to the release. An error on the way lets go of
//! all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::stream::{self, StreamExt as _};
use rehearsal_bus::clock::Track;
use rehearsal_bus::fleet::{FleetBus, FleetError};
use rehearsal_core::fleet::{
    Card, Collect, Collected, Done, Halt, Launch, Need, Relaunch, Release, Reserve, Standing, Step, Watch,
};
use rehearsal_core::plan::Plan;
use rehearsal_core::{Body, Message};
use rehearsal_emu::Control;
use rehearsal_scenario::Experiment;

use super::base::AT_ONCE;
use super::left::{HostLeft, Left};
use super::place::{self, Placement};
use super::ship;
use super::watch::Watched;
use super::{ANSWER, Base};
use crate::agent::clock_id;
use crate::exit::Refused;
use crate::node::Orders;
use crate::report::chain;

/// An agent keeps its nodes for so long after they have given up a silent leader by themselves.
const LEASE_EXTRA: Duration = Duration::from_secs(5);
/// How long an agent may take to bring files and start nodes.
const LAUNCH: Duration = Duration::from_secs(150);
/// How long nodes may take to end by themselves once the run is over.
const END: Duration = Duration::from_secs(5);
/// Between two looks at whether they have.
const LOOK: Duration = Duration::from_millis(50);
/// Agents whose clocks are read at once: more would make each other late.
const CLOCKS_AT_ONCE: usize = 2;
/// Questions to an agent that does not answer. Each step may be asked for again.
const TRIES: u32 = 2;

/// What agents hold for a run. It is let go of when this is dropped.
pub struct Claim<'a> {
    base: &'a Base,
    run: String,
    placement: Placement,
    cards: BTreeMap<String, Card>,
    tracks: BTreeMap<String, Arc<Mutex<Option<Track>>>>,
    over: Arc<AtomicBool>,
    ended: bool,
}

impl<'a> Claim<'a> {
    /// Places the nodes of `plan` that are not local, and brings them to where they wait for the controller. From then on
    /// what becomes of them is told to `control`.
    ///
    /// # Errors
    /// When there is no room, or an agent refuses.
    pub fn take(
        base: &'a Base,
        experiment: &Experiment,
        plan: &Plan,
        orders: &Orders,
        control: &Control,
        quiet: bool,
    ) -> Result<Claim<'a>> {
        let cards = base.scan()?;
        let placement = place::place(plan, &cards).map_err(Refused)?;
        if !quiet {
            eprint!("placement:\n{}", place::words(&placement));
        }
        let used = cards.into_iter().filter(|card| placement.contains_key(&card.agent));
        let cards: BTreeMap<String, Card> = used.map(|card| (card.agent.clone(), card)).collect();
        let tracks = cards.keys().map(|agent| (agent.clone(), Arc::default())).collect();
        let run = orders.run.clone();
        let claim = Claim { base, run, placement, cards, tracks, over: Arc::default(), ended: false };
        claim.same_version()?;
        claim.reserve(plan.info.on_loss.leader_silent_after().to_std() + LEASE_EXTRA)?;
        // what follows may take longer than a lease
        for watched in claim.watched() {
            base.beside(watched.watch(control.clone()));
        }
        claim.read_clocks()?;
        claim.launch(experiment, orders)?;
        claim.offer_restarts(control);
        Ok(claim)
    }

    /// The run is over: clocks are read once more, what nodes left is collected, agents are let go.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn end(mut self) -> Result<Left> {
        self.over.store(true, Ordering::Release);
        let watched = self.watched();
        self.base.wait(async move {
            let read = watched.into_iter().map(|one| async move { one.read_clock().await });
            stream::iter(read).buffer_unordered(CLOCKS_AT_ONCE).collect::<Vec<()>>().await;
        })?;
        if !self.have_ended()? {
            eprintln!("nodes that did not end by themselves are ended");
            self.each::<Done>(Step::Stop, ANSWER, |_| Body::new(Halt { run: self.run.clone() }))?;
        }
        let left = self.collect()?;
        self.release();
        self.ended = true;
        Ok(left)
    }

    fn same_version(&self) -> Result<(), Refused> {
        let own = env!("CARGO_PKG_VERSION");
        let other = self.cards.values().find(|card| card.version != own);
        other.map_or(Ok(()), |card| {
            Err(Refused(format!(
                "agent `{}` is version {}, this is {own}: install one version on all",
                card.agent, card.version
            )))
        })
    }

    fn watched(&self) -> Vec<Watched> {
        let one = |(agent, needs): (&String, &Vec<Need>)| Watched {
            bus: self.base.bus(),
            run: self.run.clone(),
            agent: agent.clone(),
            nodes: needs.iter().map(|need| need.node.clone()).collect(),
            track: self.tracks[agent].clone(),
            over: self.over.clone(),
        };
        self.placement.iter().map(one).collect()
    }

    fn reserve(&self, lease: Duration) -> Result<()> {
        let leader = format!("{}:{}", rustix::system::uname().nodename().to_string_lossy(), std::process::id());
        let lease_ms = lease.as_millis() as u64;
        self.all::<Done>(Step::Reserve, ANSWER, |agent| {
            let nodes = self.placement[agent].clone();
            Body::new(Reserve { run: self.run.clone(), leader: leader.clone(), nodes, lease_ms })
        })
        .map(drop)
    }

    fn read_clocks(&self) -> Result<()> {
        let own = clock_id();
        let asked: Vec<(String, bool)> =
            self.cards.iter().map(|(agent, card)| (agent.clone(), card.clock.id == own)).collect();
        let bus = self.base.bus();
        let found = self.base.wait(async move {
            let read = asked.into_iter().map(|(agent, same)| {
                let bus = bus.clone();
                async move { bus.offset(&agent).await.map(|first| (agent, Track::new(first, same))) }
            });
            stream::iter(read).buffer_unordered(CLOCKS_AT_ONCE).collect::<Vec<_>>().await
        })?;
        for each in found {
            // nobody can start at a common time without it
            let (agent, track) = each.map_err(|why| Refused(chain(&why)))?;
            *self.tracks[&agent].lock().unwrap_or_else(PoisonError::into_inner) = Some(track);
        }
        Ok(())
    }

    fn launch(&self, experiment: &Experiment, orders: &Orders) -> Result<()> {
        let (bus, shipped) = (self.base.bus(), experiment.clone());
        let parcel = self.base.wait(async move {
            let files = if ship::has_files(&shipped) { Some(bus.files().await?) } else { None };
            ship::pack(files.as_ref(), shipped).await
        })?;
        let parcel = parcel.map_err(|why| Refused(chain(&why)))?;
        let mut text = serde_json::to_value(Orders { experiment: parcel.text, ..orders.clone() })?;
        // each agent has its own way to the server, and its own folder
        text["nats"] = serde_json::Value::Null;
        text["base"] = serde_json::Value::Null;
        let text = text.to_string();
        let peers: BTreeMap<String, IpAddr> = self
            .placement
            .iter()
            .flat_map(|(agent, needs)| needs.iter().map(|need| (need.node.clone(), self.cards[agent].address)))
            .collect();
        self.all::<Done>(Step::Launch, LAUNCH, |agent| {
            let epoch_ns = self.track(agent).map_or(orders.epoch_ns, |track| track.theirs(orders.epoch_ns));
            let (experiment, files, peers) = (parcel.file.clone(), parcel.files.clone(), peers.clone());
            Body::new(Launch { run: self.run.clone(), orders: text.clone(), epoch_ns, experiment, files, peers })
        })
        .map(drop)
    }

    /// Lost nodes can be started again where they were.
    fn offer_restarts(&self, control: &Control) {
        let agent_of = |(agent, needs): (&String, &Vec<Need>)| {
            needs.iter().map(|need| (need.node.clone(), agent.clone())).collect::<Vec<_>>()
        };
        let agents: BTreeMap<String, String> = self.placement.iter().flat_map(agent_of).collect();
        let (line, run) = (self.base.line(), self.run.clone());
        control.on_restart(move |node, succession| {
            let agent = agents.get(node).ok_or_else(|| format!("no agent runs `{node}`"))?.clone();
            let again = Body::new(Relaunch { run: run.clone(), node: node.to_owned(), succession: succession.clone() });
            let bus = line.bus();
            let asked = line.wait(async move { bus.ask::<Done>(&agent, Step::Restart, &again, ANSWER).await });
            asked.map_err(|why| format!("{why:#}"))?.map(drop).map_err(|why| chain(&why))
        });
    }

    fn track(&self, agent: &str) -> Option<Track> {
        *self.tracks[agent].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every node's process has ended, for a while; whether all have.
    fn have_ended(&self) -> Result<bool> {
        let begun = Instant::now();
        while begun.elapsed() < END {
            let standing =
                self.each::<Standing>(Step::Status, ANSWER, |_| Body::new(Watch { run: self.run.clone() }))?;
            if standing.iter().all(|(_, one)| one.as_ref().map_or(true, |one| one.running.is_empty())) {
                return Ok(true);
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    fn collect(&self) -> Result<Left> {
        let collected =
            self.each::<Collected>(Step::Collect, ANSWER, |_| Body::new(Collect { run: self.run.clone() }))?;
        let mut left = Left::default();
        for (agent, one) in collected {
            match one {
                Ok(one) => {
                    for (node, line) in one.said.iter().flat_map(|(node, lines)| lines.iter().map(move |l| (node, l))) {
                        eprintln!("{agent}/{node}: {line}");
                    }
                    if one.more > 0 {
                        eprintln!("{agent}: its nodes said {} lines more", one.more);
                    }
                }
                Err(why) => left.notes.push(format!("what nodes left was not collected: {}", chain(&why))),
            }
            let nodes = self.placement[&agent].iter().map(|need| need.node.clone()).collect();
            let clock = self.track(&agent).map(|track| track.known());
            let vcpu = self.placement[&agent].iter().map(|need| need.vcpu).sum();
            left.hosts.push(HostLeft { card: self.cards[&agent].clone(), nodes, vcpu, clock });
        }
        Ok(left)
    }

    /// Lets go. An agent that does not hear it frees itself when the lease is over.
    fn release(&self) {
        let _ = self.each::<Done>(Step::Release, ANSWER, |_| Body::new(Release { run: self.run.clone() }));
    }

    /// Asks all agents; each must do it.
    fn all<A: Message>(&self, step: Step, patience: Duration, question: impl Fn(&str) -> Body) -> Result<Vec<A>> {
        let answers = self.each(step, patience, question)?;
        answers.into_iter().map(|(_, answer)| answer.map_err(|why| Refused(chain(&why)).into())).collect()
    }

    /// Asks all agents at once.
    fn each<A: Message>(
        &self,
        step: Step,
        patience: Duration,
        question: impl Fn(&str) -> Body,
    ) -> Result<Vec<(String, Result<A, FleetError>)>> {
        let asked: Vec<(FleetBus, String, Body)> =
            self.placement.keys().map(|agent| (self.base.bus(), agent.clone(), question(agent))).collect();
        self.base.wait(async move {
            let ask = |(bus, agent, question): (FleetBus, String, Body)| async move {
                let mut answer = bus.ask::<A>(&agent, step, &question, patience).await;
                for _ in 1..TRIES {
                    if matches!(answer, Err(FleetError::Silent { .. })) {
                        answer = bus.ask::<A>(&agent, step, &question, patience).await;
                    }
                }
                (agent, answer)
            };
            stream::iter(asked).map(ask).buffered(AT_ONCE).collect().await
        })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if !self.ended {
            self.release();
        }
    }
}
