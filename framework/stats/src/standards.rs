//! What the network standards call a measurement: definition, source, and a vector computed by hand in the tests.
//!
//! | metric | formula | source |
//! |---|---|---|
//! | IPTD | mean of t₂ − t₁ over packets that arrive within Tmax | ITU-T Y.1540, 6.2 |
//! | IPDV | the 1 − 10⁻³ quantile of t₂ − t₁, less its minimum | Y.1540, 6.2.4; Y.1541, table 1 |
//! | IPDV of classes 6 and 7 | the 1 − 10⁻⁵ quantile of t₂ − t₁, less its minimum | Y.1541, table 3, provisional |
//! | IPLR | lost / transmitted; lost is what does not arrive within Tmax, 3 s | Y.1540, 6.4 |
//! | availability | share of minutes with IPLR ≤ 0.2 | Y.1540, 7 |
//! | class | the objectives of classes 0 to 7 | Y.1541, tables 1 and 3 |
//! | jitter | J += (|D| − J) / 16, D between arrivals | RFC 3550, 6.4.1 and A.8 |
//! | PDV, IPDV | D(i) − Dmin; D(i) − D(i − 1) | RFC 5481, 4.2 and 4.1 |
//! | rating R and opinion score of speech | 93.2 − Idd − Ie,eff | ITU-T G.107, 7.4, 7.5 and annex B |
//! | availability of a cyclic service | time outside of losses that outlast the survival time | TS 22.104, 5.1 and annex C |
//!
//! All of them are about packets between two points. Ours are datagrams between two applications: what the hosts' stacks
//! add is part of every delay, and a packet that arrives broken is not seen at all, so it counts as lost (IPER is not
//! told). A delay between two hosts is only as good as their clocks: publish the uncertainty of the offset beside it.
//! Variation and jitter do not suffer from a constant offset.
//!
//! `configs/guides/standards.md` is the page of this for readers. [`names`] says which measurements of TS 28.552 and TS 28.554 ours stand beside, [`scope`] what is not here, and why.

use serde::Serialize;

pub mod g107;
pub mod names;
pub mod rfc3550;
pub mod rfc5481;
pub mod scope;
pub mod ts22104;
pub mod y1540;
pub mod y1541;

/// One packet of the population of interest. Times are ns of any clock; a delay is their difference, and negative if the
/// clocks disagree by more than it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it left.
    pub sent_ns: i64,
    /// When it first arrived; `None` if it never did.
    pub received_ns: Option<i64>,
}

impl Packet {
    /// From leaving to arrival, ns.
    pub fn delay_ns(&self) -> Option<i64> {
        self.received_ns.map(|received| received - self.sent_ns)
    }
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// It does.
    Holds,
    /// It does not.
    DoesNot,
    /// What was measured does not tell.
    CannotBeTold,
}

impl Held {
    /// As it is printed.
    pub const fn words(self) -> &'static str {
        match self {
            Held::Holds => "holds",
            Held::DoesNot => "does not hold",
            Held::CannotBeTold => "cannot be told",
        }
    }
}

/// The smallest value that at least this share of the sorted values does not exceed (nearest rank).
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    // a product such as 0.999 · 1000 may come out a hair above the whole number it is
    let rank = (share * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied()
}

/// The same of values and how often each occurred, the smallest first.
pub(crate) fn counted_rank(values: &[(i64, u64)], share: f64) -> Option<i64> {
    let all: u64 = values.iter().map(|(_, count)| *count).sum();
    let rank = (share * all as f64 - 1e-9).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = values.iter().find(|(_, count)| {
        seen += count;
        seen >= rank
    });
    found.or(values.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_readers_has_every_row() {
        let page = include_str!("../../../configs/guides/standards.md");
        let tables = [include_str!("standards.rs"), include_str!("standards/scope.rs")];
        let rows = tables.iter().flat_map(|source| source.lines()).filter_map(|line| line.strip_prefix("//! |"));
        for row in rows.map(|row| row.replace("[`super::names`]", "the table above")) {
            assert!(page.contains(&row), "configs/guides/standards.md lacks\n|{row}");
        }
        for names::Name { ours, theirs, document, between } in names::NAMES {
            let row = format!("| `{ours}` | {theirs} | {document} | {between} |");
            assert!(page.contains(&row), "configs/guides/standards.md lacks\n{row}");
        }
    }

    #[test]
    fn ranks_are_the_nearest_above() {
        let sorted: Vec<u32> = (1..=1000).collect();
        assert_eq!(nearest_rank(&sorted, 0.999), Some(999));
        assert_eq!((nearest_rank(&sorted, 0.0), nearest_rank(&sorted, 1.0)), (Some(1), Some(1000)));
        assert_eq!((nearest_rank(&[7, 8, 9], 0.5), nearest_rank::<u32>(&[], 0.5)), (Some(8), None));
    }
}
