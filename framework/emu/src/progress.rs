//! How a run stands, for whoever watches it.

use rehearsal_core::Span;
use rehearsal_core::parts::tally::Tally;

/// Sums over all groups of the process, about once a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since traffic began; `None` before.
    pub since_start: Option<Span>,
    /// Whether the run drains.
    pub stopping: bool,
    /// Exchanges that came due.
    pub generated: u64,
    /// Answered as wanted.
    pub success: u64,
    /// Answered otherwise: invalid or failed.
    pub refused: u64,
    /// Given up after the last attempt.
    pub lost: u64,
    /// Requests and datagrams that receivers took in.
    pub received: u64,
    /// Attempts that are not over.
    pub under_way: u64,
}

impl Progress {
    pub(crate) fn count(&mut self, tally: &Tally) {
        self.generated += tally.generated;
        self.success += tally.success;
        self.refused += tally.invalid + tally.failed;
        self.lost += tally.lost;
        self.received += tally.received + tally.datagrams_received;
    }

    pub(crate) fn add(&mut self, other: &Progress) {
        self.generated += other.generated;
        self.success += other.success;
        self.refused += other.refused;
        self.lost += other.lost;
        self.received += other.received;
        self.under_way += other.under_way;
    }
}
