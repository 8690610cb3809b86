//! The path through live frames: the kernel runs an XDP program over recycled frames and sends what it redirects. There is no
//! socket and no copy of a socket's; a frame is copied once, from a ring of slots in memory that program and feeder share.
//!
//! What one loop sends is kept in the slots as a whole when it fits; then there is nothing to feed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep, yield_now};
use std::time::Duration;

use super::Path;
use crate::sys::bpf::{Array, Program};
use crate::timing::wait::{Ended, Stop, now, sleep_until};
use crate::worker::{Share, Tally};
use program::{CONTROL, Control, FRAME_AT};

mod program;

/// Bytes of slots for each worker at most.
const SLOTS_BYTES: usize = 64 << 20;
/// Runs of the program in one call of the kernel: a call costs some 25 ms to set up.
const CALL: u64 = 16 << 20;
/// The same while slots are fed: what is left of them at the end runs over nothing.
const CALL_FED: u64 = 2 << 20;
/// Slots that are shown to the program at once.
const SHOWN: u64 = 64;
/// How often is looked for the end.
const LOOK: Duration = Duration::from_millis(1);
/// How long nothing may leave before it is given up, nanoseconds.
const STALL: u64 = 2_000_000_000;

/// Frames through a program of our own.
#[derive(Debug)]
pub struct Live {
    control: Array,
    slots: Slots,
    program: Program,
    /// What the kernel's frames begin as.
    blank: Vec<u8>,
}

/// A ring of frames.
#[derive(Debug)]
struct Slots {
    array: Array,
    count: u64,
}

impl Live {
    /// The longest frame. Source: kernel, a page without headroom, `skb_shared_info` and what the test run keeps in it.
    pub const LONGEST: usize = 3072;

    /// For `packets` packets of a loop, none longer than `longest` bytes, out of an interface.
    ///
    /// # Errors
    /// What the system says: it needs CAP_BPF and CAP_NET_ADMIN, and Linux 5.18.
    pub fn open(index: u32, longest: usize, packets: u64) -> io::Result<Self> {
        let longest = longest.max(60);
        let slot = (FRAME_AT + longest).next_multiple_of(8);
        let count = packets.clamp(1, (SLOTS_BYTES / slot) as u64);
        let control = Array::create(1, CONTROL)?;
        let array = Array::create(count as u32, slot as u32)?;
        let code = program::program(&control, &array, count as u32, index, longest);
        let program = Program::load("replay_send", &code)?;
        let live = Live { control, slots: Slots { array, count }, program, blank: vec![0; longest] };
        // nothing is ready, so this sends nothing: it tells whether the kernel can
        live.program.run_live(&live.blank, 1)?;
        Ok(live)
    }
}

impl Slots {
    fn fill(&mut self, number: u64, bytes: &[u8]) {
        let at = (number % self.count) as usize * self.array.stride;
        self.array.values.write(at, &(bytes.len() as u32).to_ne_bytes());
        self.array.values.write(at + FRAME_AT, bytes);
    }

    /// Fills every slot once; tells whether that is the whole loop, from the first packet to the last.
    fn hold(&mut self, share: &Share<'_>, tally: &mut Tally) -> bool {
        if share.material.varies() {
            return false;
        }
        let mut packets = share.one_loop();
        for number in 0..self.count {
            let Some(packet) = packets.next(tally) else { return false };
            self.fill(number, packet.bytes());
            packets.recycle(packet);
        }
        packets.next(tally).is_none()
    }

    /// Fills slots as they become free; returns how many it filled.
    fn feed(&mut self, control: Control<'_>, share: &Share<'_>, tally: &mut Tally, over: &AtomicBool) -> u64 {
        let (mut fed, mut room) = (0, self.count);
        let mut packets = share.packets();
        while let Some(packet) = packets.next(tally) {
            while room == 0 {
                control.ready(fed);
                room = self.count - (fed - control.taken());
                if share.stop.why().is_some() || over.load(Ordering::Relaxed) {
                    return fed;
                }
                if room == 0 {
                    yield_now();
                }
            }
            self.fill(fed, packet.bytes());
            packets.recycle(packet);
            fed += 1;
            room -= 1;
            if fed.is_multiple_of(SHOWN) {
                control.ready(fed);
            }
        }
        control.ready(fed);
        fed
    }
}

/// Keeps the kernel running the program until all are taken, or it is over.
fn run(live: (&Program, &[u8]), control: Control<'_>, all: Option<u64>, over: &AtomicBool) -> io::Result<()> {
    let call = if all.is_some() { CALL } else { CALL_FED };
    while !over.load(Ordering::Relaxed) {
        let left = all.map_or(call, |all| all.saturating_sub(control.taken()).min(call));
        if left == 0 {
            return Ok(());
        }
        live.0.run_live(live.1, u32::try_from(left).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

/// Waits until the program has taken all; returns when that was.
fn drain(control: Control<'_>, all: u64, stop: &Stop, over: &AtomicBool) -> u64 {
    let (mut seen, mut since) = (control.taken(), now());
    loop {
        let (taken, time) = (control.taken(), now());
        if taken != seen {
            (seen, since) = (taken, time);
        }
        if taken < all && time - since > STALL {
            stop.set(Ended::Stalled);
        }
        if taken >= all || stop.why().is_some() || over.load(Ordering::Relaxed) {
            // the kernel's call goes on over nothing until it has run as often as it was told
            control.ready(0);
            return time;
        }
        sleep(LOOK);
    }
}

impl Path for Live {
    fn drive(&mut self, share: &Share<'_>) -> Tally {
        let Live { control, slots, program, blank } = self;
        let control = Control(control);
        let mut tally = Tally::default();
        let whole = slots.hold(share, &mut tally);
        let loops = share.schedule.rules.loops;
        let all = whole.then(|| loops.map_or(u64::MAX, |loops| slots.count.saturating_mul(loops)));
        tally.times(if whole { loops.unwrap_or(1) } else { 0 });
        let over = AtomicBool::new(false);
        share.begin();
        sleep_until(share.start, share.stop);
        tally.first_at = Some(now());
        let (mut submitted, mut failure, mut pinned) = (0, None, Ok(()));
        scope(|scope| {
            let kernel = scope.spawn(|| {
                pinned = share.pin();
                failure = run((program, blank), control, all, &over).err();
                over.store(true, Ordering::Relaxed);
            });
            match all {
                Some(all) => {
                    control.ready(all);
                    submitted = all;
                }
                None => submitted = slots.feed(control, share, &mut tally, &over),
            }
            tally.last_at = Some(drain(control, submitted, share.stop, &over));
            over.store(true, Ordering::Relaxed);
            // a thread that panicked has said so
            let _ = kernel.join();
        });
        tally.pinned = pinned.is_ok();
        (tally.submitted, tally.bytes, tally.refused) = (control.sent(), control.bytes(), control.failed());
        if let Some(why) = failure {
            tally.fail(&why);
            share.stop.set(Ended::Failed);
        }
        if submitted > control.taken() {
            // which packets of the share these were: the first ones, loop by loop
            tally.complete = false;
        }
        tally
    }
}
