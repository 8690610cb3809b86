//! The packets of one flow, in order: ticks of an interval or drawn gaps, talk spurts, frames that are cut into packets.

use rand_distr::StandardNormal;
use rehearsal_core::{RngStream, Span, Time};

use super::after;
use super::chain::{Works, bytes};
use super::module::{Emission, Jitter, Kind};

/// Ticks that one call walks over in silence, at most; then it says so by an empty packet.
const TICKS_MAX: u32 = 100_000;
/// Draws of one jitter by rejection; then it is held at its bound.
const TRIES_MAX: u32 = 1_000;

/// Where a flow of packets stands.
#[derive(Clone, Debug)]
pub struct Emitter {
    /// The first tick, and how many there were.
    base: Time,
    tick: u64,
    /// The next departure of drawn gaps.
    gap: Time,
    /// No packet leaves at or after this time.
    end: Time,
    /// Packets or frames that are left.
    left: u64,
    /// Place in a cycle, a group of pictures or a trace.
    place: u32,
    /// Size of the next frame of `gbar`, bytes.
    level: f64,
    /// Whether it is a talk spurt, and when that changes.
    talks: bool,
    turn: Time,
    frame: Frame,
    last: Time,
}

/// A frame that is being sent in packets.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    at: Time,
    /// Bytes that are left, packets that are sent, and the gap between them.
    left: u32,
    sent: u32,
    gap_ns: u64,
}

impl Emitter {
    /// A flow that begins now.
    pub fn new(works: &Works, now: Time, rng: &mut RngStream) -> Self {
        let every = interval(works);
        let base = match &works.gaps {
            None => now.saturating_add(Span::from_nanos(rng.below(every.as_nanos()))),
            Some(_) => now,
        };
        let end = works.lasts.as_ref().map_or(Time::MAX, |lasts| after(now, lasts.whole(rng)));
        let places =
            works.module.cycle.len().max(works.module.bits.len()).max(works.module.gop.as_deref().map_or(0, str::len));
        let place = if places > 0 { rng.below(places as u64) as u32 } else { 0 };
        let mut emitter = Emitter {
            base,
            tick: 0,
            gap: works.gaps.as_ref().map_or(base, |gaps| after(now, gaps.whole(rng))),
            end,
            left: works.module.count.unwrap_or(u64::MAX),
            place,
            level: 0.0,
            talks: true,
            turn: Time::MAX,
            frame: Frame::default(),
            last: now,
        };
        if let (Some(talk), Some(silence)) = (&works.talk, &works.silence) {
            let (on, off) = (talk.law.moments().mean, silence.law.moments().mean);
            emitter.talks = rng.unit() * (on + off) < on;
            let stay = if emitter.talks { talk } else { silence };
            emitter.turn = after(now, stay.whole(rng));
        }
        if works.gbar.is_some() {
            emitter.level = works.sizes.as_ref().map_or(0.0, |sizes| sizes.sampler.draw(rng));
        }
        emitter
    }

    /// When the flow has ended: at its time, or with its last packet.
    pub fn end(&self) -> Time {
        if self.end < Time::MAX { self.end } else { self.last }
    }

    /// The next packet: when it leaves, and its payload in bytes; none when the flow has ended. A payload of 0 is no packet:
    /// only a time to ask again.
    pub fn next(&mut self, works: &Works, rng: &mut RngStream) -> Option<(Time, u32)> {
        if self.frame.left > 0 {
            return Some(self.piece(works));
        }
        let every = interval(works);
        for _ in 0..TICKS_MAX {
            let due = match &works.gaps {
                Some(_) => self.gap,
                None => self.base.saturating_add(every.saturating_mul(self.tick)),
            };
            if due >= self.end || due >= Time::MAX || self.left == 0 {
                return None;
            }
            let tick = self.tick;
            self.tick += 1;
            if let Some(gaps) = &works.gaps {
                self.gap = after(due, gaps.whole(rng));
            }
            let speaks = self.speaks(works, due, rng);
            if !speaks && !self.keeps_alive(works, tick) {
                self.skip_silence(works, every);
                continue;
            }
            let size = if speaks { self.size(works, rng) } else { silent_bytes(works) };
            self.left -= 1;
            self.last = due;
            if size == 0 {
                continue;
            }
            let at = works.module.jitter.map_or(due, |jitter| jittered(due, jitter, rng));
            let packets = size.div_ceil(works.cut);
            let spread = works.module.emission == Some(Emission::Spread);
            let gap_ns = if spread { every.as_nanos() / u64::from(packets) } else { 0 };
            self.frame = Frame { at, left: size, sent: 0, gap_ns };
            return Some(self.piece(works));
        }
        let at = self.base.saturating_add(every.saturating_mul(self.tick));
        Some((if works.gaps.is_some() { self.gap } else { at }.min(self.end), 0))
    }

