//! The counters of a group, and the identities that hold at every snapshot and after any fault.

use serde::{Deserialize, Serialize};

use crate::exchange::Status;

/// Totals since the start of a run. `open` numbers follow from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Exchanges that came due.
    pub generated: u64,
    /// Settled: answered as wanted.
    pub success: u64,
    /// Settled: the receiver refused what it got.
    pub invalid: u64,
    /// Settled: another answer than wanted.
    pub failed: u64,
    /// Settled: every attempt was rejected or unacknowledged, or it could not leave.
    pub lost: u64,
    /// Settled: stopped by us.
    pub aborted: u64,
    /// Attempts that left.
    pub attempts: u64,
    /// Attempts that were rejected (429, 503).
    pub rejected: u64,
    /// Attempts without an answer.
    pub unacknowledged: u64,
    /// Attempts that we stopped.
    pub aborted_attempts: u64,
    /// Exchanges that found no room in their stream's queue (they settle as lost).
    pub queue_full: u64,
    /// Sends more than one gap late.
    pub queued: u64,
    /// Slots of a schedule that were given up.
    pub skipped: u64,
    /// Slots of a schedule that fell into a pause; not among `skipped`.
    pub paused: u64,
    /// Slots of a schedule that were due while the node was lost; not among `skipped`.
    pub away: u64,
    /// Payloads that were spoiled on purpose.
    pub malformed: u64,
    /// Successes above the limit on handling time.
    pub deadline_missed: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes of replies.
    pub bytes_replied: u64,
    /// Datagrams sent (they are generated exchanges of one attempt too, open until settled).
    pub datagrams_sent: u64,
    /// Receiver: requests that came in.
    pub received: u64,
    /// Receiver: answered with success.
    pub served: u64,
    /// Receiver: refused as invalid.
    pub refused: u64,
    /// Receiver: rejected when overloaded.
    pub turned_away: u64,
    /// Receiver: answered with a failure, or not at all because the actor failed.
    pub unserved: u64,
    /// Receiver: payload bytes that came in.
    pub bytes_received: u64,
    /// Receiver: datagrams that came in, duplicates included.
    pub datagrams_received: u64,
    /// Receiver: datagrams that came in more than once.
    pub datagrams_duplicate: u64,
    /// Receiver: datagrams that came in after a later one of their stream.
    pub datagrams_reordered: u64,
}

impl Tally {
    /// Exchanges that are not settled.
    pub const fn open(&self) -> u64 {
        self.generated.saturating_sub(self.settled())
    }

    /// Attempts that are not over.
    pub const fn open_attempts(&self) -> u64 {
        self.attempts.saturating_sub(self.over())
    }

    /// Whether the identities hold: nothing is settled that was not generated, and no attempt is over that never left.
    pub const fn consistent(&self) -> bool {
        self.settled() <= self.generated && self.over() <= self.attempts
    }

    /// Exchanges that are settled. Counters that came over a network may be any numbers.
    const fn settled(&self) -> u64 {
        let answered = self.success.saturating_add(self.invalid).saturating_add(self.failed);
        answered.saturating_add(self.lost).saturating_add(self.aborted)
    }

    /// Attempts that are over.
    const fn over(&self) -> u64 {
        let answered = self.success.saturating_add(self.invalid).saturating_add(self.failed);
        let unanswered = self.unacknowledged.saturating_add(self.aborted_attempts);
        answered.saturating_add(self.rejected).saturating_add(unanswered)
    }

    /// Books the end of an attempt; true if the exchange is settled by it. `stopping`: what never left is aborted, not lost.
    #[inline]
    pub fn settle(&mut self, status: Status, last: bool, stopping: bool) -> bool {
        match status {
            Status::Success => self.success += 1,
            Status::Invalid => self.invalid += 1,
            Status::Failed => self.failed += 1,
            Status::Rejected | Status::Unacknowledged => {
                *(if status == Status::Rejected { &mut self.rejected } else { &mut self.unacknowledged }) += 1;
                if !last {
                    return false;
                }
                self.lost += 1;
            }
            Status::Aborted => {
                self.aborted_attempts += 1;
                self.aborted += 1;
            }
            Status::Unsent if stopping => self.aborted += 1,
            Status::Unsent => self.lost += 1,
        }
        true
    }

    /// Settles whatever is open as aborted: the end of a run.
    pub fn close(&mut self) {
        self.aborted_attempts += self.open_attempts();
        self.aborted += self.open();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_keeps_the_identities() {
        let mut t = Tally { generated: 7, attempts: 7, ..Tally::default() };
        assert!(t.settle(Status::Success, false, false));
        assert!(t.settle(Status::Invalid, false, false));
        assert!(t.settle(Status::Failed, false, false));
        assert!(!t.settle(Status::Rejected, false, false), "another attempt follows");
        t.attempts += 1;
        assert!(t.settle(Status::Unacknowledged, true, false));
        assert!(t.settle(Status::Aborted, false, true));
        assert_eq!((t.open(), t.open_attempts(), t.lost, t.aborted), (2, 2, 1, 1));
        assert!(t.consistent());
        t.close();
        assert_eq!((t.open(), t.open_attempts(), t.aborted, t.aborted_attempts), (0, 0, 3, 3));
        t.success += 1;
        assert!(!t.consistent());
    }
}
