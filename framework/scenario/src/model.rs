//! Models of users: a file that an actor's `model` names takes the place of its key `diagram`, so that the experiment has it
//! in itself. What is wrong in such a file is told with the file's own line.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use rehearsal_core::kind::Complaint;
use rehearsal_models::diagram::Diagram;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::decode::decode;
use crate::draft::Draft;
use crate::error::{Problem, Problems, ScenarioErrors};
use crate::load::read_file;
use crate::mix::MIX;
use crate::read::ACTORS;
use crate::registry::{Catalogue, Registry};
use crate::source::Sources;

/// The key that names a file.
const MODEL: &str = "model";
/// The key whose place the file takes.
const DIAGRAM: &str = "diagram";
/// Most rows of a trace in a module. Assumed: an hour of frames at 25 a second.
const ROWS_MAX: usize = 90_000;
const HELP: &str = "`configs/models` has models to begin with; `rehearsal model list` tells of them";

/// Files of models, by their names as written.
#[derive(Debug, Default)]
pub(crate) struct Models(BTreeMap<String, Result<Text, String>>);

/// A file behind as much padding as brings it to its place among the sources.
#[derive(Debug)]
struct Text {
    padded: String,
    start: usize,
}

impl Models {
    /// Reads the files that a file or the command line names.
    pub(crate) fn read(sets: &[String], base: &Path, sources: &mut Sources) -> Models {
        let mut names: Vec<String> = Vec::new();
        let (root, _) = DeTable::parse_recoverable(sources.file());
        each_actor(root.get_ref(), &mut |actor| {
            if let Some(DeValue::String(name)) = actor.get(MODEL).map(Spanned::get_ref) {
                names.push(name.to_string());
            }
        });
        if let Some(DeValue::Table(mix)) = root.get_ref().get(MIX).map(Spanned::get_ref)
            && let Some(DeValue::Table(apps)) = mix.get("apps").map(Spanned::get_ref)
        {
            let of = |app: &Spanned<DeValue<'_>>| match app.get_ref() {
                DeValue::Table(app) => app.get(MODEL).and_then(|name| Some(name.get_ref().as_str()?.to_owned())),
                _ => None,
            };
            names.extend(apps.values().filter_map(of));
        }
        drop(root);
        let set = sets.iter().filter_map(|set| set.split_once('='));
        let set = set.filter(|(path, _)| is_model(path)).map(|(_, value)| value.trim().trim_matches(['"', '\'']));
        names.extend(set.map(str::to_owned));
        let mut models = Models::default();
        for name in names {
            if models.0.contains_key(&name) {
                continue;
            }
            let path = base.join(&name);
            let read = read_file(&path).map_err(|problem| match problem {
                Problem::Unreadable { reason } => format!("cannot read {}: {reason}", path.display()),
                other => format!("{}: {other}", path.display()),
            });
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8")));
            let text = text.map(|text| {
                let start = sources.add_file(&path.display().to_string(), &text);
                Text { padded: " ".repeat(start) + &text, start }
            });
            models.0.insert(name, text);
        }
        models
    }

    /// The diagram of a file, by its name as written. What is wrong in it is told with its own line.
    pub(crate) fn diagram(&self, name: &str, problems: &mut Problems<'_>) -> Result<Diagram, String> {
        let text = match self.0.get(name) {
            Some(Ok(text)) => text,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err(format!("{name} was not read")),
        };
        let (table, errors) = DeTable::parse_recoverable(&text.padded);
        for error in errors {
            let at = error.span().unwrap_or(text.start..text.start);
            problems.at(&at, Problem::Syntax { reason: error.message().to_owned() });
        }
        let at = text.start..text.start + 1;
        let read: Option<Diagram> = decode(table.get_ref(), &at, &BTreeSet::new(), problems);
        read.ok_or_else(|| format!("{name} is no model"))
    }

    /// Puts each model where it is named, in actors of kinds that have a diagram.
    pub(crate) fn place<'i>(
        &'i self,
        root: &mut DeTable<'i>,
        registry: &Registry,
        catalogue: &Catalogue,
        problems: &mut Problems<'_>,
    ) {
        each_actor_mut(root, &mut |actor| {
            let kind = actor.get("kind").and_then(|kind| match kind.get_ref() {
                DeValue::String(name) => registry.get(name),
                _ => None,
            });
            let takes = kind.is_some_and(|kind| catalogue.own(kind.name).property(DIAGRAM).is_some());
            let Some((span, DeValue::String(name))) = actor.get(MODEL).map(|v| (v.span(), v.get_ref())) else { return };
            let Some(text) = self.0.get(name.as_ref()).filter(|_| takes) else { return };
            if actor.contains_key(DIAGRAM) {
                problems.rule(&span, "`model` and `diagram` exclude each other", Some("keep one of them"));
                return;
            }
            let text = match text {
                Ok(text) => text,
                Err(reason) => {
                    let problem = Problem::Value { key: MODEL.to_owned(), reason: reason.clone() };
                    return problems.helped(&span, problem, Some(HELP.to_owned()));
                }
            };
            let (table, errors) = DeTable::parse_recoverable(&text.padded);
            for error in errors {
                let at = error.span().unwrap_or(text.start..text.start);
                problems.at(&at, Problem::Syntax { reason: error.message().to_owned() });
            }
            actor.remove(MODEL);
            let at = text.start..text.start + 1;
            let key = Spanned::new(span, DeString::Owned(DIAGRAM.to_owned()));
            actor.insert(key, Spanned::new(at, DeValue::Table(table.into_inner())));
        });
    }
}