    fn piece(&mut self, works: &Works) -> (Time, u32) {
        let size = self.frame.left.min(works.cut);
        let at = self.frame.at.saturating_add(Span::from_nanos(self.frame.gap_ns * u64::from(self.frame.sent)));
        self.frame.left -= size;
        self.frame.sent += 1;
        self.last = at;
        (at, size)
    }

    /// Whether it is a talk spurt at `due`; walks along spurts and silences.
    fn speaks(&mut self, works: &Works, due: Time, rng: &mut RngStream) -> bool {
        if let (Some(talk), Some(silence)) = (&works.talk, &works.silence) {
            let mut turns = 0;
            while self.turn <= due && turns < TICKS_MAX {
                self.talks = !self.talks;
                let stay = if self.talks { talk } else { silence };
                self.turn = after(self.turn, stay.whole(rng));
                turns += 1;
            }
        }
        self.talks
    }

    /// Whether a codec sends something in silence at this tick.
    fn keeps_alive(&self, works: &Works, tick: u64) -> bool {
        let framing = works.module.codec.map(super::module::Codec::framing);
        framing.and_then(|f| Some(f.silence?.1.as_nanos() / f.every.as_nanos())).is_some_and(|n| tick.is_multiple_of(n))
    }

    /// Goes on with the last tick before the silence ends, if nothing is sent in it.
    fn skip_silence(&mut self, works: &Works, every: Span) {
        let silent = works.module.codec.is_none_or(|codec| codec.framing().silence.is_none());
        if silent && works.gaps.is_none() && self.turn < Time::MAX {
            let ticks = self.turn.since(self.base).as_nanos() / every.as_nanos();
            self.tick = self.tick.max(ticks);
        }
    }

    /// Payload of the next packet or frame, bytes.
    fn size(&mut self, works: &Works, rng: &mut RngStream) -> u32 {
        let module = &works.module;
        if let Some(codec) = module.codec {
            return codec.framing().bytes;
        }
        if let Some(gbar) = &works.gbar {
            let size = gbar.bytes(self.level);
            self.level = gbar.next(self.level, rng);
            return size;
        }
        let at = self.place as usize;
        self.place = self.place.wrapping_add(1);
        if let Some(gop) = &module.gop {
            let letter = gop.as_bytes().get(at % gop.len()).copied().unwrap_or(b'I');
            let row = match letter {
                b'P' => 1,
                b'B' => 2,
                _ => 0,
            };
            return bytes(works.frames[row].as_ref(), None, rng);
        }
        match module.kind {
            Kind::Trace if !module.bits.is_empty() => {
                let bits = module.bits[at % module.bits.len()];
                u32::try_from(bits.div_ceil(8)).unwrap_or(u32::MAX)
            }
            Kind::Cbr if !module.cycle.is_empty() => module.cycle[at % module.cycle.len()].0 as u32,
            _ => bytes(works.sizes.as_ref(), module.bytes.map(|size| size.0), rng),
        }
    }
}

fn interval(works: &Works) -> Span {
    let codec = works.module.codec.map(|codec| codec.framing().every);
    codec.or(works.module.every).unwrap_or(Span::from_secs(1))
}

fn silent_bytes(works: &Works) -> u32 {
    works.module.codec.and_then(|codec| codec.framing().silence).map_or(0, |(bytes, _)| bytes)
}

/// A time as early or late as jitter has it.
fn jittered(due: Time, jitter: Jitter, rng: &mut RngStream) -> Time {
    let (sd, max) = (jitter.sd.as_nanos() as f64, jitter.max.as_nanos() as f64);
    let mut off = f64::INFINITY;
    for _ in 0..TRIES_MAX {
        off = rng.sample::<f64, _>(&StandardNormal) * sd;
        if off.abs() <= max {
            break;
        }
    }
    // shifted by its bound, so that nothing leaves before its flow began
    due.saturating_add(Span::from_nanos((off.clamp(-max, max) + max).round() as u64))
}
