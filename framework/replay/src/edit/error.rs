//! What can be wrong with an edit.

use thiserror::Error;

/// An edit that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("edit `{key}`: {what}")]
pub struct EditError {
    /// Which key of the table.
    pub key: &'static str,
    /// What is wrong, and what to write.
    pub what: String,
}

impl EditError {
    pub(super) fn new(key: &'static str, what: impl Into<String>) -> Self {
        EditError { key, what: what.into() }
    }
}
