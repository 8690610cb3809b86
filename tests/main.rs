//! The integration tests, in one binary: the built program and both engines as a user meets them.

mod errors;
mod refusals;
mod support;
