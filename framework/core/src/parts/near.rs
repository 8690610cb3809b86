//! Bringing near what is wanted soon, so that the waits for memory overlap. It changes nothing but the time that a run takes.

use prefetch_index::prefetch_index;

/// Bytes that caches take in at once. Elsewhere than here it may be twice that, which does no harm.
const LINE: usize = 64;

/// Has the line brought into the caches in which `all[at]` begins.
#[inline(always)]
pub fn fetch_line<T>(all: &[T], at: usize) {
    prefetch_index(all, at);
}

/// Has `all[at]` brought into the caches: its first and its last byte, all of what takes up to two lines.
#[inline(always)]
pub fn fetch<T>(all: &[T], at: usize) {
    prefetch_index(all, at);
    // it ends where the next one begins; what divides a line lies in one
    if !LINE.is_multiple_of(size_of::<T>().max(1)) {
        prefetch_index(all, at.wrapping_add(1));
    }
}
