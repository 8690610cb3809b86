//! Ctrl-C and SIGTERM: a real run drains at the first and ends at once at the second; a dry run ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{INTERRUPTED, TERMINATED};
use crate::provision::Provision;
use crate::unfinished::Unfinished;

/// Which signal came, if one did.
#[derive(Clone, Default, Debug)]
pub struct Signals(Arc<AtomicI32>);

impl Signals {
    /// Listens on a thread of its own; `drain` is called at the first signal. The second ends the process; a bundle that
    /// holds records stays.
    ///
    /// # Errors
    /// When the operating system refuses the thread or the handlers.
    pub fn draining(unfinished: Unfinished, drain: impl Fn() + Send + 'static) -> Result<Self> {
        let seen = Signals::default();
        let mark = seen.clone();
        listen(move |code| {
            if mark.0.swap(i32::from(code), Ordering::SeqCst) != 0 {
                return end_at_once(&unfinished, code);
            }
            eprintln!("\nstopping: waiting for what is under way; once more ends at once");
            drain();
        })?;
        Ok(seen)
    }

    /// Listens on a thread of its own; the first signal ends the process: a dry run can be had again.
    ///
    /// # Errors
    /// When the operating system refuses the thread or the handlers.
    pub fn ending(unfinished: Unfinished) -> Result<()> {
        listen(move |code| end_at_once(&unfinished, code))
    }

    /// The exit code of the signal that came.
    pub fn code(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|c| *c != 0)
    }
}

/// Calls `seen` with the exit code of each signal.
fn listen(seen: impl Fn(u8) + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("cannot listen for Ctrl-C")?;
    let handlers = {
        let _inside = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate()].map(signal)
    };
    let [interrupt, terminate] = handlers;
    let (mut interrupt, mut terminate): (Signal, Signal) =
        (interrupt.context("cannot listen for Ctrl-C")?, terminate.context("cannot listen for SIGTERM")?);
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            loop {
                seen(tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                });
            }
        });
    });
    thread.map(drop).context("cannot listen for Ctrl-C")
}

#[expect(clippy::disallowed_methods, reason = "it ends at once, whatever is under way")]
fn end_at_once(unfinished: &Unfinished, code: u8) {
    let word = if code == INTERRUPTED { "interrupted" } else { "terminated" };
    eprintln!("\n{word}: there is no bundle of what was under way");
    let stays = |partial: &std::path::Path| eprintln!("what was recorded is kept in {}", partial.display());
    Provision::abandon();
    unfinished.abandon(stays, || std::process::exit(i32::from(code)));
}
