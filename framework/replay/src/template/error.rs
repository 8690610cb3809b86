//! Why there is no template.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::format::VERSION;

/// Why a template cannot be made, opened or found.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// A file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Some other file.
    #[error("{} is no template; make one of a capture by `rehearsal template import`", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// Of another version.
    #[error("{} is a template of version {version}; this program reads version {VERSION}; import the capture again", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Not what its header or its name says.
    #[error("{} is damaged: {what}; import the capture again", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Too many packets.
    #[error("more than {0} packets; take a part of the capture by --from, --to, --limit or --filter")]
    Packets(u32),
    /// Too many streams.
    #[error("more than {0} streams; take a part of the capture by --from, --to, --limit or --filter")]
    Streams(u32),
    /// A frame that no link carries.
    #[error("a frame of {0} bytes; a template takes 1 to {max} bytes", max = super::FRAME_MAX)]
    Length(usize),
}

impl TemplateError {
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> TemplateError {
        move |source| TemplateError::File { path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> TemplateError {
        TemplateError::Damaged { path: path.to_owned(), what: what.into() }
    }
}
