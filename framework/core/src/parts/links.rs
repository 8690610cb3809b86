//! What one link did over all its pairs of nodes: counters, and how long its messages were under way. Both engines keep
//! such books of the links that they simulate or impose.

use serde_bytes::ByteBuf;

use super::buckets::{Buckets, Run, Shape};
use super::ledger::HISTOGRAM_DIGITS;
use crate::plan::Impose;
use crate::run::LinkEnd;
use crate::time::{Span, Time};

/// The books of one link, by its ends' names in the experiment file: a histogram of at most 270 kB for each.
#[derive(Debug)]
pub struct LinkBook {
    end: LinkEnd,
    delays: Buckets,
    run: Run,
    first: Option<Time>,
    last: Time,
}

impl LinkBook {
    /// Of the link `from` one node `to` another; `imposed` by whom.
    pub fn new(from: &str, to: &str, imposed: Impose) -> Self {
        let end = LinkEnd { from: from.to_owned(), to: to.to_owned(), imposed, ..LinkEnd::default() };
        let delays = Buckets::new(Shape::of(HISTOGRAM_DIGITS));
        LinkBook { end, delays, run: Run::default(), first: None, last: Time::ZERO }
    }

    /// Whether it is of this link.
    pub fn is(&self, from: &str, to: &str) -> bool {
        self.end.from == from && self.end.to == to
    }

    /// One more pair of node instances uses it.
    pub fn pair(&mut self) {
        self.end.pairs += 1;
    }

    /// A message is offered at `now`; `again` if it was lost or dropped before.
    #[inline]
    pub fn offered(&mut self, now: Time, again: bool) {
        self.end.offered += 1;
        self.end.retransmitted += u64::from(again);
        self.first.get_or_insert(now);
    }

    /// One was lost on the way.
    #[inline]
    pub fn lost(&mut self) {
        self.end.lost += 1;
    }

    /// Packets within a message were lost; of them `resent` were sent again by themselves, which counts as offers.
    pub fn lost_within(&mut self, lost: u64, resent: u64) {
        self.end.lost += lost;
        self.end.offered += resent;
        self.end.retransmitted += resent;
    }

    /// One found no room.
    #[inline]
    pub fn full(&mut self) {
        self.end.full += 1;
    }

    /// One of `bytes` bytes, offered at `offered`, comes out at `at`.
    #[inline]
    pub fn delivered(&mut self, offered: Time, at: Time, bytes: u64) {
        self.end.delivered += 1;
        self.end.bytes += bytes;
        self.last = self.last.max(at);
        let delay: Span = at.since(offered);
        if let Some((nanos, times)) = self.run.push(delay.as_nanos()) {
            self.delays.add(nanos, times);
        }
    }

    /// The books, closed. What is still under way is counted as `open`.
    pub fn end(&self) -> LinkEnd {
        let mut end = self.end.clone();
        end.open = end.offered - end.delivered - end.lost - end.full;
        end.active_ns = self.first.map_or(0, |first| self.last.since(first).as_nanos());
        let (mut bytes, mut delays, mut run) = (Vec::new(), self.delays.clone(), self.run);
        run.take().into_iter().for_each(|(nanos, times)| delays.add(nanos, times));
        delays.encode(&mut bytes);
        end.delay_v2 = ByteBuf::from(bytes);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_in_one_column() {
        let ms = |n: u64| Time::from_nanos(n * 1_000_000);
        let mut book = LinkBook::new("camera", "receiver", Impose::None);
        book.pair();
        for n in 0..5 {
            book.offered(ms(n), n == 4);
        }
        book.lost();
        book.full();
        book.delivered(ms(0), ms(7), 100);
        book.delivered(ms(3), ms(8), 100);
        let end = book.end();
        assert!(book.is("camera", "receiver") && !book.is("receiver", "camera"));
        assert_eq!((end.pairs, end.offered, end.delivered, end.lost, end.full, end.open), (1, 5, 2, 1, 1, 1));
        assert_eq!((end.retransmitted, end.bytes, end.active_ns), (1, 200, 8_000_000));
    }
}