/// Reads and checks a model by itself.
///
/// # Errors
/// The file cannot be read, is no TOML, or holds something that no diagram can; with its line.
pub fn load_model(path: &Path) -> Result<Diagram, ScenarioErrors> {
    let name = path.display().to_string();
    let refuse = |problem: Problem| ScenarioErrors::single(problem, None, Some(HELP));
    let bytes = read_file(path).map_err(|problem| match problem {
        Problem::Unreadable { reason } => refuse(Problem::Rule { reason: format!("{name}: {reason}") }),
        other => refuse(other),
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| refuse(Problem::Rule { reason: format!("{name} is not UTF-8") }))?;
    let sources = Sources::new(&name, text);
    let mut problems = Problems::new(&sources);
    let (root, errors) = DeTable::parse_recoverable(sources.file());
    for error in errors {
        problems.at(&error.span().unwrap_or(0..0), Problem::Syntax { reason: error.message().to_owned() });
    }
    problems.pass()?;
    let diagram: Option<Diagram> = decode(root.get_ref(), &(0..0), &BTreeSet::new(), &mut problems);
    problems.pass()?;
    let diagram = diagram.ok_or_else(|| refuse(Problem::Rule { reason: format!("{name} is no model") }))?;
    let said = diagram.flaws().into_iter().map(|flaw| Complaint { path: flaw.path, reason: flaw.reason });
    complain(root.get_ref(), &(0..0), &said.collect::<Vec<_>>(), &mut problems);
    problems.pass()?;
    Ok(diagram)
}

/// Whether the path of a `--set` names a model.
pub(crate) fn is_model(path: &str) -> bool {
    path.rsplit('.').next() == Some(MODEL)
}

fn each_actor(root: &DeTable<'_>, with: &mut dyn FnMut(&DeTable<'_>)) {
    let Some(DeValue::Table(nodes)) = root.get("nodes").map(Spanned::get_ref) else { return };
    for node in nodes.values() {
        let DeValue::Table(node) = node.get_ref() else { continue };
        let Some(DeValue::Table(actors)) = node.get(ACTORS).map(Spanned::get_ref) else { continue };
        for actor in actors.values() {
            if let DeValue::Table(actor) = actor.get_ref() {
                with(actor);
            }
        }
    }
}

