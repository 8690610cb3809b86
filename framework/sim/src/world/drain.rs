//! The end of a run: drain, close the books, let the last messages and records through.

use std::collections::BTreeMap;

use rehearsal_core::messages::StopReason;
use rehearsal_core::parts::heap::Entry;
use rehearsal_core::run::{Fault, GroupEnd, RunEnd};
use rehearsal_core::{Span, Time};

use super::class::Class;
use super::{Phase, What, World};

/// How long the last messages and records may take. Assumed: 10,000 control latencies.
const CLOSING_SPAN: Span = Span::from_secs(1);
/// How many events they may take. Assumed: ten for each of a million loggers.
const CLOSING_EVENTS_MAX: u64 = 10_000_000;

/// The books as they were closed, and when the rest must be over.
#[derive(Debug)]
pub(super) struct Closing {
    groups: Vec<GroupEnd>,
    until: Time,
    events_until: u64,
}

impl World {
    /// The drain begins, and all actors are to be told; false if it has begun already.
    pub(crate) fn begin_stop(&mut self, reason: StopReason) -> bool {
        if self.phase != Phase::Running {
            return false;
        }
        self.phase = Phase::Draining;
        self.stop = Some((self.now, reason));
        self.unsend_all();
        self.void_all();
        self.end_flows();
        let grace = self.now.saturating_add(self.plan.info.grace);
        self.push(grace, Class::Grace, self.engine(), 0);
        true
    }

    /// The grace is over: what is still under way is aborted.
    #[cold]
    pub(super) fn grace(&mut self) -> Option<(u32, What)> {
        if self.phase == Phase::Draining {
            self.grace_over = true;
            self.abort_all();
        }
        None
    }

    /// Goes on to the next phase when the present one has nothing more to wait for.
    #[inline]
    pub(crate) fn drained(&mut self) {
        if self.phase == Phase::Draining {
            if self.outcomes_due == 0 && (self.flights_due == 0 || self.grace_over) {
                self.close_books();
            }
        } else if let Some(closing) = &self.closing {
            let over = self.now > closing.until || self.events >= closing.events_until;
            if over || (self.letters.is_empty() && self.stores_due == 0 && self.outcomes_due == 0) {
                self.phase = Phase::Ended;
            }
        }
    }

    /// Nothing is pending at all.
    #[cold]
    pub(crate) fn idle(&mut self) {
        match self.phase {
            Phase::Running => {
                self.stop_wanted.get_or_insert(StopReason::Done);
            }
            Phase::Draining => self.close_books(),
            Phase::Closing | Phase::Ended => self.phase = Phase::Ended,
        }
    }

    /// Virtual time was to stop before `entry`: the run drains from there on. False if it does so already.
    #[cold]
    pub(super) fn halt(&mut self, entry: Entry) -> bool {
        let at = std::mem::replace(&mut self.until, Time::MAX);
        self.queue.push(entry);
        if self.phase != Phase::Running {
            return false;
        }
        self.now = self.now.max(at);
        self.halted_at = Some(self.now);
        self.stop_wanted = Some(StopReason::Interrupted);
        true
    }

    /// Whoever looks on does not let time move: the run ends with a fault of the engine.
    #[cold]
    pub(crate) fn halted(&mut self, why: String) {
        if self.phase == Phase::Running && self.stop_wanted.is_none() {
            let (node, actor) = ("engine".to_owned(), "pace".to_owned());
            self.faults.push(Fault { at: self.now, node, actor, text: why });
            self.stop_wanted = Some(StopReason::Fault);
        }
    }

    /// The run goes on and on: it ends here, with a fault.
    #[cold]
    pub(super) fn runaway(&mut self, actor: u32) {
        if self.phase == Phase::Closing || self.phase == Phase::Ended {
            return;
        }
        let text = format!(
            "the run was ended after {} events, {} of them within 67 ms of {}: does a closed loop cost nothing?",
            self.events,
            self.events - self.events_before,
            self.now
        );
        self.fault(actor, text);
        self.stop.get_or_insert((self.now, StopReason::Fault));
        self.close_books();
    }

    /// Settles what is open, publishes the last second, and keeps the totals as they are now.
    #[cold]
    fn close_books(&mut self) {
        self.settle_datagrams();
        for group in &mut self.groups {
            group.ledger.tally.close();
        }
        if self.start.is_some() {
            self.publish_second();
        }
        let groups = self.groups.iter().enumerate().filter(|(_, group)| group.local).map(|(row, group)| GroupEnd {
            group: row,
            tally: group.ledger.tally,
            schedule: group.ledger.schedule_digest(),
            counts: group.ledger.counts(&group.metrics),
            datagrams_elsewhere: 0,
            listen: None,
        });
        self.closing = Some(Closing {
            groups: groups.collect(),
            until: self.now + CLOSING_SPAN,
            events_until: self.events + CLOSING_EVENTS_MAX,
        });
        self.phase = Phase::Closing;
    }

    /// What the engine hands back.
    pub(crate) fn end(self) -> RunEnd {
        let (stop, reason) = self.stop.unwrap_or((self.now, StopReason::Done));
        let mut notes = Vec::new();
        let outside = self.outside_calibration();
        if let Some(dropped) = self.costs.as_ref().map(|costs| costs.dropped).filter(|dropped| *dropped > 0) {
            notes.push(format!("{dropped} messages were dropped because too many waited at their receiver's node"));
        }
        if let Some(at) = self.halted_at {
            let after = at.since(self.start.unwrap_or(Time::ZERO));
            notes.push(format!("virtual time was stopped {after} after the start of traffic, as asked"));
        }
        if self.stale_answers > 0 {
            notes.push(format!("{} answers to requests that were answered already were ignored", self.stale_answers));
        }
        if self.brokered && self.broker.is_none() {
            notes.push("what the NATS server itself costs is not calibrated: it takes no time here".to_owned());
        }
        RunEnd {
            groups: self.closing.map(|closing| closing.groups).unwrap_or_default(),
            start: self.start,
            begun: Vec::new(),
            stop,
            end: self.now,
            reason,
            faults: self.faults,
            messages_dropped: self.messages_dropped,
            late_replies: self.late_replies,
            events: self.events,
            fingerprint: Some(self.fingerprint),
            lost_nodes: Vec::new(),
            arrivals: Vec::new(),
            incarnations: BTreeMap::new(),
            losses: Vec::new(),
            steers: self.steers,
            links: self.links.ends(),
            connections: self.links.connections(&self.plan),
            outside_calibration: outside,
            notes,
        }
    }
}
