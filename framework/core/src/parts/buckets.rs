//! The buckets of our histograms: those of an HdrHistogram from 1 ns to one hour. Written as the crate of that name
//! writes them, but with less to do for each value.

/// Highest value that histograms tell apart: one hour in nanoseconds; longer times count as one hour.
pub const NS_MAX: u64 = 3_600_000_000_000;
/// Cookie of the plain V2 encoding, with words of 8 bytes.
pub const V2_COOKIE: u32 = 0x1C84_9313;
/// Length of the plain encoding before its counts, bytes.
pub const V2_HEADER_BYTES: usize = 40;

/// Which values share a bucket. With two significant digits a bucket is at most 1/128 of its values wide, with three
/// 1/1024, and 1 ns below 256 or 2048 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    digits: u8,
    half_bits: u32,
}

impl Shape {
    /// Of so many significant decimal digits, 1 to 3.
    pub const fn of(digits: u8) -> Self {
        // values below 2 · 10^digits have a bucket each, and their number is rounded up to a power of two
        let half_bits = match digits {
            0 | 1 => 4,
            2 => 7,
            _ => 10,
        };
        Shape { digits, half_bits }
    }

    /// Significant decimal digits.
    pub const fn digits(self) -> u8 {
        self.digits
    }

    /// The bucket of a value; that of one hour for longer times.
    #[inline]
    pub const fn index(self, value: u64) -> usize {
        let value = if value < NS_MAX { value } else { NS_MAX };
        let low = (2 << self.half_bits) - 1;
        let bits = 63 - (value | low).leading_zeros() - self.half_bits;
        ((bits as usize) << self.half_bits) + (value >> bits) as usize
    }

    /// How wide a bucket is, as a power of two, and the least value in it.
    const fn place(self, index: usize) -> (u32, u64) {
        let block = (index >> self.half_bits) as u32;
        if block < 2 {
            return (0, index as u64);
        }
        let bits = block - 1;
        let low = (index - ((bits as usize) << self.half_bits)) as u64;
        (bits, low << bits)
    }

    /// The least value of a bucket.
    pub const fn lowest(self, index: usize) -> u64 {
        self.place(index).1
    }

    /// The largest value of a bucket.
    pub const fn highest(self, index: usize) -> u64 {
        let (bits, low) = self.place(index);
        low + (1 << bits) - 1
    }

    /// The value that stands for a bucket in a mean.
    pub const fn middle(self, index: usize) -> u64 {
        let (bits, low) = self.place(index);
        low + ((1 << bits) >> 1)
    }
}

/// Writes occupied buckets, the lowest first, as a histogram in the plain V2 encoding.
pub fn encode_v2(shape: Shape, buckets: impl Iterator<Item = (usize, u64)>, out: &mut Vec<u8>) {
    let begin = out.len();
    let words = [V2_COOKIE, 0, 0, u32::from(shape.digits)];
    out.extend(words.into_iter().flat_map(u32::to_be_bytes));
    out.extend([1, NS_MAX, 1.0_f64.to_bits()].into_iter().flat_map(u64::to_be_bytes));
    let mut next = 0;
    for (index, count) in buckets.filter(|(_, count)| *count > 0) {
        match (index - next) as u64 {
            0 => {}
            1 => out.push(0),
            // zigzag: a run of zeros is negative
            zeros => leb128(zeros * 2 - 1, out),
        }
        leb128(count.min(i64::MAX as u64) << 1, out);
        next = index + 1;
    }
    let length = (out.len() - begin - V2_HEADER_BYTES) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&length.to_be_bytes());
}

/// Seven bits in a byte, the lowest first; the ninth byte is taken whole.
fn leb128(mut number: u64, out: &mut Vec<u8>) {
    for _ in 0..8 {
        if number < 0x80 {
            break;
        }
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A histogram that grows with the largest value it has seen, up to 270 kB with three digits and 37 kB with two.
#[derive(Clone, Debug)]
pub struct Buckets {
    shape: Shape,
    counts: Vec<u64>,
    /// Which blocks of 2^`half_bits` buckets hold anything: a bit each, and 42 bits of a value are at most 38 blocks.
    blocks: u64,
}

impl Buckets {
    /// Empty.
    pub const fn new(shape: Shape) -> Self {
        Buckets { shape, counts: Vec::new(), blocks: 0 }
    }

    /// Adds a value so many times.
    #[inline]
    pub fn add(&mut self, value: u64, times: u64) {
        let index = self.shape.index(value);
        if index >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index] += times;
        self.blocks |= 1 << (index >> self.shape.half_bits);
    }

    /// Adds values, each once.
    pub fn add_all(&mut self, values: &[u64]) {
        let Some(most) = values.iter().max() else { return };
        let last = self.shape.index(*most);
        if last >= self.counts.len() {
            self.grow(last);
        }
        let (shape, counts) = (self.shape, &mut self.counts[..]);
        for value in values {
            let index = shape.index(*value);
            counts[index] += 1;
            self.blocks |= 1 << (index >> shape.half_bits);
        }
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        // up to a power of two of values, so that it grows seldom
        self.counts.resize((index | ((1 << self.shape.half_bits) - 1)) + 1, 0);
    }

    /// Whether nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Occupied buckets, the lowest first.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, u64)> {
        let bits = self.shape.half_bits;
        let buckets = held(self.blocks).flat_map(move |block| block << bits..(block + 1) << bits);
        buckets.map(|index| (index, self.counts[index])).filter(|(_, count)| *count > 0)
    }

    /// Writes it in the plain V2 encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_v2(self.shape, self.occupied(), out);
    }

    /// Empties it, and keeps its memory.
    pub fn reset(&mut self) {
        let bits = self.shape.half_bits;
        for block in held(std::mem::take(&mut self.blocks)) {
            self.counts[block << bits..(block + 1) << bits].fill(0);
        }
    }
}

