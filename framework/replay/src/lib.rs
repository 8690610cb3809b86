//! Captures as templates, and templates on the wire.
//!
//! ```text
//!   capture (pcap, pcapng, gz, zst) ─> frame ─> template (streams, times, who waits for whom) ─> edit ─> pcap or wire
//!   template ─> timing ─> worker ─> send ═wire═> receive ─> judge
//! ```
//!
//! [`capture`] reads what somebody recorded and trusts no length in it; [`frame`] finds the layers of a frame;
//! [`template`] keeps packets by stream and time in a file of its own that is mapped, not read. [`edit`] changes copies of
//! packets on their way out, never a template.
//!
//! [`timing`] knows when each packet is due; a [`worker`] owns some streams and a path of [`send`], and keeps these times;
//! [`receive`] listens at the far side, and [`judge`] holds what it heard against what was due.

pub mod capture;
pub mod converse;
pub mod edit;
pub mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod judge;
pub mod middle;
pub mod packet;
pub mod port;
pub mod receive;
pub mod send;
mod sys;
pub mod template;
#[cfg(test)]
mod testing;
pub mod timing;
pub mod worker;
mod xdp;

pub use edit::{Edit, Editor};
pub use packet::{Direction, Packet};
pub use template::{Builder, Template};
