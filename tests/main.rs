//! The integration tests, in one binary: the built program and both engines as a user meets them.

mod bundles;
mod engines;
mod errors;
mod faults;
mod help;
mod nodes;
mod processes;
mod refusals;
mod support;
