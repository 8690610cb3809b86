//! Templates on this host: a folder of files, each called by a name and by the SHA-256 of what it holds.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{Template, TemplateError};

/// How names of template files end.
pub const ENDING: &str = ".template";
/// Hexadecimal digits of a digest that are part of a template's name.
pub const DIGITS: usize = 12;
/// Longest name, bytes. Assumed: it stands in file names and tables.
pub const NAME_MAX: usize = 63;
/// Bytes that are digested at once.
const PIECE: usize = 1 << 20;

/// A folder of templates.
#[derive(Clone, Debug)]
pub struct Library {
    folder: PathBuf,
}

/// A template in a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The first [`DIGITS`] digits of its digest.
    pub digits: String,
    /// Where it lies.
    pub path: PathBuf,
}

/// Why the library has no such template.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// The folder or a file in it.
    #[error("{}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A text that cannot be a name.
    #[error(
        "`{0}` is no name of a template; write 1 to {NAME_MAX} lower-case letters, digits, `-`, `_` and `.`, a letter or digit first"
    )]
    Name(String),
    /// Nothing of that name.
    #[error("there is no template `{wanted}` in {}; {}", folder.display(), known(names))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Where.
        folder: PathBuf,
        /// What there is.
        names: Vec<String>,
    },
    /// Several of that name.
    #[error("`{wanted}` may be {}; write one of them", names.join(" or "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// What it may be.
        names: Vec<String>,
    },
    /// A template that cannot be read.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Kept {
    /// `name@digits`.
    pub fn called(&self) -> String {
        format!("{}@{}", self.name, self.digits)
    }
}

impl Library {
    /// The library in a folder, which is made when the first template is kept.
    pub fn at(folder: &Path) -> Library {
        Library { folder: folder.to_owned() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path to make a template at before it is kept: in the same folder, so that it can be renamed.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn draft(&self) -> Result<PathBuf, LibraryError> {
        std::fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        Ok(self.folder.join(format!(".draft-{}", std::process::id())))
    }

    /// Keeps the template at `draft` under a name. The same packets under the same name are kept once.
    ///
    /// # Errors
    /// When the name cannot be one, or the file cannot be read or renamed.
    pub fn keep(&self, draft: &Path, name: &str) -> Result<Kept, LibraryError> {
        check_name(name)?;
        let digits = digest_of(draft)?[..DIGITS].to_owned();
        let path = self.folder.join(format!("{name}@{digits}{ENDING}"));
        std::fs::rename(draft, &path).map_err(failed(&path))?;
        Ok(Kept { name: name.to_owned(), digits, path })
    }

    /// All templates, by name. Files that are none are passed over.
    ///
    /// # Errors
    /// When the folder is there but cannot be read.
    pub fn list(&self) -> Result<Vec<Kept>, LibraryError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&self.folder))?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed(&self.folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
            let Some((name, digits)) = name.and_then(|name| name.rsplit_once('@')) else { continue };
            if check_name(name).is_ok() && digits.len() == DIGITS {
                all.push(Kept { name: name.to_owned(), digits: digits.to_owned(), path: path.clone() });
            }
        }
        all.sort();
        Ok(all)
    }

    /// The one that is called `wanted`: a name, or a name, `@` and the first digits of a digest.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn find(&self, wanted: &str) -> Result<Kept, LibraryError> {
        let all = self.list()?;
        let (name, digits) = wanted.split_once('@').unwrap_or((wanted, ""));
        let mut found: Vec<&Kept> =
            all.iter().filter(|kept| kept.name == name && kept.digits.starts_with(digits)).collect();
        match (found.pop(), found.len()) {
            (Some(kept), 0) => Ok(kept.clone()),
            (Some(kept), _) => {
                let names = found.into_iter().chain([kept]).map(Kept::called).collect();
                Err(LibraryError::Ambiguous { wanted: wanted.to_owned(), names })
            }
            (None, _) => {
                let names = all.iter().map(Kept::called).collect();
                Err(LibraryError::Unknown { wanted: wanted.to_owned(), folder: self.folder.clone(), names })
            }
        }
    }

    /// Opens one, and holds it against its digest.
    ///
    /// # Errors
    /// As for [`Library::find`], and when the file is not what its name says.
    pub fn open(&self, wanted: &str) -> Result<(Kept, Template), LibraryError> {
        let kept = self.find(wanted)?;
        let template = Template::open(&kept.path)?;
        let found = digest_of(&kept.path)?;
        if !found.starts_with(&kept.digits) {
            let what = format!("its digest is {}…", &found[..DIGITS]);
            return Err(TemplateError::damaged(&kept.path, what).into());
        }
        Ok((kept, template))
    }
}

/// The SHA-256 of a template's file, in hexadecimal digits. It is read, not mapped: what was digested need not stay in
/// memory.
fn digest_of(path: &Path) -> Result<String, LibraryError> {
    let mut file = File::open(path).map_err(failed(path))?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece).map_err(failed(path))? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&piece[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Refuses what cannot be the name of a template.
///
/// # Errors
/// [`LibraryError::Name`].
pub fn check_name(name: &str) -> Result<(), LibraryError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fine = name.len() <= NAME_MAX
        && name.starts_with(plain)
        && name.chars().all(|c| plain(c) || matches!(c, '-' | '_' | '.'));
    if fine { Ok(()) } else { Err(LibraryError::Name(name.to_owned())) }
}

/// A name for what is made of a file: its stem, as far as it can be one.
pub fn name_of(file: &Path) -> String {
    let stem = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let mut stem = stem.as_str();
    for ending in [".gz", ".zst", ".pcapng", ".pcap", ".cap"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { "capture".to_owned() } else { name.chars().take(NAME_MAX).collect() }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LibraryError {
    move |source| LibraryError::Folder { path: path.to_owned(), source }
}

fn known(names: &[String]) -> String {
    const SHOWN: usize = 20;
    match names {
        [] => "it is empty; make one by `rehearsal template import FILE`".to_owned(),
        names if names.len() > SHOWN => format!("it holds {} others", names.len()),
        names => format!("it holds {}", names.join(", ")),
    }
}
