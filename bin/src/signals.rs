//! Ctrl-C and SIGTERM: the first drains, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{INTERRUPTED, TERMINATED};

/// Which signal came, if one did.
#[derive(Clone, Default, Debug)]
pub struct Signals(Arc<AtomicI32>);

impl Signals {
    /// Listens on a thread of its own; `drain` is called at the first signal.
    ///
    /// # Errors
    /// When the operating system refuses the thread or the handlers.
    pub fn listen(drain: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let seen = Signals::default();
        let mark = seen.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let (Ok(mut interrupt), Ok(mut terminate)) =
                    (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
                else {
                    return;
                };
                loop {
                    let code = tokio::select! {
                        _ = interrupt.recv() => INTERRUPTED,
                        _ = terminate.recv() => TERMINATED,
                    };
                    if mark.0.swap(i32::from(code), Ordering::SeqCst) != 0 {
                        end_at_once(code);
                    }
                    eprintln!("\nstopping: waiting for what is under way; once more ends at once");
                    drain();
                }
            });
        })?;
        Ok(seen)
    }

    /// The exit code of the signal that came.
    pub fn code(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|c| *c != 0)
    }
}

#[expect(clippy::disallowed_methods, reason = "the second signal ends at once, whatever is under way")]
fn end_at_once(code: u8) {
    std::process::exit(i32::from(code));
}
