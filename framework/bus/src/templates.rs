//! Templates that a lab shares: in the object store of its NATS server, each under its name and the digits of its digest.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use async_nats::jetstream::{self, object_store};
use futures_util::StreamExt as _;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

use crate::fleet::Pieces;
use crate::nats::Nats;

/// The bucket of templates.
pub const BUCKET: &str = "tg_templates";
/// Largest template that is shared, bytes. Assumed: more takes longer to fetch than to import again.
pub const TEMPLATE_BYTES_MAX: u64 = 64 << 30;
/// Templates that are listed at most. Assumed: more than a lab has.
const LISTED_MAX: usize = 100_000;
/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a template is not shared.
#[derive(Debug, Error)]
pub enum TemplatesError {
    /// There is no place for templates.
    #[error(
        "the NATS server has no bucket `{BUCKET}` and makes none; templates need JetStream: start it with `nats-server -js`"
    )]
    Bucket(#[source] Source),
    /// The store does not take or give it.
    #[error("the bucket `{BUCKET}` does not hand over {what}")]
    Store {
        /// Which template, or all.
        what: String,
        /// Why not.
        source: Source,
    },
    /// A file of this host.
    #[error("{}", path.display())]
    Local {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Too large.
    #[error("{} has {bytes} bytes; at most {TEMPLATE_BYTES_MAX} are shared", path.display())]
    Large {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

/// A template in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// `name@digits`.
    pub called: String,
    /// Bytes of its file.
    pub bytes: u64,
    /// What was said of it when it was put there.
    pub facts: BTreeMap<String, String>,
}

/// The templates of a server.
#[derive(Clone)]
pub struct Templates(object_store::ObjectStore);

impl Templates {
    /// Opens the bucket, and makes it where there is none.
    ///
    /// # Errors
    /// When the server has no JetStream, or this end may not use it.
    pub async fn open(nats: &Nats) -> Result<Templates, TemplatesError> {
        let context = jetstream::new(nats.client().clone());
        if let Ok(store) = context.get_object_store(BUCKET).await {
            return Ok(Templates(store));
        }
        let config = object_store::Config {
            bucket: BUCKET.to_owned(),
            description: Some("Captures as templates, by name and SHA-256".to_owned()),
            ..object_store::Config::default()
        };
        let made = context.create_object_store(config).await;
        made.map(Templates).map_err(|why| TemplatesError::Bucket(Box::new(why)))
    }

    /// Puts a file under `called`, unless one of that name and size is there: the name holds its digest.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or the store does not take it.
    pub async fn put(&self, path: &Path, called: &str, facts: BTreeMap<String, String>) -> Result<(), TemplatesError> {
        let local = |source| TemplatesError::Local { path: path.to_owned(), source };
        let bytes = path.metadata().map_err(local)?.len();
        if bytes > TEMPLATE_BYTES_MAX {
            return Err(TemplatesError::Large { path: path.to_owned(), bytes });
        }
        if self.0.info(called).await.is_ok_and(|info| !info.deleted && info.size as u64 == bytes) {
            return Ok(());
        }
        let meta = object_store::ObjectMetadata {
            name: called.to_owned(),
            metadata: facts.into_iter().collect::<HashMap<_, _>>(),
            ..object_store::ObjectMetadata::default()
        };
        let mut pieces = Pieces::of(File::open(path).map_err(local)?);
        let failed = |source| TemplatesError::Store { what: called.to_owned(), source: Box::new(source) };
        self.0.put(meta, &mut pieces).await.map(|_| ()).map_err(failed)
    }

    /// All templates, by name.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn list(&self) -> Result<Vec<Shared>, TemplatesError> {
        let failed = |source: Source| TemplatesError::Store { what: "its list".to_owned(), source };
        let mut all = Vec::new();
        let mut listed = self.0.list().await.map_err(|why| failed(Box::new(why)))?;
        while let Some(info) = listed.next().await {
            let info = info.map_err(|why| failed(Box::new(why)))?;
            if !info.deleted && all.len() < LISTED_MAX {
                let facts = info.metadata.into_iter().collect();
                all.push(Shared { called: info.name, bytes: info.size as u64, facts });
            }
        }
        all.sort_by(|a, b| a.called.cmp(&b.called));
        Ok(all)
    }

    /// Writes the template to `path`. What it holds is for the caller to hold against its name.
    ///
    /// # Errors
    /// When the store does not have it, or it cannot be written.
    pub async fn get(&self, called: &str, path: &Path) -> Result<(), TemplatesError> {
        let failed = |source: Source| TemplatesError::Store { what: called.to_owned(), source };
        let local = |source| TemplatesError::Local { path: path.to_owned(), source };
        let mut object = self.0.get(called).await.map_err(|why| failed(Box::new(why)))?;
        let bytes = object.info.size as u64;
        if bytes > TEMPLATE_BYTES_MAX {
            return Err(TemplatesError::Large { path: called.into(), bytes });
        }
        let mut file = File::create(path).map_err(local)?;
        let (mut buffer, mut left) = (vec![0; PIECE], bytes);
        loop {
            let read = object.read(&mut buffer).await.map_err(|why| failed(Box::new(why)))?;
            if read == 0 {
                return file.flush().map_err(local);
            }
            // whoever sends more than it said fills no disk
            left = left.checked_sub(read as u64).ok_or_else(|| failed("it is longer than the store says".into()))?;
            file.write_all(&buffer[..read]).map_err(local)?;
        }
    }
}
