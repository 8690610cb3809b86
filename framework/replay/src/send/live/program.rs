//! The XDP program that sends: it takes the next slot of a ring, becomes the frame in it, and goes out of an interface.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::bpf::{Array, Instruction};
use crate::xdp::{Assembly, When, XDP_DROP, call};

/// Where a slot's frame begins; its length stands before.
pub const FRAME_AT: usize = 8;
/// Bytes of the control value; what the feeder writes has a cache line of its own.
pub const CONTROL: u32 = 192;
/// Offsets in it.
const TAKEN: i16 = 0;
const SENT: i16 = 8;
const FAILED: i16 = 16;
const SLOT: i16 = 24;
const BYTES: i16 = 32;
const READY: i16 = 128;

/// What program and feeder tell each other.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a>(pub &'a Array);

impl Control<'_> {
    fn at(&self, offset: i16) -> &AtomicU64 {
        self.0.values.long(offset.unsigned_abs().into())
    }

    /// Slots that the program has done with.
    pub fn taken(&self) -> u64 {
        self.at(TAKEN).load(Ordering::Acquire)
    }

    /// Frames that it redirected.
    pub fn sent(&self) -> u64 {
        self.at(SENT).load(Ordering::Acquire)
    }

    /// Bytes of those.
    pub fn bytes(&self) -> u64 {
        self.at(BYTES).load(Ordering::Acquire)
    }

    /// Slots that could not become a frame.
    pub fn failed(&self) -> u64 {
        self.at(FAILED).load(Ordering::Acquire)
    }

    /// Lets the program take slots up to this one; 0 stops it.
    pub fn ready(&self, slots: u64) {
        self.at(READY).store(slots, Ordering::Release);
    }
}

/// The program for one interface. `longest` is the length of the frames that the kernel runs it on: making them shorter is
/// cheap, longer ones would be cleared first.
pub fn program(control: &Array, slots: &Array, count: u32, index: u32, longest: usize) -> Vec<Instruction> {
    let [count, index, longest] = [count, index, longest as u32].map(u32::cast_signed);
    let mut a = Assembly::default();
    // R6 the frame, R7 the control value, R8 the slot, R9 its length
    a.copy(6, 1);
    a.map_value(7, control.number());
    if cfg!(target_arch = "x86_64") {
        a.load(3, 7, READY);
    } else {
        // machines that reorder loads must not see a slot before they see that it is ready
        a.set(3, 0);
        a.fetch_add(7, READY, 3);
    }
    a.load(2, 7, TAKEN);
    a.jump_register(When::AtLeast, 2, 3, "idle");
    a.load(2, 7, SLOT);
    a.store_word(10, -4, 2);
    a.map(1, slots.number());
    a.copy(2, 10);
    a.add(2, -4);
    a.call(call::MAP_LOOKUP);
    a.jump(When::Equal, 0, 0, "failed");
    a.copy(8, 0);
    a.load_word(9, 8, 0);
    a.jump(When::Below, 9, 14, "failed");
    a.jump(When::Above, 9, longest, "failed");
    a.copy(1, 6);
    a.copy(2, 9);
    a.add(2, -longest);
    a.call(call::ADJUST_TAIL);
    a.jump(When::Different, 0, 0, "failed");
    a.copy(1, 6);
    a.set(2, 0);
    a.copy(3, 8);
    a.add(3, FRAME_AT as i32);
    a.copy(4, 9);
    a.call(call::STORE_BYTES);
    a.jump(When::Different, 0, 0, "failed");
    a.count(7, SENT, 1);
    a.load(1, 7, BYTES);
    a.add_register(1, 9);
    a.store(7, BYTES, 1);
    next(&mut a, count, "first");
    a.set(1, index);
    a.set(2, 0);
    a.call(call::REDIRECT);
    a.exit();
    a.label("failed");
    a.count(7, FAILED, 1);
    next(&mut a, count, "first after a failure");
    a.label("idle");
    a.answer(XDP_DROP);
    a.finish()
}

/// Goes to the next slot, and from the last to the first.
fn next(a: &mut Assembly, count: i32, first: &'static str) {
    a.load(1, 7, SLOT);
    a.add(1, 1);
    a.jump(When::Below, 1, count, first);
    a.set(1, 0);
    a.label(first);
    a.store(7, SLOT, 1);
    a.count(7, TAKEN, 2);
}
