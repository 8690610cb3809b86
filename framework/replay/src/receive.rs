//! The far side: what arrives at an interface, frame by frame with the kernel's times, or counted by an XDP program when it is
//! too much for that.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;
use thiserror::Error;

use crate::send::wire::{self, Counters};
use crate::sys::interface::Interface;

mod count;
mod frames;
mod key;
mod streams;

pub use frames::Seen;
pub(crate) use key::hash;
pub use key::{key, key_padded};
pub use streams::{Curve, Streams};

/// Readings of counters that are kept: half an hour of one each millisecond.
const COUNTS_KEPT: usize = 1_800_000;
/// Where iproute2 keeps namespaces by their names (ip-netns(8)).
const SPACES: &str = "/run/netns";

/// How arrivals are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every frame, with the kernel's time: for gaps and order.
    Frames,
    /// Counted in the driver and dropped there: for top speed.
    Count,
    /// Streams that are there at the same time, each known by its 5-tuple; frames are counted and forgotten.
    Streams,
}

/// Where to listen.
#[derive(Clone, Debug)]
pub struct Place {
    /// The interface.
    pub interface: String,
    /// A network namespace: its name for iproute2, or a path.
    pub space: Option<PathBuf>,
    /// How.
    pub mode: Mode,
    /// Whether frames may come that were redirected (path `xdp-live`): a veth takes them only while a program is at its driver.
    pub redirected: bool,
}

/// Why nobody listens.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// No such namespace.
    #[error("the network namespace {} cannot be entered: {source}", path.display())]
    Space {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No such interface.
    #[error("there is no interface `{name}` to receive on ({there})")]
    Missing {
        /// Its name.
        name: String,
        /// Which there are.
        there: String,
    },
    /// It is switched off.
    #[error("the interface `{0}` to receive on is down; `ip link set {0} up` switches it on")]
    Down(String),
    /// We may not, or it cannot.
    #[error("nothing can be received on `{name}`{hint}: {source}")]
    Open {
        /// The interface.
        name: String,
        /// Why not.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
}

/// What was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// Frames in the order in which they arrived.
    pub frames: Vec<Seen>,
    /// Frames that came when as many were kept as there is room for.
    pub unkept: u64,
    /// Frames that the kernel had no room for.
    pub dropped: u64,
    /// Of modes `count` and `streams`: a time of CLOCK_MONOTONIC, and how many packets had been counted by then; one about each
    /// millisecond.
    pub counts: Vec<(u64, u64)>,
    /// Of mode `streams`: those.
    pub streams: Option<Streams>,
    /// Of mode `count`: bytes in all.
    pub bytes: u64,
    /// How far CLOCK_REALTIME moved against CLOCK_MONOTONIC meanwhile, nanoseconds: the kernel's times are of the former.
    pub clock_moved: i64,
    /// What the interface counted meanwhile.
    pub wire: Option<Counters>,
}

impl Heard {
    /// Notes how many packets have been counted by now.
    fn counted(&mut self, time: u64, packets: u64) {
        if packets == 0 {
            // the last reading before the first packet
            self.counts.clear();
        } else if self.counts.len() >= COUNTS_KEPT {
            // the end is worth more than another middle
            self.counts.pop();
        }
        self.counts.push((time, packets));
    }
}

/// A thread that listens.
#[derive(Debug)]
pub struct Ear {
    thread: JoinHandle<Heard>,
    shared: Arc<Shared>,
    place: Place,
}

/// What the thread and who asked for it tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Whether to end.
    over: AtomicBool,
    /// Frames so far.
    heard: AtomicU64,
}

impl Ear {
    /// Listens from when this returns.
    ///
    /// # Errors
    /// When there is no such place, or nobody may listen there.
    pub fn open(place: Place) -> Result<Self, ReceiveError> {
        let shared = Arc::new(Shared::default());
        let (ready, told) = sync_channel(1);
        let (at, end) = (place.clone(), Arc::clone(&shared));
        let thread = Builder::new().name("replay-ear".to_owned()).spawn(move || listen(&at, &end, &ready));
        let failed = |source| ReceiveError::Open { name: place.interface.clone(), source, hint: "" };
        let thread = thread.map_err(failed)?;
        told.recv().unwrap_or_else(|_| Err(failed(io::Error::other("its thread ended"))))?;
        Ok(Ear { thread, shared, place })
    }

    /// Where it listens.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Frames so far.
    pub fn heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// Hears what is still on its way, and ends.
    pub fn finish(self) -> Heard {
        self.shared.over.store(true, Ordering::SeqCst);
        // a thread that panicked has said so, and heard nothing that can be relied on
        self.thread.join().unwrap_or_default()
    }
}

/// A namespace's file.
fn file_of(space: &Path) -> PathBuf {
    if space.components().count() == 1 { Path::new(SPACES).join(space) } else { space.to_owned() }
}

fn listen(place: &Place, shared: &Shared, ready: &SyncSender<Result<(), ReceiveError>>) -> Heard {
    let said = |result| {
        // who asked waits for exactly this
        let _ = ready.send(result);
    };
    let interface = match enter(place) {
        Ok(interface) => interface,
        Err(why) => {
            said(Err(why));
            return Heard::default();
        }
    };
    let before = Counters::read(&interface.name);
    let mut heard = Heard::default();
    let name = interface.name.clone();
    let open = |source: io::Error, hint| ReceiveError::Open { name, source, hint };
    match place.mode {
        Mode::Frames | Mode::Streams => match frames::Listener::open(&interface, place.redirected) {
            Ok(listener) => {
                heard.streams = (place.mode == Mode::Streams).then(Streams::default);
                said(Ok(()));
                listener.run(shared, &mut heard);
            }
            Err(why) => said(Err(open(why, " (it needs root, or CAP_NET_RAW)"))),
        },
        Mode::Count => match count::Counter::open(&interface) {
            Ok(counter) => {
                said(Ok(()));
                counter.run(shared, &mut heard);
            }
            Err(why) => {
                said(Err(open(why, " (counting needs root and a driver with XDP; --receive-as frames needs neither)")))
            }
        },
    }
    let after = Counters::read(&interface.name);
    heard.wire = before.zip(after).map(|(before, after)| after.since(&before));
    heard
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter_space(space: &Path) -> Result<(), ReceiveError> {
    let path = file_of(space);
    let moved = File::open(&path).and_then(|file| {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(io::Error::from)
    });
    moved.map_err(|source| ReceiveError::Space { path, source })
}

fn enter(place: &Place) -> Result<Interface, ReceiveError> {
    if let Some(space) = &place.space {
        enter_space(space)?;
    }
    let missing = |_| ReceiveError::Missing {
        name: place.interface.clone(),
        there: format!("there are: {}", wire::names().join(", ")),
    };
    let interface = Interface::read(&place.interface).map_err(missing)?;
    if interface.up { Ok(interface) } else { Err(ReceiveError::Down(interface.name)) }
}