fn each_actor_mut<'i>(root: &mut DeTable<'i>, with: &mut dyn FnMut(&mut DeTable<'i>)) {
    let Some(DeValue::Table(nodes)) = root.get_mut("nodes").map(Spanned::get_mut) else { return };
    for (_, node) in nodes.iter_mut() {
        let DeValue::Table(node) = node.get_mut() else { continue };
        let Some(DeValue::Table(actors)) = node.get_mut(ACTORS).map(Spanned::get_mut) else { continue };
        for (_, actor) in actors.iter_mut() {
            if let DeValue::Table(actor) = actor.get_mut() {
                with(actor);
            }
        }
    }
}

/// Notes what a kind says of its own keys, each at the key that it names, or as near to it as the file goes. What is wrong
/// already needs no second complaint, which would be of what is missing for that.
pub(crate) fn complain(table: &DeTable<'_>, span: &Range<usize>, said: &[Complaint], problems: &mut Problems<'_>) {
    let blamed = problems.places();
    for complaint in said {
        let (mut at, mut inside) = (span.clone(), Some(table));
        for name in &complaint.path {
            let Some((key, value)) = inside.and_then(|table| table.get_key_value(name.as_str())) else { break };
            inside = match value.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
            at = if inside.is_some() && name != DIAGRAM { key.span() } else { value.span() };
        }
        if !blamed.contains(&problems.place(&at)) {
            problems.rule(&at, complaint.reason.clone(), None);
        }
    }
}

/// Puts traces of frames that modules name by file into the experiment.
pub(crate) fn traces(draft: &mut Draft, base: &Path, registry: &Registry, problems: &mut Problems<'_>) {
    for actor in draft.nodes.iter_mut().flat_map(|node| &mut node.actors) {
        let at = actor.actor.keys.at(DIAGRAM).clone();
        let modules = actor.own.table.get_mut(DIAGRAM).and_then(|diagram| diagram.get_mut("modules"));
        let Some(toml::Value::Table(modules)) = modules else { continue };
        let mut changed = false;
        for (name, module) in modules.iter_mut() {
            let Some(file) = module.get("file").and_then(toml::Value::as_str).map(str::to_owned) else { continue };
            let read = read_file(&base.join(&file)).map_err(|problem| problem.to_string());
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
            match text.and_then(|text| rows(&text)) {
                Ok(bits) => {
                    let Some(module) = module.as_table_mut() else { continue };
                    module.remove("file");
                    let bits = bits.into_iter().map(toml::Value::Integer).collect();
                    module.insert("bits".to_owned(), toml::Value::Array(bits));
                    changed = true;
                }
                Err(why) => problems.rule(
                    &at,
                    format!("module `{name}`: {file}: {why}"),
                    Some("write the bits of an interval in each row"),
                ),
            }
        }
        if changed && let Some(kind) = registry.get(actor.kind) {
            match kind.decode_again(actor.own.table.clone()) {
                Ok(own) => actor.own = own,
                Err(error) => problems.rule(&at, error.message().to_owned(), None),
            }
        }
    }
}

/// The rows of a trace of frames. Empty lines and those that begin with `#` are skipped; of several columns the last counts.
fn rows(text: &str) -> Result<Vec<i64>, String> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let last = line.split([' ', '\t', ',', ';']).rfind(|field| !field.is_empty()).unwrap_or_default();
        let bits = last.parse().ok().filter(|bits| *bits >= 0);
        rows.push(bits.ok_or_else(|| format!("line {number}: `{last}` is no number of bits"))?);
        if rows.len() > ROWS_MAX {
            return Err(format!("there are more than {ROWS_MAX} rows"));
        }
    }
    if rows.is_empty() { Err("there is no row".to_owned()) } else { Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_trace_may_have_columns() {
        assert_eq!(rows("# type, bits\nI, 8000\n\n400\n0 16"), Ok(vec![8000, 400, 16]));
        for (text, why) in [("", "no row"), ("8\nx", "line 2: `x`"), ("-8", "no number")] {
            assert!(rows(text).is_err_and(|told| told.contains(why)), "{text}");
        }
    }
}
