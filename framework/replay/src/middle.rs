//! A middle: passes frames on between two interfaces, late and with losses, as a link of that delay would; and counts
//! what came.
//!
//! It is for kernels without `netem`, and for routers' places that count. Losses are drawn from a seed, for each
//! direction by the frame's number. Outer VLAN tags, which the kernel takes out of what it shows, are not passed on.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use thiserror::Error;

use crate::frame::{Layers, protocol};
use crate::receive::{ReceiveError, enter_space};
use crate::send::wire;
use crate::sys::hear::Hearing;
use crate::sys::interface::Interface;
use crate::sys::packet::{BATCH, PacketSocket};
use crate::sys::thread::real_time;
use crate::timing::wait::{Stop, now, sharpen};

/// Frames that are under way at most, each way. Assumed: a second of 10 Gbit/s in frames of 1,250 bytes.
const UNDER_WAY_MAX: usize = 1 << 20;
/// Kinds that are told apart at most, and seconds of each.
const KINDS_MAX: usize = 4096;
const SECONDS_MAX: usize = 3_600;
/// The longest sleep, nanoseconds.
const NAP: u64 = 10_000_000;

/// Where it is and what it does.
#[derive(Clone, Debug)]
pub struct Middle {
    /// The two interfaces.
    pub between: [String; 2],
    /// Their network namespace: its name for iproute2, or a path.
    pub space: Option<PathBuf>,
    /// How long a frame is under way, nanoseconds.
    pub delay: u64,
    /// How many of all frames are lost, from 0 to 1.
    pub loss: f64,
    /// Where drawing begins.
    pub seed: u64,
}

/// Why it does not begin.
#[derive(Debug, Error)]
pub enum MiddleError {
    /// No such namespace.
    #[error(transparent)]
    Space(#[from] ReceiveError),
    /// No such interface, or we may not.
    #[error("`{name}` cannot be used: {source} (there are: {there}; it needs root, or CAP_NET_RAW)")]
    Open {
        /// The interface.
        name: String,
        /// Why not.
        source: io::Error,
        /// Which there are.
        there: String,
    },
    /// Its numbers make no sense.
    #[error("a loss of {0}; write a share from 0 to 1")]
    Loss(f64),
    /// No thread.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
}

/// What came of it, from the first interface to the second and back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Frames that came.
    pub came: [u64; 2],
    /// Those that were lost on purpose.
    pub lost: [u64; 2],
    /// Those that were sent on.
    pub passed: [u64; 2],
    /// Those that could not be sent on, or for which there was no room.
    pub dropped: [u64; 2],
    /// Frames that the kernel had no room for before they came.
    pub missed: [u64; 2],
    /// Frames that came, by protocol and the lower port.
    pub kinds: BTreeMap<String, [u64; 2]>,
    /// Both ways together in each second from the first frame on; of the first hour.
    pub seconds: BTreeMap<String, Vec<u64>>,
}

/// Frames by kind: protocol over IP and the lower port, or for what has no IP the EtherType.
#[derive(Debug, Default)]
struct Kinds {
    first: Option<u64>,
    each: BTreeMap<Kind, ([u64; 2], Vec<u64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Ip(u8, u16),
    Frame(u16),
    /// When there were too many.
    Other,
}

/// One that is at work.
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<Passed>,
    stop: Arc<Stop>,
}

/// One way.
struct Way {
    hearing: Hearing,
    socket: PacketSocket,
    under_way: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Middle {
    /// Begins; `each` is shown every frame that comes: which way, its bytes, and whether it is lost.
    ///
    /// # Errors
    /// When there is no such place, or nobody may.
    pub fn start(self, each: impl FnMut(usize, &[u8], bool) + Send + 'static) -> Result<Running, MiddleError> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(MiddleError::Loss(self.loss));
        }
        let stop = Arc::new(Stop::new());
        let (end, (ready, told)) = (Arc::clone(&stop), sync_channel(1));
        let thread = Builder::new().name("replay-middle".to_owned()).spawn(move || self.run(&end, &ready, each));
        let thread = thread.map_err(MiddleError::Thread)?;
        told.recv().unwrap_or_else(|_| Err(MiddleError::Thread(io::Error::other("it ended"))))?;
        Ok(Running { thread, stop })
    }

