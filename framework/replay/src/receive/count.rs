//! Counting in the driver: an XDP program adds up and drops, on each core for itself.

use std::io;
use std::sync::atomic::Ordering;

use super::{Heard, Shared};
use crate::sys::bpf::{Array, Attached, Program};
use crate::sys::interface::Interface;
use crate::timing::wait::{Stop, now, sleep_until};
use crate::xdp::{Assembly, When, XDP_DROP, call};

/// Cores that are told apart. Source: kernel, `NR_CPUS` of common builds is at most 8192; what is beyond is not counted, which
/// the interface's own counters would show.
const CORES: u32 = 1024;
/// Bytes of one core's counters: a cache line.
const LINE: u32 = 64;
/// How often the counters are read, nanoseconds.
const EVERY: u64 = 1_000_000;
/// How long nothing must come for the end, and how long is listened after it at most; nanoseconds.
const QUIET: u64 = 100_000_000;
const LINGER: u64 = 2_000_000_000;

/// A program on an interface, until this is dropped.
#[derive(Debug)]
pub struct Counter {
    counters: Array,
    _attached: Attached,
    _program: Program,
}

impl Counter {
    pub fn open(interface: &Interface) -> io::Result<Self> {
        let counters = Array::create(CORES, LINE)?;
        let mut a = Assembly::default();
        a.copy(6, 1);
        a.call(call::CORE);
        a.store_word(10, -4, 0);
        a.map(1, counters.number());
        a.copy(2, 10);
        a.add(2, -4);
        a.call(call::MAP_LOOKUP);
        a.jump(When::Equal, 0, 0, "end");
        a.count(0, 0, 1);
        // xdp_md: data, then data_end
        a.load_word(1, 6, 4);
        a.load_word(2, 6, 0);
        a.subtract(1, 2);
        a.load(2, 0, 8);
        a.add_register(2, 1);
        a.store(0, 8, 2);
        a.label("end");
        a.answer(XDP_DROP);
        let program = Program::load("replay_count", &a.finish())?;
        let attached = program.attach(interface.index)?;
        Ok(Counter { counters, _attached: attached, _program: program })
    }

    fn sum(&self, at: usize) -> u64 {
        let cores = 0..CORES as usize;
        cores.map(|core| self.counters.values.long(core * LINE as usize + at).load(Ordering::Relaxed)).sum()
    }

    /// Reads the counters until it is over and they stand still.
    pub fn run(self, shared: &Shared, heard: &mut Heard) {
        let forever = Stop::new();
        let mut due = now();
        let (mut last, mut moved, mut end) = (0, due, None);
        loop {
            let (time, packets) = (now(), self.sum(0));
            if packets != last {
                shared.heard.store(packets, Ordering::Relaxed);
                (last, moved) = (packets, time);
                heard.counted(time, packets);
            } else if packets == 0 {
                heard.counted(time, 0);
            }
            if shared.over.load(Ordering::SeqCst) {
                let end = *end.get_or_insert(time + LINGER);
                if time > end || time - moved.max(end - LINGER) > QUIET {
                    break;
                }
            }
            due = (due + EVERY).max(time);
            sleep_until(due, &forever);
        }
        heard.bytes = self.sum(8);
    }
}
