//! Looking ahead: what soon comes reads its places in large tables now, so that the waits for memory overlap. It changes
//! nothing but the time that a run takes.

use std::hint::black_box;

use rehearsal_core::parts::heap::Entry;

use super::World;
use super::class::{Class, LOCAL};

/// So many events ahead actors and exchanges are read, and what is found through them.
const FAR: usize = 10;
const NEAR: usize = 5;

impl World {
    /// Reads what two of the next events will need.
    #[inline]
    pub(super) fn look_ahead(&self) {
        if let Some(entry) = self.queue.ahead(FAR) {
            self.read_far(entry);
        }
        if let Some(entry) = self.queue.ahead(NEAR) {
            self.read_near(entry);
        }
    }

    #[inline]
    fn read_far(&self, entry: &Entry) {
        let (high, low) = ((entry.payload >> 32) as u32, entry.payload as u32);
        match Class::of(entry) {
            Class::Timer => {
                black_box(self.seats[entry.source() as usize].counter);
                black_box(self.timers.warm(low));
            }
            Class::Outcome => {
                black_box(self.seats[high as usize].counter);
                black_box(self.exchanges.generation(low & !LOCAL));
            }
            Class::Request => {
                black_box(self.exchanges.generation(low));
            }
            _ => {}
        }
    }

    #[inline]
    fn read_near(&self, entry: &Entry) {
        let actor = match Class::of(entry) {
            Class::Timer => entry.source(),
            Class::Outcome => (entry.payload >> 32) as u32,
            _ => return,
        };
        let (group, index) = self.place(actor);
        let group = &self.groups[group];
        if group.sends {
            black_box(group.gates.warm(group.gates.index(index, 0)));
            black_box(group.ledger.warm(group.first_member + index));
        }
    }
}