    fn ways(&self) -> Result<[Way; 2], MiddleError> {
        if let Some(space) = &self.space {
            enter_space(space)?;
        }
        let failed = |name: &str| {
            let name = name.to_owned();
            move |source| MiddleError::Open { name, source, there: wire::names().join(", ") }
        };
        let [a, b] = &self.between;
        let open = |name: &String| Interface::read(name).map_err(failed(name));
        let [first, second] = [open(a)?, open(b)?];
        let way = |from: &Interface, to: &Interface| {
            let hearing = Hearing::open(from.index, from.mtu.max(1500) + 64).map_err(failed(&from.name))?;
            let socket = PacketSocket::open(to.index).map_err(failed(&to.name))?;
            Ok::<_, MiddleError>(Way { hearing, socket, under_way: VecDeque::new(), spare: Vec::new() })
        };
        Ok([way(&first, &second)?, way(&second, &first)?])
    }

    fn run(
        &self,
        stop: &Stop,
        ready: &SyncSender<Result<(), MiddleError>>,
        mut each: impl FnMut(usize, &[u8], bool),
    ) -> Passed {
        let (mut passed, mut kinds) = (Passed::default(), Kinds::default());
        let mut ways = match self.ways() {
            Ok(ways) => ways,
            Err(why) => {
                // who asked waits for exactly this
                let _ = ready.send(Err(why));
                return passed;
            }
        };
        sharpen();
        // whoever sends may go before ordinary threads, and would keep it from its core; where it is not allowed, that shows
        let _ = real_time();
        let _ = ready.send(Ok(()));
        while stop.why().is_none() {
            let mut due = now() + NAP;
            for (at, way) in ways.iter_mut().enumerate() {
                // an interface that is down shows nothing; it may come back
                let _ = self.take(at, way, (&mut passed, &mut kinds), &mut each);
                way.pass(at, &mut passed);
                due = way.under_way.front().map_or(due, |(at, _)| due.min(*at));
            }
            let wish = Timespec { tv_sec: 0, tv_nsec: due.saturating_sub(now()) as _ };
            let mut ends = ways.each_ref().map(|way| PollFd::from_borrowed_fd(way.hearing.as_fd(), PollFlags::IN));
            let _ = poll(&mut ends, Some(&wish));
        }
        for (way, missed) in ways.iter().zip(&mut passed.missed) {
            *missed = way.hearing.dropped().unwrap_or(0);
        }
        kinds.told(&mut passed);
        passed
    }

    /// Takes what has come one way.
    fn take(
        &self,
        at: usize,
        way: &mut Way,
        (passed, kinds): (&mut Passed, &mut Kinds),
        each: &mut impl FnMut(usize, &[u8], bool),
    ) -> io::Result<()> {
        let Way { hearing, under_way, spare, .. } = way;
        let time = now();
        let due = time + self.delay;
        loop {
            let taken = hearing.take(|frame| {
                let lost = self.loses(at, passed.came[at]);
                passed.came[at] += 1;
                kinds.count(at, frame, time);
                each(at, frame, lost);
                if lost {
                    passed.lost[at] += 1;
                } else if under_way.len() == UNDER_WAY_MAX {
                    passed.dropped[at] += 1;
                } else {
                    let mut copy = spare.pop().unwrap_or_default();
                    copy.clear();
                    copy.extend_from_slice(frame);
                    under_way.push_back((due, copy));
                }
            })?;
            if taken < BATCH {
                return Ok(());
            }
        }
    }

    /// Whether a frame is lost, by its number: one draw of SplitMix64 (Steele, Lea and Flood 2014).
    fn loses(&self, way: usize, number: u64) -> bool {
        let mut z = (self.seed ^ (way as u64) << 63).wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) as f64) < self.loss * (1_u64 << 53) as f64
    }
}

impl Way {
    /// Sends on what has been under way long enough.
    fn pass(&mut self, at: usize, passed: &mut Passed) {
        let time = now();
        loop {
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            let due = self.under_way.iter().take(BATCH).take_while(|(due, _)| *due <= time);
            let count = due.zip(&mut frames).map(|((_, frame), to)| *to = frame).count();
            if count == 0 {
                return;
            }
            let gone = match self.socket.send(&frames[..count]) {
                Ok(sent) => {
                    passed.passed[at] += sent as u64;
                    sent
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    passed.dropped[at] += 1;
                    1
                }
            };
            self.spare.extend(self.under_way.drain(..gone).map(|(_, frame)| frame));
            self.spare.truncate(UNDER_WAY_MAX);
        }
    }
}

