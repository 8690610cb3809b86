//! Every frame that arrives, with the kernel's time.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Heard, Shared, key};
use crate::sys::bpf::{Attached, Program};
use crate::sys::interface::Interface;
use crate::sys::tap::{Arrival, Tap};
use crate::timing::wait::{now, realtime_offset};
use crate::xdp::{Assembly, XDP_PASS};

/// MiB of frames that the kernel keeps for us.
const BLOCKS: usize = 64;
/// After how many milliseconds the kernel hands over a block that is not full: so many times [`BLOCKS`] may pass until this
/// thread must have had its turn. Less than what [`QUIET`] is.
const RETIRE_MS: u32 = 20;
/// Frames that are kept at most; each takes 16 bytes.
const KEPT: usize = 32 << 20;
/// How long nothing must come for the end.
const QUIET: Duration = Duration::from_millis(100);
/// How long is listened after the end at most, nanoseconds.
const LINGER: u64 = 2_000_000_000;
/// How long is waited at once, nanoseconds.
const LOOK: i64 = 10_000_000;
/// How often counts are noted, nanoseconds.
const EVERY: u64 = 1_000_000;

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When the kernel took it up, nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// What tells it from others: see [`key`].
    pub key: u64,
}

/// A packet socket.
#[derive(Debug)]
pub struct Listener {
    tap: Tap,
    _woken: Option<(Program, Attached)>,
}

impl Listener {
    pub fn open(interface: &Interface, redirected: bool) -> io::Result<Self> {
        let tap = Tap::patient(interface.index, BLOCKS, RETIRE_MS)?;
        // where there is no XDP, nobody can send by it either, and another path is taken
        let woken = if redirected { wake(interface.index).ok() } else { None };
        Ok(Listener { tap, _woken: woken })
    }

    /// Listens until it is over and nothing comes any more.
    pub fn run(mut self, shared: &Shared, heard: &mut Heard) {
        let offset = realtime_offset();
        let mut quiet_since = now();
        let (mut all, mut noted) = (0, 0);
        let mut end = None;
        loop {
            let wish = Timespec { tv_sec: 0, tv_nsec: LOOK as _ };
            // a signal or an interface that went away: what is there is drained all the same
            let _ = poll(&mut [PollFd::new(&self.tap, PollFlags::IN)], Some(&wish));
            let seen = self.tap.drain(|arrival| keep(&arrival, offset, heard));
            let time = now();
            if seen > 0 {
                shared.heard.fetch_add(seen as u64, Ordering::Relaxed);
                quiet_since = time;
            }
            all += seen as u64;
            if heard.streams.is_some() && (all == 0 || seen > 0 && time - noted > EVERY) {
                noted = time;
                heard.counted(time, all);
            }
            if shared.over.load(Ordering::SeqCst) {
                let end = *end.get_or_insert(time + LINGER);
                let since = quiet_since.max(end - LINGER);
                if time > end || u128::from(time - since) > QUIET.as_nanos() {
                    break;
                }
            }
        }
        if heard.counts.last().is_some_and(|(_, packets)| *packets < all) {
            heard.counted(quiet_since, all);
        }
        heard.dropped = self.tap.dropped().unwrap_or(0);
        heard.clock_moved = realtime_offset() - offset;
    }
}

/// Puts a program at the driver that lets everything pass.
fn wake(index: u32) -> io::Result<(Program, Attached)> {
    let mut program = Assembly::default();
    program.answer(XDP_PASS);
    let program = Program::load("replay_pass", &program.finish())?;
    let attached = program.attach(index)?;
    Ok((program, attached))
}

fn keep(arrival: &Arrival<'_>, offset: i64, heard: &mut Heard) {
    let at = arrival.at.saturating_add_signed(-offset);
    if let Some(streams) = &mut heard.streams {
        streams.frame(arrival.bytes, at);
        return;
    }
    if heard.frames.len() >= KEPT {
        heard.unkept += 1;
        return;
    }
    heard.frames.push(Seen { at, key: key::of_arrival(arrival) });
}
