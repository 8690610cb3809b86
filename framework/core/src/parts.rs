//! What both engines are made of: the ordered queue, tables, deadlines, stream gates, and the books of each group.

pub mod buckets;
mod chunks;
pub mod deadlines;
pub mod gates;
pub mod heap;
pub mod jitter;
pub mod ladder;
pub mod ledger;
pub mod links;
pub mod near;
pub mod queue;
pub mod recorder;
pub mod slab;
pub mod streams;
pub mod tally;