impl Kinds {
    fn count(&mut self, at: usize, frame: &[u8], time: u64) {
        let layers = Layers::of(frame);
        let kind = layers.innermost().map_or(Kind::Frame(layers.ethertype), |network| {
            let port = network.ports(frame).map_or(0, |ports| ports.source.min(ports.destination));
            Kind::Ip(network.protocol, port)
        });
        let full = self.each.len() >= KINDS_MAX && !self.each.contains_key(&kind);
        let (ways, seconds) = self.each.entry(if full { Kind::Other } else { kind }).or_default();
        ways[at] += 1;
        let second = ((time - *self.first.get_or_insert(time)) / 1_000_000_000) as usize;
        if second < SECONDS_MAX {
            seconds.resize(seconds.len().max(second + 1), 0);
            seconds[second] += 1;
        }
    }

    fn told(self, passed: &mut Passed) {
        for (kind, (ways, seconds)) in self.each {
            passed.kinds.insert(kind.to_string(), ways);
            passed.seconds.insert(kind.to_string(), seconds);
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Kind::Ip(protocol::TCP, port) => write!(f, "TCP {port}"),
            Kind::Ip(protocol::UDP, port) => write!(f, "UDP {port}"),
            Kind::Ip(number, _) => write!(f, "IP protocol {number}"),
            Kind::Frame(kind) => write!(f, "EtherType 0x{kind:04x}"),
            Kind::Other => f.write_str("others"),
        }
    }
}

impl Running {
    /// Ends it; what is under way is gone.
    pub fn finish(self) -> Passed {
        self.stop.set(crate::timing::wait::Ended::Asked);
        // a thread that panicked has said so
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_drawn_by_number_and_have_their_share() {
        let middle = Middle { between: [String::new(), String::new()], space: None, delay: 0, loss: 0.01, seed: 7 };
        let lost = |middle: &Middle, way| (0..100_000).filter(|number| middle.loses(way, *number)).collect::<Vec<_>>();
        let [one, other] = [lost(&middle, 0), lost(&middle, 1)];
        assert!(
            (900..1_100).contains(&one.len()) && (900..1_100).contains(&other.len()),
            "{} {}",
            one.len(),
            other.len()
        );
        assert!(one != other && one == lost(&middle, 0) && one != lost(&Middle { seed: 8, ..middle.clone() }, 0));
        assert_eq!(lost(&Middle { loss: 0.0, ..middle.clone() }, 0).len(), 0);
        assert_eq!(lost(&Middle { loss: 1.0, ..middle }, 0).len(), 100_000);
    }

    #[test]
    fn frames_are_counted_by_kind_and_second() {
        use crate::testing::{datagram, ethernet, segment};
        let (mut kinds, mut passed) = (Kinds::default(), Passed::default());
        let http = segment(("10.0.0.1", 4000), ("10.0.0.2", 80), 0x02, b"");
        let name = datagram(("10.0.0.2", 53), ("10.0.0.1", 4000), b"name");
        for (second, way, frame) in [(7, 0, &http), (7, 1, &name), (9, 1, &http), (9, 0, &ethernet(0x0806, &[0; 28]))] {
            kinds.count(way, frame, second * 1_000_000_000);
        }
        kinds.told(&mut passed);
        let kinds: Vec<_> = passed.kinds.iter().map(|(kind, ways)| (kind.as_str(), *ways)).collect();
        assert_eq!(kinds, [("EtherType 0x0806", [1, 0]), ("TCP 80", [1, 1]), ("UDP 53", [0, 1])]);
        assert_eq!(
            (passed.seconds["TCP 80"].as_slice(), passed.seconds["UDP 53"].as_slice()),
            (&[1, 0, 1][..], &[1][..])
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let middle = |name: &str, loss| Middle {
            between: [name.to_owned(), "lo".to_owned()],
            space: None,
            delay: 0,
            loss,
            seed: 0,
        };
        assert!(matches!(middle("lo", 1.5).start(|_, _, _| {}), Err(MiddleError::Loss(_))));
        let why = middle("no-such-if0", 0.0).start(|_, _, _| {}).expect_err("none").to_string();
        assert!(why.contains("`no-such-if0` cannot be used") && why.contains("lo"), "{why}");
    }
}
