//! Rows of single attempts, for `requests.parquet`: a sample whose choice and bound are stated.
//!
//! An exchange is chosen by what it is (member, stream and number), not by when it comes: both engines choose the same
//! ones, on any number of hosts, and an exchange is there with all its attempts or not at all. Beyond
//! [`ROWS_PER_SECOND_MAX`] rows of a group and second, what comes later in that second is left out and counted.

use serde::{Deserialize, Serialize};

use super::ledger::mix;
use crate::exchange::{Outcome, Request, Status};
use crate::time::Time;
use crate::units::Fraction;

/// Rows that one group keeps of one second. Assumed: a row takes about 50 bytes on the wire, and a report of a few
/// groups stays below the 1 MiB that a NATS server takes.
pub const ROWS_PER_SECOND_MAX: usize = 4096;
/// Keeps the choice apart from the schedule digest, which mixes the same words.
const PURPOSE: u64 = 0x7265_7175_6573_7473;

/// Attempts of one group that ended in one second, column by column. Times are ns since the start of traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRows {
    /// The sender's number among all instances of its actor.
    pub member: Vec<u32>,
    /// Which of its streams.
    pub stream: Vec<u32>,
    /// The exchange's number within the stream, from 0.
    pub seq: Vec<u64>,
    /// 0 for the first attempt of the exchange.
    pub attempt: Vec<u32>,
    /// How the attempt ended.
    pub status: Vec<Status>,
    /// When the schedule wanted the exchange to begin.
    pub intended_ns: Vec<u64>,
    /// When the attempt was to leave.
    pub at_ns: Vec<u64>,
    /// When it was allowed to.
    pub ready_ns: Vec<u64>,
    /// When it was handed to the carrier.
    pub sent_ns: Vec<u64>,
    /// When its outcome was known.
    pub done_ns: Vec<u64>,
    /// Length of its payload, bytes.
    pub bytes: Vec<u32>,
    /// Length of the reply, bytes.
    pub reply_bytes: Vec<u32>,
    /// Chosen attempts that found no room in this second.
    pub left_out: u64,
}

impl RequestRows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty() && self.left_out == 0
    }

    /// Whether every column has the same length. Rows from a wire may not.
    pub fn is_whole(&self) -> bool {
        let RequestRows { member, stream, seq, attempt, status, .. } = self;
        let RequestRows { intended_ns, at_ns, ready_ns, sent_ns, done_ns, bytes, reply_bytes, .. } = self;
        let narrow = [member, stream, attempt, bytes, reply_bytes].map(Vec::len);
        let wide = [seq, intended_ns, at_ns, ready_ns, sent_ns, done_ns].map(Vec::len);
        narrow.into_iter().chain(wide).chain([status.len()]).all(|len| len == self.len())
    }
}

/// Keeps the chosen attempts of one group.
#[derive(Debug)]
pub struct Recorder {
    /// An exchange is chosen if its hash is not above this.
    top: u64,
    rows: RequestRows,
}

impl Recorder {
    /// A recorder of a share of all exchanges; `None` for a share of zero.
    pub fn new(share: Fraction) -> Option<Recorder> {
        // a product of 2^64 and more is held at the largest number
        let top = (share.0 * 2_f64.powi(64)) as u64;
        (top > 0).then(|| Recorder { top, rows: RequestRows::default() })
    }

    /// An attempt has ended. One that never left is no attempt.
    #[inline]
    pub fn note(&mut self, request: &Request, member: u32, outcome: &Outcome) {
        if outcome.status != Status::Unsent && self.chooses(member, request) {
            self.keep(request, member, outcome);
        }
    }

