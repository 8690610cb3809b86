//! Connections that came to nothing, by target and kind: what a run says of a target that refuses it.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;

/// Pairs of address and kind that are told apart; what comes beyond is one number.
const KNOWN_MAX: usize = 16;

/// How a connection came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Loss {
    /// Nobody listens.
    Refused,
    /// It was reset, before or after it was open.
    Reset,
    /// The peer closed it before it had answered.
    Closed,
    /// The deadline passed before it was open.
    Late,
    /// There is no way to the peer.
    Unreachable,
    /// The peer answered with something else than HTTP.
    Foreign,
}

/// How often, for each target.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Losses {
    known: BTreeMap<(SocketAddr, Loss), u64>,
    others: u64,
}

impl Loss {
    /// Why a connection could not be opened.
    pub(crate) fn opening(why: &io::Error) -> Loss {
        match why.kind() {
            io::ErrorKind::ConnectionRefused => Loss::Refused,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Loss::Reset,
            io::ErrorKind::TimedOut => Loss::Late,
            _ => Loss::Unreachable,
        }
    }

    /// Why an open connection brought no answer.
    pub(crate) fn answering(why: &hyper::Error) -> Loss {
        if why.is_parse() {
            return Loss::Foreign;
        }
        let causes = std::iter::successors(why.source(), |cause| (*cause).source());
        let broken = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
            matches!(io.kind(), ConnectionReset | ConnectionAborted | BrokenPipe)
        });
        if broken { Loss::Reset } else { Loss::Closed }
    }

    /// What `address` did to `connections`.
    pub(crate) fn says(self, address: SocketAddr, connections: &str) -> String {
        match self {
            Loss::Refused => format!("{address} refused {connections}"),
            Loss::Reset => format!("{address} reset {connections}"),
            Loss::Closed => format!("{address} closed {connections} without an answer"),
            Loss::Late => format!("{address} did not accept {connections} in time"),
            Loss::Unreachable => format!("{address} could not be reached by {connections}"),
            Loss::Foreign => format!("{address} answered {connections} with something else than HTTP"),
        }
    }
}

impl Losses {
    /// Books one; whether it is the first of its target and kind, and told apart.
    pub(crate) fn add(&mut self, address: SocketAddr, loss: Loss) -> bool {
        self.book((address, loss), 1)
    }

    /// Adds those of another shard.
    pub(crate) fn merge(&mut self, other: &Losses) {
        for (key, n) in &other.known {
            self.book(*key, *n);
        }
        self.others += other.others;
    }

    fn book(&mut self, key: (SocketAddr, Loss), n: u64) -> bool {
        let known = self.known.len();
        match self.known.get_mut(&key) {
            Some(count) => *count += n,
            None if known < KNOWN_MAX => return self.known.insert(key, n).is_none(),
            None => self.others += n,
        }
        false
    }

    /// A sentence for each target and kind, with their counts.
    pub(crate) fn notes(&self) -> Vec<String> {
        let count = |n: u64| if n == 1 { "1 connection".to_owned() } else { format!("{n} connections") };
        let known = self.known.iter().map(|((address, loss), n)| loss.says(*address, &count(*n)));
        let others = (self.others > 0).then(|| format!("{} to other targets came to nothing", count(self.others)));
        known.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn each_target_and_kind_is_news_once_and_counted_always() {
        let mut here = Losses::default();
        assert!(here.add(peer(7341), Loss::Refused));
        assert!(!here.add(peer(7341), Loss::Refused));
        assert!(here.add(peer(7341), Loss::Closed));
        let mut all = here.clone();
        all.merge(&here);
        let expected =
            ["127.0.0.1:7341 refused 4 connections", "127.0.0.1:7341 closed 2 connections without an answer"];
        assert_eq!(all.notes(), expected);
    }

    #[test]
    fn a_thousand_dead_targets_are_a_few_sentences() {
        let mut all = Losses::default();
        let news = (1..=1000).filter(|port| all.add(peer(*port), Loss::Late)).count();
        assert_eq!((news, all.notes().len()), (KNOWN_MAX, KNOWN_MAX + 1));
        assert_eq!(all.notes()[KNOWN_MAX], "984 connections to other targets came to nothing");
        assert_eq!(all.notes()[0], "127.0.0.1:1 did not accept 1 connection in time");
        let mut merged = Losses::default();
        merged.merge(&all);
        assert_eq!(merged, all);
    }
}
