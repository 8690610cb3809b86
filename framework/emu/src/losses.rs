//! Connections that came to nothing, by target and kind: what a run says of a target that refuses it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use h3::error::{Code, StreamError};
use quinn::ConnectionError;
use rustls::AlertDescription;

use crate::tls::Fault;

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
    /// Nobody takes datagrams there.
    Unheard,
    /// The peer answered with something that is not of the protocol of `tcp` or `mqtt`.
    Garbled,
    /// The peer answered with something else than HTTP.
    Foreign,
    /// The peer's header fields were too large to be taken in.
    TooLarge,
    /// The peer broke off one stream of a connection.
    StreamReset,
    /// The peer closed the connection with a reason of its own (GOAWAY).
    GoAway,
    /// The deadline passed while the peer's flow control let no more of a request through.
    Stalled,
    /// The two ends did not come to terms on encryption.
    Tls(Fault),
}

/// What a loss takes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// Nothing: the peer has not begun with the request.
    Unbegun,
    /// One stream.
    Stream,
    /// All streams of a connection.
    Connection,
}

/// The other end of a connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Peer {
    /// A receiver.
    Address(SocketAddr),
    /// The server that traffic goes over.
    NatsServer,
    /// An MQTT broker.
    Broker(SocketAddr),
    /// A receiver's subject there.
    Subject(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Broker(address) => write!(f, "the broker {address}"),
            Peer::NatsServer => f.write_str("the NATS server"),
            Peer::Subject(subject) => write!(f, "`{subject}` has no subscriber and"),
        }
    }
}

