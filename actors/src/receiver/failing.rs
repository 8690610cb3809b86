//! Failures that a receiver is set to: which of its requests are answered with a status that is no success.
//!
//! That is drawn from the request's place (sender, stream, number) and the receiver's own generator, not from the order in which
//! requests come. So both engines fail the same ones, and all attempts of an exchange fare alike.

use rehearsal_core::units::Fraction;
use rehearsal_core::{BuildError, Head, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spread;

/// Requests that are answered with a failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailParams {
    /// Which part of them. All attempts of an exchange fare alike.
    pub share: Fraction,
    /// The status of HTTP that they get: 400 (invalid), 500 (failed) or 503 (rejected, which senders try again). Other carriers say
    /// the same in their own way.
    #[serde(default = "usual")]
    pub status: u16,
}

const fn usual() -> u16 {
    500
}

impl FailParams {
    /// What is said to who fails.
    ///
    /// # Errors
    /// If a receiver cannot say it.
    pub(super) fn said(self) -> Result<Status, BuildError> {
        match self.status {
            400 => Ok(Status::Invalid),
            500 => Ok(Status::Failed),
            503 => Ok(Status::Rejected),
            other => {
                let reason = format!("a receiver cannot fail with {other}; `status` is 400, 500 or 503");
                Err(BuildError::of("fail", reason))
            }
        }
    }
}

/// Which requests of one receiver fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    key: u64,
    share: f64,
    /// Requests of nobody known, who gives no place: they are drawn in the order in which they come.
    strangers: u64,
}

impl Failing {
    pub(super) fn new(share: f64, key: u64) -> Self {
        Failing { key, share, strangers: 0 }
    }

    /// Whether this one does.
    pub(super) fn takes(&mut self, head: &Head) -> bool {
        if self.share <= 0.0 {
            return false;
        }
        let (who, stream, seq) = match head.from {
            Some(actor) => (u64::from(actor.0), head.stream, head.seq),
            None => {
                self.strangers += 1;
                (u64::MAX, 0, self.strangers)
            }
        };
        let place = [who, u64::from(stream), seq];
        let drawn = place.into_iter().fold(self.key, |drawn, one| spread(drawn ^ one.wrapping_mul(ODD)));
        // 53 bits, as a draw in [0, 1)
        ((drawn >> 11) as f64) * (1.0 / (1_u64 << 53) as f64) < self.share
    }
}

/// The golden ratio in 64 bits: neighbours lie far apart.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use rehearsal_core::ActorId;

    use super::*;

    fn head(from: u32, stream: u32, seq: u64) -> Head {
        Head { from: Some(ActorId(from)), stream, seq, ..Head::default() }
    }

    #[test]
    fn a_share_of_requests_fails_whatever_their_order() {
        let mut failing = Failing::new(0.2, 7);
        let places: Vec<Head> = (0..50_000).map(|n| head(n % 50, n / 50 % 10, u64::from(n / 500))).collect();
        let fates: Vec<bool> = places.iter().map(|head| failing.takes(head)).collect();
        let many = fates.iter().filter(|fails| **fails).count();
        // five standard deviations of 50,000 draws
        assert!(many.abs_diff(10_000) < 450, "{many}");
        let backwards: Vec<bool> = places.iter().rev().map(|head| failing.takes(head)).collect();
        assert!(fates.iter().eq(backwards.iter().rev()), "it is not the order");
        let mut other = Failing::new(0.2, 8);
        assert!(places.iter().map(|head| other.takes(head)).ne(fates), "another receiver fails others");
    }

    #[test]
    fn nobody_and_everybody() {
        let strangers = |share| {
            let mut failing = Failing::new(share, 1);
            (0..1000).filter(|_| failing.takes(&Head::default())).count()
        };
        assert_eq!((strangers(0.0), strangers(1.0)), (0, 1000));
        assert!((50..150).contains(&strangers(0.1)), "{}", strangers(0.1));
    }

    #[test]
    fn a_receiver_says_three_things() {
        let said = |status| FailParams { share: Fraction(0.1), status }.said();
        assert_eq!([400, 500, 503].map(said), [Ok(Status::Invalid), Ok(Status::Failed), Ok(Status::Rejected)]);
        assert!(said(404).expect_err("it cannot").reason.contains("400, 500 or 503"));
    }
}
