//! Looking ahead: what soon comes has its places in large tables brought near now, so that the waits for memory overlap. It
//! changes nothing but the time that a run takes.

use rehearsal_core::parts::heap::Entry;
use rehearsal_core::parts::near::fetch;

use super::class::{Class, LOCAL};
use super::{Place, World};

/// With more actors than this, what is kept of them does not fit into a core's caches. Assumed: 200 B each, and 1 MB.
const WIDE: usize = 5_000;
/// So many events ahead seats and exchanges are fetched, and the actor that is found through its seat.
const FAR: usize = 4;
const NEAR: usize = 2;

impl World {
    /// Brings near what one of the next events will need, and says whose actor is needed even sooner.
    #[inline]
    pub(crate) fn look_ahead(&self) -> Option<Place> {
        if self.seats.len() <= WIDE {
            return None;
        }
        if let Some(entry) = self.queue.ahead(FAR) {
            self.fetch_far(entry);
        }
        let entry = self.queue.ahead(NEAR)?;
        let actor = match Class::of(entry) {
            Class::Timer => entry.source(),
            Class::Outcome => (entry.payload >> 32) as u32,
            _ => return None,
        };
        let (group, index) = self.place(actor);
        Some(Place { actor, group, index })
    }

    #[inline]
    fn fetch_far(&self, entry: &Entry) {
        let (high, low) = ((entry.payload >> 32) as u32, entry.payload as u32);
        match Class::of(entry) {
            Class::Timer => fetch(&self.seats, entry.source() as usize),
            Class::Outcome => {
                fetch(&self.seats, high as usize);
                self.exchanges.expect(low & !LOCAL);
            }
            Class::Request => self.exchanges.expect(low),
            _ => {}
        }
    }
}
