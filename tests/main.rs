//! The integration tests, in one binary: the built program and both engines as a user meets them.

mod bundles;
mod errors;
mod help;
mod refusals;
mod support;
