//! The library that a lab shares: templates in the object store of its NATS server, fetched into the folder when they are
//! asked for.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use rehearsal_bus::nats::{ConnectSettings, Nats};
use rehearsal_bus::templates::{Shared, Templates, TemplatesError};
use rehearsal_replay::Template;
use rehearsal_replay::template::Kept;
use tokio::runtime::Runtime;

use crate::connection::Connection;
use crate::exit::{Refused, UsageError};
use crate::report::chain;

/// A connection to the lab's server.
pub struct Lab {
    runtime: Runtime,
    templates: Templates,
    /// How it is shown.
    server: String,
}

impl Lab {
    /// Connects to the server that is named; `None` if none is.
    ///
    /// # Errors
    /// When it cannot be reached, or has no JetStream.
    pub fn open(nats: &Connection) -> Result<Option<Lab>> {
        nats.settings()?.map(|settings| Lab::at(&settings)).transpose()
    }

    fn at(settings: &ConnectSettings) -> Result<Lab> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let templates = runtime.block_on(async {
            let connected = Nats::connect(settings, "rehearsal template").await;
            let (nats, _) = connected.map_err(|why| Refused(chain(&why)))?;
            Templates::open(&nats).await.map_err(|why| Refused(chain(&why)))
        })?;
        Ok(Lab { runtime, templates, server: settings.shown() })
    }

    /// How its server is shown.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Shares a template.
    ///
    /// # Errors
    /// When the server does not take it.
    pub fn put(&self, kept: &Kept, template: &Template) -> Result<()> {
        let facts = [
            ("packets", u64::from(template.len())),
            ("streams", template.streams().len() as u64),
            ("bytes", template.bytes()),
            ("duration_ns", template.duration()),
            ("captured_ns", template.notes().began),
        ];
        let facts: BTreeMap<String, String> =
            facts.into_iter().map(|(key, number)| (key.to_owned(), number.to_string())).collect();
        self.wait(self.templates.put(&kept.path, &kept.called(), facts))
    }

    /// What it has.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn list(&self) -> Result<Vec<Shared>> {
        self.wait(self.templates.list())
    }

    /// The one that `wanted` names: a name, or a name, `@` and the first digits of a digest.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, wanted: &str) -> Result<String> {
        let (name, digits) = wanted.split_once('@').unwrap_or((wanted, ""));
        let fits = |called: &str| called.rsplit_once('@').is_some_and(|(n, d)| n == name && d.starts_with(digits));
        let mut found: Vec<String> = self.list()?.into_iter().map(|shared| shared.called).filter(|c| fits(c)).collect();
        match (found.pop(), found.is_empty()) {
            (Some(called), true) => Ok(called),
            (Some(called), false) => {
                found.push(called);
                Err(UsageError(format!("`{wanted}` may be {}; write one of them", found.join(" or "))).into())
            }
            (None, _) => {
                let place = &self.server;
                Err(UsageError(format!("there is no template `{wanted}` in the folder or at {place}")).into())
            }
        }
    }

    /// Fetches one to `path`.
    ///
    /// # Errors
    /// When the server does not give it.
    pub fn get(&self, called: &str, path: &Path) -> Result<()> {
        self.wait(self.templates.get(called, path))
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, TemplatesError>>) -> Result<T> {
        self.runtime.block_on(work).map_err(|why| Refused(chain(&why)).into())
    }
}
