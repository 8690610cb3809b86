//! What the kernel offers a host of nodes: limits that hold, networks of their own, and the facts about a machine.
//!
//! ```text
//!   cgroup    a control group per node: CPU quota, memory limit, what was used, who was killed (v1, v2, both)
//!   network   a network namespace per node, joined by a bridge; shaping by tc
//!   facts     cores, memory, kernel, interfaces, clock
//!   machine   each second: its cores' time and clock, memory, open files
//!   process   each second: memory, descriptors, context switches of this process
//!   busy      each second: whether a thread had time left, and what a run's processes used together
//!   counters  each second: errors and ports of a network namespace
//!   owner     whose a group or namespace is, told from its name: what a dead owner left behind is swept
//! ```
//!
//! Nothing here knows of actors, runs or messages; nothing needs `unsafe`: what must happen in a process before its program
//! starts is done by a hidden verb of our own program, which then becomes the other one.

pub mod busy;
pub mod cgroup;
pub mod counters;
pub mod facts;
pub mod machine;
pub mod network;
pub mod owner;
pub mod process;
