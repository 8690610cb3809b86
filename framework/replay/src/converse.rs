//! Interactive replay: a packet goes when what it answers has arrived, and its side has thought.
//!
//! ```text
//!   template ─script─> conversations ─cast─> copies, each with its own addresses
//!   interface ═ hall ═ interface: what arrives ─half─> what is sent, when         one half or both in a process
//! ```
//!
//! [`script`] finds conversations and their order; [`Half`] is the rules of one side as pure code, by which actors play
//! too; [`cast`] gives each copy its addresses and knows frames again; [`hall`] has the interfaces, the clock and the
//! loop. Each half knows only the template: arrivals are its clock, so two hosts need none in common.

pub mod cast;
pub mod hall;
mod local;
mod result;
pub mod script;
mod seat;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tuple;

pub use cast::{Cast, CastError, Held, Nets};
pub use hall::{ConverseError, Hours, Pace, Place, converse};
pub use rehearsal_core::dialogue::{Half, Loss, Manners, Outcome, Split, Step, Talk, Thinking};
pub use result::{Conversed, Counts, Row, SeatFacts, Stop as Stopped, Times};
pub use script::{Script, Scripts};
