//! Where a run's records go: implemented by the export crate, injected by the binary, fed by the aggregator's work.

use thiserror::Error;

use crate::message::Body;
use crate::messages::StopReason;

/// A record could not be kept.
#[derive(Debug, Error)]
#[error("cannot store a record: {0}")]
pub struct SinkError(pub String);

/// Keeps the records of a run: node reports and life-cycle events ([`crate::messages`]).
pub trait Sink: Send {
    /// Keeps one record; when it returns, the record is safe enough to acknowledge.
    ///
    /// # Errors
    /// When the record is not understood or cannot be written.
    fn store(&mut self, record: &Body) -> Result<(), SinkError>;

    /// Why the run is to end now, as what was stored last says. A run in virtual time asks after every record; a real
    /// one is ended through its control.
    fn ends(&self) -> Option<StopReason> {
        None
    }
}
