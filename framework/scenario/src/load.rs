//! From a path to a checked experiment.

use std::cell::OnceCell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeTable;

use crate::compose;
use crate::draft::Draft;
use crate::error::{Problem, Problems, ScenarioErrors};
use crate::experiment::Experiment;
use crate::mix;
use crate::model::Models;
use crate::overrides::{self, Override};
use crate::read::Reader;
use crate::registry::{Catalogue, Registry};
use crate::source::Sources;
use crate::validate;

/// Largest experiment file that is read, bytes. Assumed: a thousand times a long one.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// What the command line changes of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// The folder that media are relative to; without it, the file's own.
    pub base: Option<PathBuf>,
    /// `path=value`, in the order given; the last one holds.
    pub sets: Vec<String>,
    /// Multiplies `requests` (at least 1) and `duration` (at least 1 s); `None` leaves them.
    pub scale: Option<f64>,
    /// Nodes that this process runs; empty means all. A name in the file stands for all instances.
    pub only: Vec<String>,
    /// Nodes that this process does not run.
    pub without: Vec<String>,
    /// Whether files of certificates, keys and passwords are looked at. They are read where nodes run, which may be on other
    /// hosts than this one.
    pub files: bool,
}

/// Reads, checks and resolves an experiment file.
///
/// # Errors
/// All that is wrong with it, as far as one reading can tell.
pub fn load(path: &Path, registry: &Registry, options: &LoadOptions) -> Result<Experiment, ScenarioErrors> {
    let name = path.display().to_string();
    let bytes = read_file(path).map_err(|problem| {
        let help = matches!(problem, Problem::Unreadable { .. }).then(|| format!("looked for {name}"));
        ScenarioErrors::single(problem, None, help.as_deref())
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?;
    parse(path, text, registry, options)
}

/// As [`load`], for text that has been read already; `path` is where it is taken to stand.
///
/// # Errors
/// As [`load`].
pub fn parse(
    path: &Path,
    text: String,
    registry: &Registry,
    options: &LoadOptions,
) -> Result<Experiment, ScenarioErrors> {
    let mut sources = Sources::new(&path.display().to_string(), text);
    let starts = overrides::place(&options.sets, &mut sources);
    let base = options.base.clone().unwrap_or_else(|| path.parent().unwrap_or(Path::new("")).to_path_buf());
    let models = Models::read(&options.sets, &base, &mut sources);
    let sources = Arc::new(sources);
    let mut problems = Problems::new(&sources);
    let made = OnceCell::new();
    let root = syntax(&sources, &mut problems);
    let overrides: Vec<Override> =
        options.sets.iter().zip(starts).filter_map(|(set, start)| Override::new(set, start, &mut problems)).collect();
    problems.pass()?;
    let draft = read(root, (&overrides, &made), &models, registry, &mut problems);
    validate::draft(&draft, &mut problems);
    let experiment = problems
        .is_empty()
        .then(|| compose::experiment(draft, path, Arc::clone(&sources), registry, options, &mut problems))
        .flatten();
    problems.pass()?;
    Ok(experiment.expect("what has no problems has been composed"))
}

fn read<'i>(
    mut root: Spanned<DeTable<'i>>,
    (overrides, made): (&'i [Override], &'i OnceCell<String>),
    models: &'i Models,
    registry: &Registry,
    problems: &mut Problems<'_>,
) -> Draft {
    let catalogue = Catalogue::new(registry);
    // what a mix makes, and a model, can be changed by overrides once it is there
    let (mixed, others): (Vec<&Override>, Vec<&Override>) = overrides.iter().partition(|one| one.is_in(mix::MIX));
    for one in mixed {
        one.apply(root.get_mut(), problems);
    }
    mix::expand(root.get_mut(), models, made, problems);
    let (named, others): (Vec<&Override>, Vec<&Override>) = others.into_iter().partition(|one| one.names_model());
    for one in named {
        one.apply(root.get_mut(), problems);
    }
    models.place(root.get_mut(), registry, &catalogue, problems);
    for one in others {
        one.apply(root.get_mut(), problems);
    }
    Reader { registry, catalogue: &catalogue, problems }.read(&root)
}

/// Parses the file's text; every syntax error is told.
fn syntax<'s>(sources: &'s Sources, problems: &mut Problems<'_>) -> Spanned<DeTable<'s>> {
    let (root, errors) = DeTable::parse_recoverable(sources.file());
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        problems.at(&at, Problem::Syntax { reason: error.message().to_owned() });
    }
    root
}

/// The bytes of a file of at most [`FILE_BYTES_MAX`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    let unreadable = |error: std::io::Error| Problem::Unreadable { reason: error.to_string() };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Problem::Large { max: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

/// Names the first byte that is no text, with its line.
fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> ScenarioErrors {
    let offset = error.utf8_error().valid_up_to();
    let value = error.as_bytes()[offset];
    let sources = Sources::new(name, String::from_utf8_lossy(error.as_bytes()).into_owned());
    let place = sources.place(&(offset..offset + 1));
    ScenarioErrors::single(Problem::NotUtf8 { offset, value }, Some(place), Some("save the file as UTF-8"))
}
