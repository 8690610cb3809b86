//! The end of a run, in steps that each have a bound: drain, close the books, let the last reports be stored, end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rehearsal_core::Time;
use rehearsal_core::messages::StopReason;
use rehearsal_core::run::RunEnd;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{HARD_STOP, LOOK, Supervisor, peers};
use crate::host::{Standing, Step};
use crate::losses::Losses;
use crate::shard::ShardEnd;

/// Datagrams still on their way are waited for until none came for so long. Assumed: several times any delay in a lab.
pub(super) const DATAGRAMS_QUIET: Duration = Duration::from_millis(100);
/// How long a process that stores may take to read what the server still keeps. Assumed: an hour of the telemetry of 50
/// nodes, after a restart.
const COLLECT: Duration = Duration::from_secs(60);
/// How long a shard may take to answer, and to hand over its books.
const HAND_OVER: Duration = Duration::from_secs(2);
/// How long the threads may take to let go of sockets and sink.
const LET_GO: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Drains and ends a run that somebody has stopped.
    pub(super) async fn finish(mut self) -> RunEnd {
        let stop = self.world.clock.now();
        let mut hard = Instant::now() + self.world.plan.info.grace.to_std() + HARD_STOP;
        self.tell_stop().await;
        self.stay_to_the_end().await;
        self.tell(|| Step::Stop);
        self.drain().await;
        self.datagrams(hard).await;
        if self.agree_to_close().await {
            hard = hard.max(Instant::now() + HARD_STOP);
        }
        if self.bridge.as_ref().is_some_and(|b| b.stores_alone()) {
            // what cannot be stored is not waited for
            let fault = self.reason == Some(StopReason::Fault);
            hard = Instant::now() + if fault { HAND_OVER } else { COLLECT };
        }
        self.tell(|| Step::Close);
        self.quiet(hard).await;
        let end = self.world.clock.now();
        let ends = self.hand_over().await;
        self.let_go().await;
        self.look_at_usage();
        let bridge = self.bridge.take();
        let (lost, leaderless) = (std::mem::take(&mut self.lost), self.losses.leaderless);
        let run = self.gather(ends, stop, end);
        match bridge {
            None => run,
            Some(bridge) => peers::join(&bridge, lost, run, leaderless).await,
        }
    }

    /// Who stores for others stays until they have ended, also if it can store nothing more: then it is known what is
    /// missing.
    async fn stay_to_the_end(&mut self) {
        if !self.bridge.as_ref().is_some_and(|b| b.stores_alone()) {
            return;
        }
        let until = Instant::now() + self.world.plan.info.grace.to_std() + COLLECT;
        while self.control.times() == 0 && Instant::now() < until {
            self.pause().await;
        }
    }

    /// Outcomes under way may come, for as long as the grace lasts and nobody is in a hurry.
    async fn drain(&mut self) {
        let grace = Instant::now() + self.world.plan.info.grace.to_std();
        while !self.hurried() && Instant::now() < grace {
            if self.all(|state| state.drained).await {
                return;
            }
            self.pause().await;
        }
        self.tell(|| Step::GiveUp);
        let end = Instant::now() + HAND_OVER;
        while Instant::now() < end && !self.all(|state| state.drained).await {
            self.pause().await;
        }
    }

    async fn datagrams(&mut self, hard: Instant) {
        let (mut last, mut since) = (u64::MAX, Instant::now());
        while !self.hurried() && Instant::now() < hard {
            let missing: u64 = self.ask(HAND_OVER).await.iter().flatten().map(|s| s.datagrams_missing).sum();
            if missing == 0 || (missing == last && since.elapsed() >= DATAGRAMS_QUIET) {
                return;
            }
            if missing != last {
                (last, since) = (missing, Instant::now());
            }
            self.pause().await;
        }
    }

    /// The last reports travel and are stored: nothing waits anywhere, twice in a row.
    async fn quiet(&mut self, hard: Instant) {
        // what is on its way to a shard that is stuck does not arrive
        let hard = if self.stuck.is_empty() { hard } else { hard.min(Instant::now() + HAND_OVER) };
        let mut quiet = 0;
        while quiet < 2 && !self.hurried() && Instant::now() < hard {
            let stored = self.nothing_to_store() && self.bridge.as_ref().is_none_or(|b| b.is_acknowledged());
            let shards = self.all(|state| state.quiet && state.in_transit == 0).await;
            quiet = if stored && shards && self.nothing_to_store() { quiet + 1 } else { 0 };
            self.pause().await;
        }
    }

    fn nothing_to_store(&self) -> bool {
        self.world.shared.stores.load(Ordering::Acquire) == 0
    }

    /// Whether somebody wants the end at once.
    pub(super) fn hurried(&self) -> bool {
        self.control.times() > 1
    }

    /// Waits a little, and hears what shards have to say meanwhile.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(LOOK).await;
        while let Ok(note) = self.notes.try_recv() {
            self.hear(note);
        }
        self.hear_asks();
        self.hear_lost();
        if let Some(bridge) = self.bridge.clone().filter(|b| b.leads()) {
            self.welcome_back(&bridge);
        }
    }

    /// Whether every shard that still answers says so.
    async fn all(&self, is: impl Fn(&Standing) -> bool) -> bool {
        let states = self.ask(HAND_OVER).await;
        states.iter().enumerate().all(|(shard, s)| s.as_ref().map_or(self.stuck.contains(&shard), &is))
    }

    async fn hand_over(&mut self) -> Vec<Option<ShardEnd>> {
        let mut waiting = Vec::new();
        for host in &self.hosts {
            let (reply, end) = oneshot::channel();
            host.do_send(Step::End(reply));
            waiting.push(end);
        }
        let until = Instant::now() + HAND_OVER;
        let mut ends = Vec::new();
        for (shard, end) in waiting.into_iter().enumerate() {
            let end = tokio::time::timeout_at(until, end).await.ok().and_then(Result::ok);
            if end.is_none() {
                self.stuck.insert(shard);
                self.fault(format!("shard {shard} did not hand over its books: its groups are missing"));
            }
            ends.push(end);
        }
        while let Ok(note) = self.notes.try_recv() {
            self.hear(note);
        }
        ends
    }

    /// Ends the threads. One that is stuck is left behind: nothing may keep a run from ending.
    async fn let_go(&mut self) {
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        let until = Instant::now() + LET_GO;
        for gone in self.gone.drain(..) {
            // an error is what is waited for: the other end is dropped with its thread
            let _ = tokio::time::timeout_at(until, gone).await;
        }
        self.storing.end(until).await;
    }

    fn gather(mut self, ends: Vec<Option<ShardEnd>>, stop: Time, end: Time) -> RunEnd {
        self.control.end();
        let arrivals = self.arrivals();
        let (losses, incarnations) = self.losses.close();
        let mut run = RunEnd {
            groups: Vec::new(),
            start: self.world.start(),
            begun: self.begun(),
            stop,
            end,
            reason: self.reason.unwrap_or(StopReason::Fault),
            faults: self.faults,
            // every shard sees the whole bus
            messages_dropped: ends.iter().flatten().map(|e| e.bus_dropped).max().unwrap_or(0),
            late_replies: 0,
            events: 0,
            fingerprint: None,
            lost_nodes: Vec::new(),
            arrivals,
            incarnations,
            losses,
            steers: self.helm.steers,
            links: Vec::new(),
            connections: Vec::new(),
            outside_calibration: Vec::new(),
            notes: Vec::new(),
        };
        let mut losses = Losses::default();
        for shard in ends.into_iter().flatten() {
            losses.merge(&shard.losses);
            run.groups.extend(shard.groups);
            run.links.extend(shard.links);
            run.connections.extend(shard.connections);
            run.faults.extend(shard.faults);
            run.messages_dropped += shard.messages_dropped;
            run.late_replies += shard.late_replies;
            run.events += shard.events;
            run.notes.extend(shard.notes);
        }
        run.groups.sort_by_key(|g| g.group);
        run.faults.sort_by_key(|f| f.at);
        run.notes.extend(losses.notes());
        let times = |n: u64| if n > 1 { format!(" ({n} times)") } else { String::new() };
        run.notes.extend(self.facts.iter().map(|(text, n)| format!("{text}{}", times(*n))));
        if !self.held_up.is_zero() {
            run.notes.push(format!("the process was held up for {:.1} s in all", self.held_up.as_secs_f64()));
        }
        let cores = |cores| format!("the process used at most {cores:.2} cores over a second");
        run.notes.extend(self.cores_max.map(cores));
        run
    }
}
