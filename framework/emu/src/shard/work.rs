//! Work: checking, decoding, waiting, computing, encoding, storing. What takes a core has a thread of its own, so that
//! pacing never waits for it.

use rehearsal_core::calibration::pause_end;
use rehearsal_core::messages::StopReason;
use rehearsal_core::{Body, ExchangeId, MediaId, Payload, Span, Work, WorkKey, WorkResult};

use super::timers::class;
use super::{Local, Shard, State};
use crate::clock::thread_cpu_ns;

/// Work that an actor waits for.
pub(super) struct Job {
    who: u32,
    key: WorkKey,
    then: Then,
}

/// What is left of a job.
enum Then {
    /// First wait, then compute.
    Wait { pause: Span, spin: Span },
    /// Compute.
    Spin(Span),
    /// It is over.
    Done,
}

/// Work that may be under way in a shard; more is refused as invalid. Assumed: far above any number of workers.
const JOBS_MAX: usize = 65_536;

impl State {
    /// Begins some work of an actor.
    pub(super) fn work(&mut self, who: u32, key: WorkKey, work: Work) {
        if self.jobs.len() >= JOBS_MAX {
            self.notes.note(format!("{}: work beyond {JOBS_MAX} jobs was refused", self.title(who)));
            return self.work_done(who, key, WorkResult::Invalid);
        }
        match work {
            Work::Pause(pause) => self.wait(who, key, pause, Span::ZERO),
            Work::Analyze { exchange, decode, pause, spin } => self.analyze(who, key, exchange, decode, pause, spin),
            Work::Encode { media, frame } => self.encode(who, key, media, frame),
            Work::Store(body) => self.put(who, key, body),
        }
    }

    fn work_done(&mut self, who: u32, key: WorkKey, result: WorkResult) {
        self.queue.push_back(Local::Work { who, key, result });
    }

    /// The form is checked on the spot, the whole on another thread; only what passes is worth a pause. Its bytes are given back
    /// before: who waits holds none, and the connection reads the next request into memory that is still in the caches.
    fn analyze(&mut self, who: u32, key: WorkKey, exchange: ExchangeId, decode: bool, pause: Span, spin: Span) {
        let Some(inbound) = self.inbound.get_mut(exchange.slot(), exchange.generation()) else {
            return self.work_done(who, key, WorkResult::Invalid);
        };
        let content_type = inbound.content_type.as_ref().and_then(|t| t.to_str().ok()).unwrap_or_default();
        let validate = &self.world.options.validate;
        if !validate.check(content_type, &inbound.body, false) {
            return self.work_done(who, key, WorkResult::Invalid);
        }
        let body = std::mem::take(&mut inbound.body);
        if !decode {
            return self.wait(who, key, pause, spin);
        }
        let (validate, content_type) = (validate.clone(), content_type.to_owned());
        self.elsewhere(Job { who, key, then: Then::Wait { pause, spin } }, move || {
            if validate.check(&content_type, &body, true) { WorkResult::Done } else { WorkResult::Invalid }
        });
    }

    fn encode(&mut self, who: u32, key: WorkKey, media: MediaId, frame: u64) {
        let row = usize::from(media.0);
        let recipe = self.world.media_recipes[row];
        let job = Job { who, key, then: Then::Done };
        if let Some(live) = self.world.media[row].clone() {
            self.elsewhere(job, move || match live.encode(frame) {
                Ok(bytes) => WorkResult::Produced(Payload::new(bytes, recipe, frame)),
                Err(_) => WorkResult::Invalid,
            });
        } else {
            // a prepared clip has all its frames
            let sizes = &self.world.frame_sizes[row];
            let bytes = sizes[(frame % sizes.len() as u64) as usize];
            self.work_done(who, key, WorkResult::Produced(Payload::new(bytes, recipe, frame)));
        }
    }

    fn put(&mut self, who: u32, key: WorkKey, body: Body) {
        let slot = self.jobs.insert(Job { who, key, then: Then::Done });
        let id = (slot, self.jobs.generation(slot));
        if !self.store.put(id, body) {
            self.jobs.remove(slot);
            self.work_done(who, key, WorkResult::Invalid);
        }
    }

    fn wait(&mut self, who: u32, key: WorkKey, pause: Span, spin: Span) {
        if pause.is_zero() {
            return self.spin(who, key, spin);
        }
        let slot = self.jobs.insert(Job { who, key, then: Then::Spin(spin) });
        let at = pause_end(self.now(), pause, self.world.options.quantum);
        self.timers.push_exact(at, class::WORK, who, u64::from(self.jobs.generation(slot)) << 32 | u64::from(slot));
    }

    fn spin(&mut self, who: u32, key: WorkKey, spin: Span) {
        if spin.is_zero() {
            return self.work_done(who, key, WorkResult::Done);
        }
        self.elsewhere(Job { who, key, then: Then::Done }, move || {
            compute(spin);
            WorkResult::Done
        });
    }

    /// Does some work on another thread.
    fn elsewhere(&mut self, job: Job, work: impl FnOnce() -> WorkResult + Send + 'static) {
        let slot = self.jobs.insert(job);
        let id = (slot, self.jobs.generation(slot));
        let me = self.me.clone();
        tokio::task::spawn_local(async move {
            // a panic on the other thread is a refusal like any other: the input made it so
            let result = tokio::task::spawn_blocking(work).await.unwrap_or(WorkResult::Invalid);
            if let Some(shard) = me.upgrade() {
                shard.borrow_mut().job_done(id, result);
            }
        });
    }

    /// A stage of a job that took time and nothing else is over.
    pub(super) fn stage_over(&mut self, slot: u32, generation: u32) {
        if self.jobs.live(slot, generation) {
            self.next_stage(slot, WorkResult::Done);
        }
    }

    fn next_stage(&mut self, slot: u32, result: WorkResult) {
        let Job { who, key, then } = self.jobs.remove(slot);
        match then {
            _ if result == WorkResult::Invalid => self.work_done(who, key, result),
            Then::Wait { pause, spin } => self.wait(who, key, pause, spin),
            Then::Spin(spin) => self.spin(who, key, spin),
            Then::Done => self.work_done(who, key, result),
        }
    }
}

impl Shard {
    /// Work on another thread is over.
    pub(crate) fn job_done(&mut self, (slot, generation): (u32, u32), result: WorkResult) {
        if self.state.jobs.live(slot, generation) {
            self.state.next_stage(slot, result);
            self.settle();
        }
    }

    /// A record was stored, or was not: the first failure is a fault that ends the run, for nothing more would be kept.
    pub(crate) fn stored(&mut self, id: (u32, u32), failure: Option<String>) {
        let result = if failure.is_some() { WorkResult::Invalid } else { WorkResult::Done };
        if let Some(text) = failure
            && !std::mem::replace(&mut self.state.store_failed, true)
            && let Some(job) = self.state.jobs.get(id.0, id.1)
        {
            let who = job.who;
            let world = self.state.world.clone();
            let (node, actor) = world.names(who);
            self.state.fault(node, &actor, text, world.groups[world.group_of(who)].node);
            self.state.notes.stop(StopReason::Fault);
        }
        self.job_done(id, result);
    }
}

/// Uses a core for `span` of CPU time.
fn compute(span: Span) {
    let end = thread_cpu_ns().saturating_add(span.as_nanos());
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    while thread_cpu_ns() < end {
        for _ in 0..256 {
            x = std::hint::black_box(x.wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ x >> 31);
        }
    }
}
