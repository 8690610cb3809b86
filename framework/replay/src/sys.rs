//! System calls: the one room that may hold `unsafe`.
#![expect(unsafe_code, reason = "system calls that no safe crate covers; each block says why it is sound")]

pub mod bpf;
pub mod hear;
pub mod interface;
pub mod map;
pub mod packet;
pub mod region;
mod socket;
pub mod tap;
pub mod thread;
pub mod xsk;
