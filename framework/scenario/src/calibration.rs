//! Reads `calibration.toml`: what things cost on a host. What is wrong with it is told like an error of an experiment.

use std::ops::Range;
use std::path::Path;

use rehearsal_core::calibration::Calibration;
use toml::de::{DeTable, DeValue};

use crate::error::{Problem, Problems, ScenarioErrors};
use crate::load::read_file;
use crate::source::Sources;

/// Tables that hold a cost. Source: the format of the file, [`rehearsal_core::calibration`].
const COSTS: [&str; 6] = ["send", "receive", "connect", "accept", "encode", "decode"];

/// Tables that each calibration has, in the order in which they are written. A file that was cut off between two of them
/// lacks the rest, and what is not there would cost nothing.
const TABLES: [&str; 8] = ["host", "valid", "cpu", "pacing", "memory", "carriers", "work", "messages"];
/// Tables that each carrier has.
const CARRIER: [&str; 2] = ["send", "receive"];

/// Reads and checks a calibration.
///
/// # Errors
/// The file cannot be read, is no TOML, lacks a table, has a key that means nothing or a value that makes no sense; with
/// its line.
pub fn load_calibration(path: &Path) -> Result<Calibration, ScenarioErrors> {
    let name = path.display().to_string();
    let refuse = |reason: String| {
        let help = "`configs/calibration/default.toml` is one to begin with";
        ScenarioErrors::single(Problem::Calibration { path: name.clone(), reason }, None, Some(help))
    };
    let bytes = read_file(path).map_err(|problem| match problem {
        Problem::Unreadable { reason } => refuse(reason),
        other => refuse(other.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|why| refuse(why.to_string()))?;
    let sources = Sources::new(&name, text);
    let mut problems = Problems::new(&sources);
    let calibration = match toml::from_str::<Calibration>(sources.file()) {
        Ok(calibration) => calibration,
        Err(why) => {
            let at = why.span().unwrap_or(0..0);
            problems.at(&at, Problem::Syntax { reason: why.message().to_owned() });
            return Err(problems.pass().expect_err("a problem was noted"));
        }
    };
    if let Err(why) = calibration.check() {
        let at = place(sources.file(), &why.key);
        problems.helped(&at, Problem::Value { key: why.key, reason: why.reason }, None);
    }
    let (root, _) = DeTable::parse_recoverable(sources.file());
    for (table, at) in lacking(root.get_ref(), sources.file()) {
        let reason = "it is missing, and what is not there would cost nothing; was the file cut off?".to_owned();
        let help = match table.as_str() {
            "messages" => "write `[messages]` with `control = \"100us\"`, which is assumed otherwise".to_owned(),
            _ if table.contains('.') => format!("write `[{table}]` with `fixed_ns = 0` if it costs nothing"),
            _ => format!("write `[{table}]` with nothing in it if there is nothing to say"),
        };
        problems.helped(&at, Problem::Value { key: table, reason }, Some(help));
    }
    for (key, at) in silent(root.get_ref()) {
        let reason = "the table says nothing, and what is not said costs nothing".to_owned();
        let help = match key.as_str() {
            "messages" => "write for instance `control = \"100us\"`".to_owned(),
            _ => "write for instance `fixed_ns = 5000`".to_owned(),
        };
        problems.helped(&at, Problem::Value { key, reason }, Some(help));
    }
    problems.pass()?;
    Ok(calibration)
}

/// Tables that are missing, by their dotted names, and where they would follow.
fn lacking(root: &DeTable<'_>, text: &str) -> Vec<(String, Range<usize>)> {
    let end = text.trim_end().len()..text.trim_end().len();
    let mut found: Vec<(String, Range<usize>)> =
        TABLES.iter().filter(|name| root.get(**name).is_none()).map(|name| ((*name).to_owned(), end.clone())).collect();
    let Some(DeValue::Table(carriers)) = root.get("carriers").map(toml::Spanned::get_ref) else { return found };
    for (name, value) in carriers {
        let DeValue::Table(carrier) = value.get_ref() else { continue };
        let missing = CARRIER.iter().filter(|table| carrier.get(**table).is_none());
        found.extend(missing.map(|table| (format!("carriers.{}.{table}", name.get_ref()), value.span())));
    }
    found
}

/// Tables of costs without a key, by their dotted names: a file that was cut off ends in one.
fn silent(root: &DeTable<'_>) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let mut open: Vec<(String, &DeTable<'_>)> = vec![(String::new(), root)];
    while let Some((name, table)) = open.pop() {
        for (key, value) in table {
            let DeValue::Table(inner) = value.get_ref() else { continue };
            let key = if name.is_empty() { key.get_ref().to_string() } else { format!("{name}.{}", key.get_ref()) };
            let last = key.rsplit('.').next().unwrap_or_default();
            if inner.is_empty() && (COSTS.contains(&last) || key == "messages") {
                found.push((key.clone(), value.span()));
            }
            open.push((key, inner));
        }
    }
    found
}

/// Where the value of a dotted key stands; the nearest table around it if it was left out.
fn place(text: &str, key: &str) -> Range<usize> {
    let (root, _) = DeTable::parse_recoverable(text);
    let mut at = 0..0;
    let mut table = root.get_ref().clone();
    for part in key.split('.') {
        let Some(value) = table.get(part).cloned() else { break };
        at = value.span();
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    at
}
