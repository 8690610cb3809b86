//! A table with stable slots and generations: a stale id is recognised, never mistaken.

use super::near::fetch;

/// Slots of `T`, reused; each reuse raises the slot's generation.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts `value` into a free slot.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize].1 = Some(value);
            slot
        } else {
            self.slots.push((0, Some(value)));
            self.slots.len() as u32 - 1
        }
    }

    /// The generation of `slot`.
    #[inline]
    pub fn generation(&self, slot: u32) -> u32 {
        self.slots[slot as usize].0
    }

    /// The value in `slot`, if the slot is in use in this generation.
    #[inline]
    pub fn get(&self, slot: u32, generation: u32) -> Option<&T> {
        self.slots.get(slot as usize).filter(|s| s.0 == generation)?.1.as_ref()
    }

    /// The value in `slot`, if the slot is in use in this generation.
    #[inline]
    pub fn get_mut(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize).filter(|s| s.0 == generation)?.1.as_mut()
    }

    /// Whether `slot` is in use in this generation.
    #[inline]
    pub fn live(&self, slot: u32, generation: u32) -> bool {
        self.get(slot, generation).is_some()
    }

    /// The value in a slot that must be in use.
    ///
    /// # Panics
    /// If it is not: only a bug can do that.
    #[inline]
    pub fn at(&self, slot: u32) -> &T {
        self.slots[slot as usize].1.as_ref().expect("a live slot")
    }

    /// The value in a slot that must be in use.
    ///
    /// # Panics
    /// If it is not: only a bug can do that.
    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].1.as_mut().expect("a live slot")
    }

    /// Empties a slot that must be in use.
    ///
    /// # Panics
    /// If it is not: only a bug can do that.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> T {
        let entry = &mut self.slots[slot as usize];
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(slot);
        entry.1.take().expect("a live slot")
    }

    /// Brings near what is in `slot`, which is wanted soon.
    #[inline]
    pub fn expect(&self, slot: u32) {
        fetch(&self.slots, slot as usize);
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slots in use, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| s.1.as_ref().map(|value| (i as u32, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        let g = slab.generation(a);
        assert!(slab.live(a, g));
        assert_eq!(slab.remove(a), "a");
        let b = slab.insert("b");
        assert_eq!(a, b, "slots are reused");
        assert!(slab.get(a, g).is_none());
        assert_eq!(slab.get(b, slab.generation(b)), Some(&"b"));
        assert_eq!(slab.len(), 1);
    }
}
