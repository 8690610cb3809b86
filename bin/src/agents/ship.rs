//! What agents need and do not have: the experiment with its files named by their digests, and those files.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rehearsal_bus::fleet::{Digest, FileError, Files};
use rehearsal_scenario::{ActorSpec, Experiment};

use crate::recordings;

/// The key that names a file.
const MEDIA: &str = "media";
/// The key that names a template or a capture.
const TEMPLATE: &str = "template";

/// Longest experiment that goes into a message itself, bytes: a quarter of what a NATS server takes by default.
const INLINE_BYTES_MAX: usize = 256 << 10;
/// The name of a longer one.
const EXPERIMENT: &str = "experiment.toml";

/// An experiment as it is sent.
pub(super) struct Parcel {
    /// Its text, which names files as in `files`; empty where it is one of them.
    pub(super) text: String,
    /// The name of the text in `files`, where it is too long for a message.
    pub(super) file: Option<String>,
    /// Names, and the digests of what they hold.
    pub(super) files: BTreeMap<String, Digest>,
}

/// Whether a text is better shipped as a file.
fn is_long(text: &str) -> bool {
    text.len() > INLINE_BYTES_MAX
}

/// Puts the experiment's files into the store, each once.
///
/// # Errors
/// When a file cannot be read, or the store does not take it.
pub(super) async fn pack(files: Option<&Files>, mut experiment: Experiment) -> Result<Parcel, FileError> {
    let mut shipped = BTreeMap::new();
    let mut known: BTreeMap<PathBuf, String> = BTreeMap::new();
    let base = experiment.base.clone();
    for actor in experiment.nodes.iter_mut().flat_map(|node| &mut node.actors) {
        let Some(files) = files else { continue };
        if let Some(media) = actor.own.get_mut(MEDIA)
            && let Some(path) = media.as_str().map(|name| base.join(name))
        {
            *media = ship(files, path, &mut known, &mut shipped).await?.into();
        }
        if actor.replays()
            && let Some(template) = actor.own.get_mut(TEMPLATE)
            && let Some(name) = template.as_str()
        {
            let missing =
                |why| FileError::Local { path: name.into(), source: io::Error::new(io::ErrorKind::NotFound, why) };
            let path = recordings::file(&base, name).map_err(missing)?;
            *template = ship(files, path, &mut known, &mut shipped).await?.into();
        }
        for rows in rows_files(actor) {
            if let Some(path) = rows.as_str().map(|name| base.join(name)) {
                *rows = ship(files, path, &mut known, &mut shipped).await?.into();
            }
        }
        if let Some(file) = body_file(actor) {
            *file = ship(files, base.join(&file), &mut known, &mut shipped).await?.into();
        }
    }
    let text = experiment.resolved_toml();
    match files.filter(|_| is_long(&text)) {
        None => Ok(Parcel { text, file: None, files: shipped }),
        Some(files) => {
            let digest = files.put_bytes(text.as_bytes()).await?;
            shipped.insert(EXPERIMENT.to_owned(), digest);
            Ok(Parcel { text: String::new(), file: Some(EXPERIMENT.to_owned()), files: shipped })
        }
    }
}

/// Puts a file into the store, if it is not there yet; its name there.
async fn ship(
    files: &Files,
    path: PathBuf,
    known: &mut BTreeMap<PathBuf, String>,
    shipped: &mut BTreeMap<String, Digest>,
) -> Result<String, FileError> {
    if let Some(name) = known.get(&path) {
        return Ok(name.clone());
    }
    let digest = files.put(&path).await?;
    let ending = path.extension().and_then(|e| e.to_str()).filter(|e| e.chars().all(|c| c.is_ascii_alphanumeric()));
    let name = ending.map_or_else(|| digest.clone(), |ending| format!("{digest}.{ending}"));
    shipped.insert(name.clone(), digest);
    known.insert(path, name.clone());
    Ok(name)
}

/// The names of files with rows for the steps of a population.
fn rows_files(actor: &mut ActorSpec) -> Vec<&mut toml::Value> {
    let states = actor.own.get_mut("diagram").and_then(|diagram| diagram.get_mut("states"));
    let states = states.and_then(toml::Value::as_table_mut).into_iter().flat_map(|states| states.iter_mut());
    states.filter_map(|(_, state)| state.get_mut("step")?.get_mut("rows")).collect()
}

/// Whether there are any.
fn has_rows(actor: &ActorSpec) -> bool {
    let states = actor.own.get("diagram").and_then(|diagram| diagram.get("states")).and_then(toml::Value::as_table);
    states.is_some_and(|states| {
        states.values().any(|state| state.get("step").is_some_and(|step| step.get("rows").is_some()))
    })
}

/// The file that a client sends as it is.
fn body_file(actor: &mut ActorSpec) -> Option<&mut PathBuf> {
    actor.sender.as_mut()?.request.as_mut()?.body.as_mut()?.file.as_mut()
}

/// Whether the experiment needs the store at all.
pub(super) fn has_files(experiment: &Experiment) -> bool {
    is_long(&experiment.resolved_toml())
        || experiment
            .nodes
            .iter()
            .flat_map(|node| &node.actors)
            .any(|actor| actor.own.contains_key(MEDIA) || actor.replays() || has_rows(actor))
        || experiment.senders().any(|(_, _, sender)| {
            sender.request.as_ref().and_then(|request| request.body.as_ref()).is_some_and(|body| body.file.is_some())
        })
}
