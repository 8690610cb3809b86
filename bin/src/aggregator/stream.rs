//! The stream that a run's telemetry is kept in, for as long as the run lasts.

use anyhow::Result;
use rehearsal_bus::nats::{ConnectSettings, Nats};
use rehearsal_bus::stream::{RunStream, StreamError};
use tokio::runtime::{Builder, Runtime};

use crate::exit::Refused;
use crate::report::chain;

/// The stream of one run. It is removed when this is dropped.
pub struct Telemetry {
    settings: ConnectSettings,
    run: String,
}

impl Telemetry {
    /// Makes the stream of `run` on the server that `settings` name.
    ///
    /// # Errors
    /// When the server cannot be reached, has no JetStream, or refuses.
    pub fn keep(settings: &ConnectSettings, run: &str) -> Result<Telemetry> {
        let telemetry = Telemetry { settings: settings.clone(), run: run.to_owned() };
        let made = runtime()?.block_on(async { telemetry.stream().await?.create(run).await });
        made.map(|_| telemetry).map_err(|why| Refused(chain(&why)).into())
    }

    /// Over a connection of its own each time: nobody would answer the server's pings in between.
    async fn stream(&self) -> Result<RunStream, StreamError> {
        let (nats, _) = Nats::connect(&self.settings, "rehearsal telemetry").await?;
        Ok(RunStream::of(&nats, &self.run))
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let Ok(runtime) = runtime() else { return };
        runtime.block_on(async {
            // a server that is away removes it when it is old enough
            if let Ok(stream) = self.stream().await {
                stream.delete().await;
            }
        });
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