/// The places of a word's ones, the lowest first.
fn held(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        next
    })
}

/// Equal values one after the other, which many are in a simulation: they are added at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    value: u64,
    times: u64,
}

impl Run {
    /// The next value; gives the run that it ends, and how long that was.
    #[inline]
    pub fn push(&mut self, value: u64) -> Option<(u64, u64)> {
        if value == self.value {
            self.times += 1;
            return None;
        }
        let ended = std::mem::replace(self, Run { value, times: 1 });
        (ended.times > 0).then_some((ended.value, ended.times))
    }

    /// The run that goes on, which begins anew.
    #[inline]
    pub fn take(&mut self) -> Option<(u64, u64)> {
        let ended = std::mem::take(self);
        (ended.times > 0).then_some((ended.value, ended.times))
    }

    /// Whether none goes on.
    pub const fn is_empty(&self) -> bool {
        self.times == 0
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    /// The encoding of the same values by the crate.
    fn of_crate(digits: u8, values: &[u64]) -> Vec<u8> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, NS_MAX, digits).expect("the bounds are right");
        values.iter().for_each(|value| histogram.saturating_record(*value));
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).expect("memory is the only limit");
        bytes
    }

    fn ours(digits: u8, values: &[u64]) -> Vec<u8> {
        let (mut buckets, mut run, mut bytes) = (Buckets::new(Shape::of(digits)), Run::default(), Vec::new());
        for value in values {
            run.push(*value).into_iter().for_each(|(value, times)| buckets.add(value, times));
        }
        let mut at_once = Buckets::new(Shape::of(digits));
        at_once.add_all(values);
        run.take().into_iter().for_each(|(value, times)| buckets.add(value, times));
        buckets.encode(&mut bytes);
        assert!(at_once.occupied().eq(buckets.occupied()));
        buckets.reset();
        assert!(buckets.is_empty() && buckets.occupied().next().is_none());
        bytes
    }

    proptest! {
        #[test]
        fn the_encoding_is_that_of_the_crate(
            digits in 1_u8..=3,
            values in proptest::collection::vec((0_u32..64, any::<u64>()).prop_map(|(bits, n)| (n >> bits).min(NS_MAX)), 1..300),
        ) {
            prop_assert_eq!(ours(digits, &values), of_crate(digits, &values));
        }

        #[test]
        fn a_bucket_holds_what_the_crate_calls_equivalent(digits in 1_u8..=3, bits in 0_u32..42, n in any::<u64>()) {
            let value = (n >> (63 - bits)).min(NS_MAX);
            let shape = Shape::of(digits);
            let index = shape.index(value);
            let crates = Histogram::<u64>::new_with_bounds(1, NS_MAX, digits).expect("the bounds are right");
            prop_assert_eq!(shape.lowest(index), crates.lowest_equivalent(value));
            prop_assert_eq!(shape.highest(index), crates.highest_equivalent(value));
            prop_assert_eq!(shape.middle(index), crates.median_equivalent(value));
        }
    }

    #[test]
    fn what_takes_longer_than_an_hour_counts_as_one() {
        assert_eq!(ours(3, &[u64::MAX, NS_MAX + 1_000_000_000_000]), ours(3, &[NS_MAX, NS_MAX]));
    }

    #[test]
    fn many_of_one_value_and_neighbours_are_encoded_alike() {
        let values: Vec<u64> = [5, 5, 5, 7, 8, 2_000, 5].into_iter().chain(std::iter::repeat_n(9, 70_000)).collect();
        for digits in [1, 2, 3] {
            assert_eq!(ours(digits, &values), of_crate(digits, &values));
        }
    }
}
