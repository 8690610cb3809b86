//! The loop that keeps times: waits until a packet is due, gives it and all that are due with it to the path, and notes how
//! late that was. Packets are edited before they are waited for.

use super::{Outgoing, STALL, Share, Stall, Tally};
use crate::send::{Frame, Push, SendError};
use crate::timing::precedence::Precedence;
use crate::timing::wait::{Ended, now, sleep_until, until};
use crate::timing::{Due, Pacing};

/// Frames that are given at once at most, whatever a path would take.
const BATCH: usize = 64;
/// How long a path may be full before it is given up, nanoseconds.
const FULL_MAX: u64 = 1_000_000_000;
/// How long what was taken may need to leave at the end, nanoseconds.
const SETTLE_MAX: u64 = 1_000_000_000;

/// Sends a share through a path.
pub fn push<P: Push + ?Sized>(path: &mut P, share: &Share<'_>) -> Tally {
    let (mut tally, mut precedence) = (Tally::default(), None);
    if path.is_live() {
        precedence = share.settle_in(&mut tally);
        share.begin();
    }
    let most = path.batch().min(BATCH);
    let mut pusher = Pusher { path, share, tally, precedence, stall: None, base: None };
    let (mut packets, mut next) = (share.packets(), None);
    let mut batch: Vec<Outgoing<'_>> = Vec::with_capacity(most);
    let end = loop {
        let Some(first) = next.take().or_else(|| packets.next(&mut pusher.tally)) else { break Ok(()) };
        let Some(time) = pusher.wait(&first.due) else { break Err(first.due.number) };
        batch.push(first);
        // what is due by now goes with it
        while batch.len() < most && share.schedule.rules.pacing == Pacing::Absolute {
            next = packets.next(&mut pusher.tally);
            match next.take_if(|packet| share.start + packet.due.at <= time) {
                Some(packet) => batch.push(packet),
                None => break,
            }
        }
        let given = pusher.give(&batch, time);
        batch.drain(..).for_each(|packet| packets.recycle(packet));
        if let Err(number) = given {
            break Err(number);
        }
    };
    if let Err(number) = end {
        pusher.tally.complete = false;
        pusher.tally.ended_before = Some(number);
    }
    pusher.finish()
}

struct Pusher<'a, 't, P: ?Sized> {
    path: &'a mut P,
    share: &'a Share<'t>,
    tally: Tally,
    /// Its place before ordinary threads.
    precedence: Option<Precedence>,
    /// The stall that goes on.
    stall: Option<Stall>,
    /// When the packet before was due, and when it was sent.
    base: Option<(u64, u64)>,
}

impl<P: Push + ?Sized> Pusher<'_, '_, P> {
    /// Waits until a packet is due; returns the time, or `None` when it is to end.
    fn wait(&mut self, due: &Due<'_>) -> Option<u64> {
        let Share { schedule, start, stop, duration, .. } = self.share;
        if !self.path.is_live() {
            // nobody waits; times decide all the same what is left out
            let last = duration
                .filter(|_| schedule.is_timed())
                .map_or(u64::MAX, |duration| (start + duration).saturating_sub(1));
            if start + due.at > last {
                stop.set(Ended::Duration);
            }
            return stop.why().is_none().then_some(last);
        }
        if let (Some(precedence), Some((_, last_sent))) = (&mut self.precedence, self.base) {
            precedence.keep(last_sent);
        }
        let time = match (schedule.rules.pacing, self.base) {
            (Pacing::Dtrf, Some((last_at, last_sent))) if schedule.is_timed() => {
                // Algorithm 1: what is left of the gap since the packet before was sent
                let (gap, gone) = (due.at - last_at, now() - last_sent);
                if gap > gone {
                    sleep_until(now() + (gap - gone), stop);
                }
                stop.why().is_none().then(now)?
            }
            _ => until(start + due.at, stop)?,
        };
        self.base = Some((due.at, time));
        if schedule.is_timed() {
            self.note(due, time.saturating_sub(start + due.at));
        }
        Some(time)
    }

    fn note(&mut self, due: &Due<'_>, late: u64) {
        self.tally.lateness.saturating_record(late);
        if late < STALL {
            if let Some(stall) = self.stall.take() {
                self.tally.stall(stall);
            }
            return;
        }
        let stall = self.stall.get_or_insert(Stall { at_ns: due.at, late_ns: 0, packets: 0 });
        stall.late_ns = stall.late_ns.max(late);
        stall.packets += 1;
    }

    /// Gives a batch to the path, all of it unless it is to end.
    fn give(&mut self, batch: &[Outgoing<'_>], time: u64) -> Result<(), u64> {
        if self.path.is_live() {
            self.tally.first_at.get_or_insert(time);
            self.tally.last_at = Some(time);
            for packet in batch.iter().skip(1).filter(|_| self.share.schedule.is_timed()) {
                self.note(&packet.due, time.saturating_sub(self.share.start + packet.due.at));
            }
        }
        let mut frames = [Frame { bytes: &[], due: 0 }; BATCH];
        for (frame, packet) in frames.iter_mut().zip(batch) {
            *frame = Frame { bytes: packet.bytes(), due: packet.due.at };
        }
        let frames = &frames[..batch.len()];
        let (mut given, mut full_since) = (0, None);
        while given < frames.len() {
            match self.path.submit(&frames[given..]) {
                Ok(taken) => {
                    self.tally.submitted += taken as u64;
                    let taken = given..given + taken;
                    given = taken.end;
                    self.tally.bytes += frames[taken].iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
                    full_since = None;
                }
                Err(SendError::Refused(why)) => {
                    self.tally.refuse(batch[given].due.number, &why);
                    given += 1;
                }
                Err(SendError::Full) => {
                    self.tally.full += 1;
                    let since = *full_since.get_or_insert_with(now);
                    self.press(since);
                    if self.share.stop.why().is_some() {
                        return Err(batch[given].due.number);
                    }
                }
                Err(why) => {
                    self.failed(&why);
                    return Err(batch[given].due.number);
                }
            }
        }
        Ok(())
    }

    /// Makes a full path move, or gives it up.
    fn press(&mut self, since: u64) {
        match self.path.settle() {
            Err(why) => self.failed(&why),
            Ok(_) if now() - since > FULL_MAX => self.share.stop.set(Ended::Stalled),
            Ok(_) => std::hint::spin_loop(),
        }
    }

    fn failed(&mut self, why: &SendError) {
        let source = std::error::Error::source(why).map_or_else(|| why.to_string(), ToString::to_string);
        self.tally.fail(&source);
        self.share.stop.set(Ended::Failed);
    }

    fn finish(mut self) -> Tally {
        if let Some(stall) = self.stall.take() {
            self.tally.stall(stall);
        }
        let end = now() + SETTLE_MAX;
        loop {
            match self.path.settle() {
                Ok(0) => break,
                Ok(left) if now() > end => {
                    self.tally.outstanding = left as u64;
                    break;
                }
                Ok(_) => std::thread::yield_now(),
                Err(why) => {
                    self.failed(&why);
                    break;
                }
            }
        }
        self.tally
    }
}
