//! What the services have in common: no keys of their own, and one instance.

use rehearsal_core::{BuildError, GroupContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service has no keys of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceParams {}

/// Where the instances of a service must be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    /// In their node instance.
    InNode,
    /// In the whole experiment.
    InRun,
}

/// Checks that a group is one instance.
///
/// # Errors
/// [`BuildError`] if `count` asks for more.
pub(crate) fn check_alone(cx: &GroupContext<'_>, kind: &str, alone: Alone) -> Result<(), BuildError> {
    let (place, wanted) = match alone {
        Alone::InNode => ("node", cx.members.start..cx.members.start + 1),
        Alone::InRun => ("experiment", 0..1),
    };
    if cx.members == wanted {
        return Ok(());
    }
    Err(BuildError::of("count", format!("there is one {kind} in a {place}; write `count = 1`, or leave it out")))
}
