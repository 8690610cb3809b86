//! Files that hosts share: in an object store, each under the SHA-256 of what it holds, so that one is sent only once.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::{self, object_store};
use rehearsal_core::fleet::FILES;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// Largest file that is shared, bytes. Assumed: more than any clip of a lab.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// How long the server keeps a file. Assumed: a series of experiments takes days.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// The SHA-256 of a file, in hexadecimal digits.
pub type Digest = String;

/// Why a file is not shared.
#[derive(Debug, Error)]
pub enum FileError {
    /// There is no place for files.
    #[error("the NATS server has no bucket `{FILES}` and makes none; shipping files needs JetStream")]
    Bucket(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store does not take or give it.
    #[error("the bucket `{FILES}` does not hand over {what}")]
    Store {
        /// Which file.
        what: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
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
    #[error("{} has {bytes} bytes; at most {FILE_BYTES_MAX} are shipped", path.display())]
    Large {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Not what its name says.
    #[error("what came for {wanted} has another digest")]
    Corrupt {
        /// The digest.
        wanted: Digest,
    },
}

/// The files of a server.
#[derive(Clone)]
pub struct Files(object_store::ObjectStore);

impl Files {
    pub(super) async fn open(client: &Client) -> Result<Files, FileError> {
        let context = jetstream::new(client.clone());
        if let Ok(store) = context.get_object_store(FILES).await {
            return Ok(Files(store));
        }
        let config = object_store::Config {
            bucket: FILES.to_owned(),
            description: Some("Files of experiments, by their SHA-256".to_owned()),
            max_age: KEPT,
            ..object_store::Config::default()
        };
        let made = context.create_object_store(config).await;
        made.map(Files).map_err(|why| FileError::Bucket(Box::new(why)))
    }

    /// Puts a file into the store, unless it is there; its digest.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or the store does not take it.
    pub async fn put(&self, path: &Path) -> Result<Digest, FileError> {
        let local = |source| FileError::Local { path: path.to_owned(), source };
        let bytes = path.metadata().map_err(local)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(FileError::Large { path: path.to_owned(), bytes });
        }
        let digest = digest(path).map_err(local)?;
        if self.0.info(&digest).await.is_ok_and(|info| !info.deleted && info.size as u64 == bytes) {
            return Ok(digest);
        }
        let mut pieces = Pieces::of(File::open(path).map_err(local)?);
        let put = self.0.put(digest.as_str(), &mut pieces).await;
        let failed = |source| FileError::Store { what: path.display().to_string(), source: Box::new(source) };
        put.map(|_| digest).map_err(failed)
    }

    /// The same for what is in memory.
    ///
    /// # Errors
    /// When the store does not take it.
    pub async fn put_bytes(&self, mut bytes: &[u8]) -> Result<Digest, FileError> {
        let digest = hex(&Sha256::digest(bytes));
        if self.0.info(&digest).await.is_ok_and(|info| !info.deleted && info.size == bytes.len()) {
            return Ok(digest);
        }
        let put = self.0.put(digest.as_str(), &mut bytes).await;
        let failed = |source| FileError::Store { what: digest.clone(), source: Box::new(source) };
        put.map_err(failed)?;
        Ok(digest)
    }

    /// Writes the file of that digest to `path`, which appears only when it is whole.
    ///
    /// # Errors
    /// When the store does not have it, or what comes is something else.
    pub async fn get(&self, wanted: &str, path: &Path) -> Result<(), FileError> {
        let store = |source| FileError::Store { what: wanted.to_owned(), source };
        let mut object = self.0.get(wanted).await.map_err(|why| store(Box::new(why)))?;
        // what follows the last dot may be what keeps two who fetch the same apart
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let local = |source| FileError::Local { path: path.to_owned(), source };
        let mut file = File::create(&partial).map_err(local)?;
        let (mut hash, mut buffer) = (Sha256::new(), vec![0; PIECE]);
        loop {
            let read = object.read(&mut buffer).await.map_err(|why| store(Box::new(why)))?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(local)?;
        }
        if hex(&hash.finalize()) != wanted {
            return Err(FileError::Corrupt { wanted: wanted.to_owned() });
        }
        std::fs::rename(&partial, path).map_err(local)
    }
}

/// The digest of a file.
///
/// # Errors
/// When it cannot be read.
pub fn digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> Digest {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// A local file as the client library wants it. Reading it does not wait for others.
pub(crate) struct Pieces(File);

impl Pieces {
    pub(crate) fn of(file: File) -> Pieces {
        Pieces(file)
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let free = into.initialize_unfilled();
        let size = free.len().min(PIECE);
        let read = self.0.read(&mut free[..size])?;
        into.advance(read);
        Poll::Ready(Ok(()))
    }
}
