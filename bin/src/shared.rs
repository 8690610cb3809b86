//! A sink that is given to an engine, and got back when the run is over.

use std::sync::{Arc, Mutex, PoisonError};

use rehearsal_core::Body;
use rehearsal_core::messages::StopReason;
use rehearsal_core::sink::{Sink, SinkError};

/// A sink in two places. Clones share it.
pub struct Shared<S>(Arc<Mutex<Option<S>>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<S> Shared<S> {
    /// Shares a sink.
    pub fn new(sink: S) -> Self {
        Shared(Arc::new(Mutex::new(Some(sink))))
    }

    /// Takes the sink back; whoever stores later is refused.
    pub fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Sink> Sink for Shared<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.as_mut().ok_or_else(|| SinkError("the run is over".to_owned()))?.store(record)
    }

    fn ends(&self) -> Option<StopReason> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Sink::ends)
    }
}