    /// The rows of the second that ends now, of a run whose traffic began at `start`.
    pub fn take(&mut self, start: Time) -> Option<RequestRows> {
        if self.rows.is_empty() {
            return None;
        }
        let mut rows = std::mem::take(&mut self.rows);
        let RequestRows { intended_ns, at_ns, ready_ns, sent_ns, done_ns, .. } = &mut rows;
        for nanos in [intended_ns, at_ns, ready_ns, sent_ns, done_ns].into_iter().flatten() {
            *nanos = nanos.saturating_sub(start.as_nanos());
        }
        Some(rows)
    }

    fn chooses(&self, member: u32, request: &Request) -> bool {
        let place = u64::from(member) << 32 | u64::from(request.stream);
        mix(PURPOSE, place, request.seq, 0) <= self.top
    }

    fn keep(&mut self, request: &Request, member: u32, outcome: &Outcome) {
        let rows = &mut self.rows;
        if rows.len() == ROWS_PER_SECOND_MAX {
            rows.left_out += 1;
            return;
        }
        let times = &outcome.times;
        rows.member.push(member);
        rows.stream.push(request.stream);
        rows.seq.push(request.seq);
        rows.attempt.push(request.attempt);
        rows.status.push(outcome.status);
        rows.intended_ns.push(times.intended.as_nanos());
        rows.at_ns.push(request.at.as_nanos());
        rows.ready_ns.push(times.ready.as_nanos());
        rows.sent_ns.push(times.sent.as_nanos());
        rows.done_ns.push(times.done.as_nanos());
        rows.bytes.push(request.payload.bytes);
        rows.reply_bytes.push(outcome.reply_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Times;
    use crate::ids::{RecipeId, SubjectId, Token};
    use crate::payload::Payload;
    use crate::time::Span;

    fn request(stream: u32, seq: u64) -> Request {
        Request {
            to: SubjectId(0),
            token: Token(0),
            stream,
            seq,
            attempt: 0,
            last: true,
            intended: Time::ZERO,
            at: Time::ZERO,
            deadline: Span::ZERO,
            limit: Span::ZERO,
            reply_bytes: 0,
            payload: Payload { recipe: RecipeId(0), seq, bytes: 100 },
        }
    }

    fn end(status: Status) -> Outcome {
        Outcome { status, times: Times::default(), reply_bytes: 2 }
    }

    fn chosen(share: f64, exchanges: u64) -> Vec<u64> {
        let Some(mut recorder) = Recorder::new(Fraction(share)) else { return Vec::new() };
        for seq in 0..exchanges {
            recorder.note(&request(3, seq), 7, &end(Status::Success));
        }
        recorder.take(Time::ZERO).map(|rows| rows.seq).unwrap_or_default()
    }

    #[test]
    fn a_share_is_chosen_and_a_larger_one_holds_it() {
        assert_eq!(chosen(0.0, 1000).len(), 0);
        assert_eq!(chosen(1.0, 1000).len(), 1000);
        let (few, more) = (chosen(0.1, 4000), chosen(0.5, 4000));
        // binomial: 400 ± 19 and 2000 ± 32, five deviations each
        assert!((305..=495).contains(&few.len()) && (1840..=2160).contains(&more.len()));
        assert!(few.iter().all(|seq| more.contains(seq)));
    }

    #[test]
    fn a_second_has_a_bound_and_what_is_beyond_is_counted() {
        let mut recorder = Recorder::new(Fraction(1.0)).expect("a share above zero");
        for seq in 0..ROWS_PER_SECOND_MAX as u64 + 5 {
            recorder.note(&request(0, seq), 0, &end(Status::Success));
        }
        recorder.note(&request(0, 0), 0, &end(Status::Unsent));
        let rows = recorder.take(Time::ZERO).expect("there are rows");
        assert_eq!((rows.len(), rows.left_out, rows.is_whole()), (ROWS_PER_SECOND_MAX, 5, true));
        assert_eq!(recorder.take(Time::ZERO), None, "a second's rows are given once");
        let short = RequestRows { seq: vec![1], ..RequestRows::default() };
        assert!(!short.is_whole());
    }
}
