//! Random numbers that belong to one stream of one actor, for one purpose.
//!
//! A stream is seeded from names and indices only, so adding an actor changes nobody else's draws, and N hosts draw
//! bit for bit what one host, or the simulator, draws.

use rand_core::{Rng, SeedableRng};
use rand_distr::Distribution;
use rand_xoshiro::Xoroshiro128PlusPlus;
use sha2::{Digest, Sha256};

use crate::time::Span;

/// A small generator (xoroshiro128++, 16 bytes) that is kept in the actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RngStream(Xoroshiro128PlusPlus);

/// What a stream is seeded from: SHA-256(seed ‖ repetition ‖ group ‖ member ‖ stream ‖ purpose), each field
/// little-endian, each text ended by a zero byte.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a> {
    /// The experiment's seed.
    pub seed: u64,
    /// The repetition, from 0.
    pub repetition: u32,
    /// Node and actor as written in the experiment, `camera/main`.
    pub group: &'a str,
    /// The instance within the group, counted over all instances of the node.
    pub member: u32,
    /// The stream within the instance.
    pub stream: u32,
    /// What the numbers are for, `arrivals`.
    pub purpose: &'a str,
}

impl RngStream {
    /// The stream of `seed`.
    pub fn new(seed: Seed<'_>) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.seed.to_le_bytes());
        hash.update(seed.repetition.to_le_bytes());
        hash.update(seed.group.as_bytes());
        hash.update([0]);
        hash.update(seed.member.to_le_bytes());
        hash.update(seed.stream.to_le_bytes());
        hash.update(seed.purpose.as_bytes());
        hash.update([0]);
        let digest = hash.finalize();
        let mut state = [0_u8; 16];
        state.copy_from_slice(&digest[..16]);
        RngStream(Xoroshiro128PlusPlus::from_seed(state))
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`, by multiplication (bias below n / 2^64); 0 if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Exponential with the given mean, at least 1 ns.
    #[inline]
    pub fn exponential(&mut self, mean: Span) -> Span {
        let x: f64 = rand_distr::Exp1.sample(&mut self.0);
        Span::from_nanos((x * mean.as_nanos() as f64) as u64 + 1)
    }

    /// Any distribution of `rand_distr`.
    #[inline]
    pub fn sample<T, D: Distribution<T>>(&mut self, distribution: &D) -> T {
        distribution.sample(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64, group: &str, member: u32, stream: u32, purpose: &str) -> RngStream {
        RngStream::new(Seed { seed, repetition: 0, group, member, stream, purpose })
    }

    #[test]
    fn every_field_of_the_seed_counts() {
        let first = |mut s: RngStream| s.bits();
        let base = first(stream(1, "camera/main", 0, 0, "arrivals"));
        let mut seen = vec![base];
        for other in [
            stream(2, "camera/main", 0, 0, "arrivals"),
            stream(1, "camera/mail", 0, 0, "arrivals"),
            stream(1, "camera/main", 1, 0, "arrivals"),
            stream(1, "camera/main", 0, 1, "arrivals"),
            stream(1, "camera/main", 0, 0, "sizes"),
            RngStream::new(Seed {
                seed: 1,
                repetition: 1,
                group: "camera/main",
                member: 0,
                stream: 0,
                purpose: "arrivals",
            }),
        ] {
            let x = first(other);
            assert!(!seen.contains(&x), "two seeds gave the same stream");
            seen.push(x);
        }
        assert_eq!(base, first(stream(1, "camera/main", 0, 0, "arrivals")));
    }

    /// Golden vectors: these numbers must never change, on no host and in no version. The first five were computed
    /// independently from the definition (SHA-256, then xoroshiro128++).
    #[test]
    fn golden_vectors() {
        let mut s = stream(1, "camera/main", 0, 0, "arrivals");
        assert_eq!(
            [s.bits(), s.bits(), s.bits()],
            [0x4ea1_6532_c395_aaaa, 0xaafd_0129_68de_0cc7, 0xbe4b_8338_707f_9b21]
        );
        let mut s = stream(42, "sensor/main", 999, 15, "sizes");
        assert_eq!((s.bits(), s.below(1_000_000)), (0x054a_7643_0d08_28e0, 742_095));
        assert_eq!(s.exponential(Span::from_millis(1)).as_nanos(), 1_834_158);
    }

    #[test]
    fn exponential_has_its_mean_and_unit_its_range() {
        let mut s = stream(7, "sensor/main", 3, 0, "arrivals");
        let n = 100_000;
        let sum: u64 = (0..n).map(|_| s.exponential(Span::from_micros(100)).as_nanos()).sum();
        let mean = sum as f64 / n as f64;
        // standard error of the mean is 100 µs / sqrt(n) = 0.32 µs; six of them
        assert!((mean - 100_000.0).abs() < 1_900.0, "mean {mean} ns");
        for _ in 0..1000 {
            let u = s.unit();
            assert!((0.0..1.0).contains(&u));
            assert!(s.below(10) < 10);
        }
    }
}