/// How often, for each target.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Losses {
    known: BTreeMap<(Peer, Loss), u64>,
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
        if why.is_parse_too_large() {
            return Loss::TooLarge;
        }
        if why.is_parse() {
            return Loss::Foreign;
        }
        if let Some(fault) = Fault::within(why) {
            return Loss::Tls(fault);
        }
        let causes = std::iter::successors(why.source(), |cause| (*cause).source());
        let broken = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
            matches!(io.kind(), ConnectionReset | ConnectionAborted | BrokenPipe)
        });
        if broken { Loss::Reset } else { Loss::Closed }
    }

    /// What is lost: a connection, or one request of it.
    fn noun(self) -> &'static str {
        match self {
            Loss::StreamReset => "stream",
            Loss::Stalled => "request",
            Loss::Unheard => "datagram",
            _ => "connection",
        }
    }

    /// One of them, for a sentence.
    pub(crate) fn one(self) -> String {
        format!("a {}", self.noun())
    }

    fn counted(self, n: u64) -> String {
        if n == 1 { format!("1 {}", self.noun()) } else { format!("{n} {}s", self.noun()) }
    }

    /// Why a stream of HTTP/2 brought no answer, and what that takes along.
    pub(crate) fn of_stream(why: &hyper::Error) -> (Loss, Spread) {
        let causes = || std::iter::successors(why.source(), |cause| (*cause).source());
        let Some(h2) = causes().find_map(|cause| cause.downcast_ref::<h2::Error>()) else {
            // the library's word for the end of a connection with streams under way
            let ended = |io: &io::Error| io.kind() == io::ErrorKind::BrokenPipe;
            let ended = causes().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(ended);
            return (if ended { Loss::Closed } else { Loss::answering(why) }, Spread::Connection);
        };
        match h2.reason() {
            Some(h2::Reason::REFUSED_STREAM) if h2.is_remote() => (Loss::StreamReset, Spread::Unbegun),
            _ if h2.is_reset() && h2.is_remote() => (Loss::StreamReset, Spread::Stream),
            // this end broke the stream off: what came was against the protocol
            _ if h2.is_reset() => (Loss::Foreign, Spread::Stream),
            Some(h2::Reason::NO_ERROR) if h2.is_go_away() && h2.is_remote() => (Loss::GoAway, Spread::Unbegun),
            _ if h2.is_go_away() && h2.is_remote() => (Loss::GoAway, Spread::Connection),
            _ if h2.is_go_away() => (Loss::Foreign, Spread::Connection),
            _ => (Loss::answering(why), Spread::Connection),
        }
    }

    /// Why a stream of HTTP/3 brought no answer, and what that takes along; `closed` is why its connection is.
    pub(crate) fn of_quic_stream(why: &StreamError, closed: Option<&ConnectionError>) -> (Loss, Spread) {
        match why {
            StreamError::RemoteTerminate { code: Code::H3_REQUEST_REJECTED, .. } => {
                (Loss::StreamReset, Spread::Unbegun)
            }
            StreamError::RemoteTerminate { .. } => (Loss::StreamReset, Spread::Stream),
            StreamError::RemoteClosing { .. } => (Loss::GoAway, Spread::Unbegun),
            StreamError::HeaderTooBig { .. } => (Loss::TooLarge, Spread::Stream),
            StreamError::StreamError { .. } => (Loss::Foreign, Spread::Stream),
            _ => (closed.map_or(Loss::Closed, Loss::of_quic), Spread::Connection),
        }
    }

    /// Why a connection of QUIC is over. Source: RFC 9000 §20, RFC 9001 §4.8.
    pub(crate) fn of_quic(why: &ConnectionError) -> Loss {
        const REFUSED: u64 = 0x2;
        let coded = |code: u64| match code {
            REFUSED => Loss::Refused,
            0x100..=0x1ff => Loss::Tls(Fault::of_alert(AlertDescription::from((code & 0xff) as u8))),
            _ => Loss::Reset,
        };
        match why {
            ConnectionError::TransportError(why) => match coded(why.code.into()) {
                Loss::Reset => Loss::Foreign,
                loss => loss,
            },
            ConnectionError::ConnectionClosed(close) => coded(close.error_code.into()),
            ConnectionError::ApplicationClosed(close) => {
                if close.error_code.into_inner() == Code::H3_NO_ERROR.value() {
                    Loss::Closed
                } else {
                    Loss::GoAway
                }
            }
            ConnectionError::Reset => Loss::Reset,
            ConnectionError::TimedOut => Loss::Late,
            ConnectionError::VersionMismatch => Loss::Foreign,
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => Loss::Closed,
        }
    }

    /// What `address` did to `connections`.
    pub(crate) fn says(self, address: &Peer, connections: &str) -> String {
        match self {
            Loss::Refused => format!("{address} refused {connections}"),
            Loss::Reset => format!("{address} reset {connections}"),
            Loss::Closed => format!("{address} closed {connections} without an answer"),
            Loss::Late => format!("{address} did not accept {connections} in time"),
            Loss::Unreachable => format!("{address} could not be reached by {connections}"),
            Loss::Unheard => format!("{address} takes no datagrams: {connections} came back as refused"),
            Loss::Foreign => format!("{address} answered {connections} with something else than HTTP"),
            Loss::Garbled => format!("{address} answered {connections} with something else than its protocol"),
            Loss::TooLarge => format!("{address} answered {connections} with header fields that are too large"),
            Loss::StreamReset => format!("{address} reset {connections}"),
            Loss::GoAway => format!("{address} ended {connections} with a reason of its own (GOAWAY)"),
            Loss::Stalled => format!("{address} let the rest of {connections} not through in time (flow control)"),
            Loss::Tls(fault) => fault.says(&address.to_string(), connections),
        }
    }
}

impl Losses {
    /// Books one; whether it is the first of its target and kind, and told apart.
    pub(crate) fn add(&mut self, address: Peer, loss: Loss) -> bool {
        self.book((address, loss), 1)
    }

    /// Adds those of another shard.
    pub(crate) fn merge(&mut self, other: &Losses) {
        for (key, n) in &other.known {
            self.book(key.clone(), *n);
        }
        self.others += other.others;
    }

    fn book(&mut self, key: (Peer, Loss), n: u64) -> bool {
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
        let known = self.known.iter().map(|((address, loss), n)| loss.says(address, &loss.counted(*n)));
        let others = (self.others > 0)
            .then(|| format!("{} to other targets came to nothing", Loss::Closed.counted(self.others)));
        known.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> Peer {
        Peer::Address(SocketAddr::from(([127, 0, 0, 1], port)))
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
