//! The encoder of one stream: one payload is made at a time, and the others wait in their order.

use std::collections::VecDeque;

use super::stream::Slot;

/// Eight bytes, until a payload has to be made.
#[derive(Debug, Default)]
pub(super) struct Encoder(Option<Box<Line>>);

#[derive(Debug, Default)]
struct Line {
    current: Option<Slot>,
    waiting: VecDeque<Slot>,
}

impl Encoder {
    /// Whether a payload is being made.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.0.as_ref().is_some_and(|line| line.current.is_some())
    }

    /// Requests whose payload is being made, or waits to be.
    #[inline]
    pub(super) fn pending(&self) -> u64 {
        self.0.as_ref().map_or(0, |line| u64::from(line.current.is_some()) + line.waiting.len() as u64)
    }

    /// `slot`'s payload is being made from now on.
    pub(super) fn begin(&mut self, slot: Slot) {
        self.0.get_or_insert_default().current = Some(slot);
    }

    /// `slot` waits its turn.
    pub(super) fn wait(&mut self, slot: Slot) {
        self.0.get_or_insert_default().waiting.push_back(slot);
    }

    /// What was being made is made.
    pub(super) fn end(&mut self) -> Option<Slot> {
        self.0.as_mut()?.current.take()
    }

    /// Whose turn it is, if nothing is being made.
    pub(super) fn next(&mut self) -> Option<Slot> {
        let line = self.0.as_mut()?;
        if line.current.is_some() { None } else { line.waiting.pop_front() }
    }

    /// Gives up all that wait; their number.
    pub(super) fn clear(&mut self) -> u64 {
        self.0.as_mut().map_or(0, |line| line.waiting.drain(..).len() as u64)
    }
}
