//! What both engines are made of: the ordered queue, tables, deadlines, stream gates, and the books of each group.

pub mod deadlines;
pub mod gates;
pub mod heap;
pub mod ladder;
pub mod ledger;
pub mod slab;
pub mod tally;
