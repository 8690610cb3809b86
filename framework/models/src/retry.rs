//! Whether an attempt is followed by another, and when: exponential back-off with jitter.

use rehearsal_core::{Outcome, Request, RngStream, Span, Time, Token};

/// The longest mean wait between two attempts; doubling ends here. Assumed: several times the longest time-out that
/// experiments use, and short enough for the exchange to end within a run.
pub const BACKOFF_MAX: Span = Span::from_secs(60);
/// Lower bits of a token that hold the number of the attempt.
const ATTEMPT_BITS: u32 = 8;

/// How often, and how soon, a rejected or unacknowledged attempt is made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Attempts after the first, at most 255.
    pub retries: u32,
    /// Mean wait before the second attempt, counted from the end of the first; doubled for each further one.
    pub backoff: Span,
}

impl Retry {
    /// Whether attempt number `attempt`, from 0, is the last one.
    #[inline]
    pub const fn is_last(&self, attempt: u32) -> bool {
        attempt >= self.retries
    }

    /// When attempt number `attempt`, from 1, is made: `backoff · 2^(attempt − 1)` after `now`, at most
    /// [`BACKOFF_MAX`], and up to half of that sooner or later.
    pub fn at(&self, now: Time, attempt: u32, rng: &mut RngStream) -> Time {
        let doubled = self.backoff.saturating_mul(1_u64 << attempt.saturating_sub(1).min(63));
        let mean = doubled.min(BACKOFF_MAX).as_nanos();
        now.saturating_add(Span::from_nanos(mean / 2 + rng.below(mean.saturating_add(1))))
    }

    /// The attempt that follows `request`, or `None` if its exchange is settled by `outcome`.
    pub fn again(&self, request: &Request, outcome: &Outcome, rng: &mut RngStream) -> Option<Request> {
        if request.last || !outcome.status.retryable() {
            return None;
        }
        let attempt = request.attempt + 1;
        Some(Request {
            token: token(request.stream, request.seq, attempt),
            attempt,
            last: self.is_last(attempt),
            at: self.at(outcome.times.done, attempt, rng),
            ..*request
        })
    }
}

/// The token of an attempt: 17 bits of stream, 39 bits of number, 8 bits of attempt. Different for all that one actor
/// has under way.
#[inline]
pub(crate) const fn token(stream: u32, seq: u64, attempt: u32) -> Token {
    let place = (stream as u64) << 39 | (seq & ((1 << 39) - 1));
    Token(place << ATTEMPT_BITS | (attempt & ((1 << ATTEMPT_BITS) - 1)) as u64)
}

#[cfg(test)]
mod tests {
    use rehearsal_core::rng::Seed;
    use rehearsal_core::{Payload, Status, SubjectId, Times};

    use super::*;

    fn rng() -> RngStream {
        RngStream::new(Seed { seed: 1, repetition: 0, group: "a/b", member: 0, stream: 0, purpose: "backoff" })
    }

    fn request(attempt: u32, last: bool) -> Request {
        Request {
            to: SubjectId(3),
            token: token(5, 77, attempt),
            stream: 5,
            seq: 77,
            attempt,
            last,
            intended: Time::from_nanos(10),
            at: Time::from_nanos(20),
            deadline: Span::from_secs(1),
            limit: Span::ZERO,
            reply_bytes: 0,
            payload: Payload::EMPTY,
        }
    }

    fn outcome(status: Status, done: Time) -> Outcome {
        Outcome { status, times: Times { done, ..Times::default() }, reply_bytes: 0 }
    }

    #[test]
    fn waits_double_within_half_and_end_at_the_bound() {
        let (retry, mut rng) = (Retry { retries: 255, backoff: Span::from_millis(100) }, rng());
        for (attempt, mean_ms) in [(1, 100), (2, 200), (3, 400), (9, 25_600), (10, 51_200), (11, 60_000), (255, 60_000)]
        {
            let (mut sum, n) = (0, 2_000);
            for _ in 0..n {
                let wait = retry.at(Time::ZERO, attempt, &mut rng).as_nanos();
                assert!((mean_ms * 500_000..=mean_ms * 1_500_000).contains(&wait), "attempt {attempt}: {wait} ns");
                sum += wait;
            }
            // uniform: the standard error of the mean is 0.289 / sqrt(n) = 0.65 % of the wait; five of them
            let mean = sum as f64 / n as f64 / 1e6;
            assert!((mean / mean_ms as f64 - 1.0).abs() < 0.033, "attempt {attempt}: {mean} ms on average");
        }
    }

    #[test]
    fn only_what_may_still_succeed_is_sent_again() {
        let (retry, mut rng) = (Retry { retries: 2, backoff: Span::ZERO }, rng());
        let done = Time::from_nanos(1_000);
        let mut again = |status, attempt, last| retry.again(&request(attempt, last), &outcome(status, done), &mut rng);
        for status in [Status::Success, Status::Invalid, Status::Failed, Status::Aborted, Status::Unsent] {
            assert_eq!(again(status, 0, false), None, "{status:?}");
        }
        for status in [Status::Rejected, Status::Unacknowledged] {
            let second = again(status, 0, false).expect("a second attempt");
            assert_eq!(second, Request { at: done, ..request(1, false) });
            assert_eq!(again(status, 1, false), Some(Request { at: done, ..request(2, true) }));
            assert_eq!(again(status, 2, true), None);
        }
        assert!(Retry { retries: 0, backoff: Span::ZERO }.is_last(0));
    }

    #[test]
    fn tokens_differ_in_every_part() {
        let all = [token(0, 0, 0), token(0, 0, 255), token(0, 1, 0), token(1, 0, 0), token(99_999, (1 << 39) - 1, 255)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{a:?}");
        }
    }
}
