//! Whole frames: one that leaves, and one that comes in.

use bytes::BytesMut;
use rehearsal_core::{Event, Head, Payload, Time, Times};
use rehearsal_models::seen::Place;

use super::rides::Parcel;
use super::{Shard, State};
use crate::frames::{ADDRESSES, address, ends};

impl State {
    /// Sends a frame to an actor. What finds no room is lost, as on any other hop.
    pub(super) fn post_frame(&mut self, parcel: &Parcel, to: u32) {
        let Some(from) = parcel.head.from else { return };
        let mut frame = self.udp.buffer();
        self.render_into(parcel.payload, parcel.member, &mut frame);
        self.put_frame(&mut frame, (from.0, to));
        self.udp.give_back(frame);
    }

    fn put_frame(&mut self, frame: &mut BytesMut, (from, to): (u32, u32)) {
        let Some(addresses) = frame.get_mut(..ADDRESSES) else { return };
        addresses[..6].copy_from_slice(&address(to));
        addresses[6..].copy_from_slice(&address(from));
        let sent = self.mouth.as_ref().is_some_and(|mouth| mouth.send(frame).is_ok());
        self.udp.refused += u64::from(!sent);
    }

    /// Books a frame that came in: who sent which packet of its template to whom.
    fn take_frame(&mut self, frame: &[u8], tag: Option<u16>, now: Time) -> Option<(u32, Head)> {
        let (from, to) = ends(frame)?;
        if !self.world.knows(from) || !self.world.knows(rehearsal_core::ActorId(to)) {
            return None;
        }
        let row = self.row_of[self.world.group_of(to)]?;
        let group = self.world.group_of(from.0);
        let recipe = self.world.recipes.get(usize::from(self.world.groups[group].frames?.0))?;
        let next = self.next_frames.entry((to, from.0)).or_default();
        let place = recipe.frame_place(frame, tag, *next)?;
        *next = place.number + 1;
        let ledger = &mut self.books[row].ledger;
        ledger.tally.datagrams_received += 1;
        ledger.tally.bytes_received += u64::from(place.bytes);
        // how long it was on the way nobody knows, nor how that varies; the order of what is repeated its receiver judges
        let stream = (to, from.0, place.stream);
        let told = (!place.repeats).then(|| self.arrived.arrive(stream, place.seq, now.as_nanos().cast_signed()).0);
        match told {
            None | Some(Place::InOrder) => {}
            Some(Place::Reordered) => ledger.tally.datagrams_reordered += 1,
            Some(Place::Duplicate) => {
                ledger.tally.datagrams_duplicate += 1;
                return None;
            }
        }
        self.settle_arrived(Some((group, 1)));
        Some((to, Head { from: Some(from), stream: place.stream, seq: place.seq, ..Head::default() }))
    }
}

impl Shard {
    /// A frame came in at the node's interface; it need not be one of ours.
    pub(crate) fn frame_in(&mut self, frame: &[u8], tag: Option<u16>) {
        let now = self.state.now();
        if self.state.closed {
            return;
        }
        let Some((to, head)) = self.state.take_frame(frame, tag, now) else { return };
        let payload = Payload::new(frame.len() as u32, Payload::RECEIVED, head.seq);
        let times = Times { intended: now, ready: now, sent: now, done: now };
        self.handle(to, Event::Datagram { head: &head, times: &times, payload: &payload });
    }

    /// The kernel had no room for so many frames.
    pub(crate) fn frames_dropped(&mut self, frames: u64) {
        if frames > 0 {
            self.state.notes.note("frames came in faster than they were taken: some are counted as lost".to_owned());
        }
    }
}
