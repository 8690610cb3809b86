//! What a node keeps in memory: `base + connections × each + bytes under way`, held against its limit.

/// The memory of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    base: u64,
    connection: u64,
    limit: Option<u64>,
    connections: u64,
    bytes: u64,
    highest: u64,
}

impl Memory {
    /// Of a node that needs `base` bytes when nothing happens, `connection` for each open connection, and may have
    /// `limit`.
    pub fn new(base: u64, connection: u64, limit: Option<u64>) -> Self {
        Memory { base, connection, limit, connections: 0, bytes: 0, highest: base }
    }

    /// Bytes in use.
    #[inline]
    pub fn used(&self) -> u64 {
        self.base.saturating_add(self.connections.saturating_mul(self.connection)).saturating_add(self.bytes)
    }

    /// Most bytes in use since this was asked last.
    pub fn highest(&mut self) -> u64 {
        let used = self.used();
        std::mem::replace(&mut self.highest, used).max(used)
    }

    /// Whether `bytes` more would fit.
    #[inline]
    pub fn fits(&self, bytes: u64) -> bool {
        self.limit.is_none_or(|limit| self.used().saturating_add(bytes) <= limit)
    }

    /// Takes `bytes`, whether they fit or not.
    #[inline]
    pub fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.highest = self.highest.max(self.used());
    }

    /// Gives `bytes` back.
    #[inline]
    pub fn give(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// So many connections are open.
    #[inline]
    pub fn connected(&mut self, connections: u64) {
        self.connections = connections;
        self.highest = self.highest.max(self.used());
    }

    /// The limit.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted_and_the_highest_is_kept() {
        let mut memory = Memory::new(1000, 10, Some(2000));
        memory.connected(50);
        assert_eq!((memory.used(), memory.fits(500), memory.fits(501)), (1500, true, false));
        memory.take(400);
        memory.give(300);
        assert_eq!((memory.used(), memory.highest(), memory.highest()), (1600, 1900, 1600));
        memory.give(u64::MAX);
        assert_eq!(memory.used(), 1500, "never below nothing");
        assert!(Memory::new(u64::MAX, 1, None).fits(u64::MAX));
    }
}
