//! Edits as they are written: a file with a table `[edit]`, and `--edit KEY=VALUE` over it.

use std::path::Path;

use anyhow::Result;
use rehearsal_replay::Edit;
use rehearsal_scenario::{FILE_BYTES_MAX, printable};
use serde::Deserialize;
use toml::{Table, Value};

use crate::cli::Edits;
use crate::exit::UsageError;

/// Keys that hold lists: each `--edit` adds to them.
const LISTS: [&str; 6] = ["ip", "mac", "nodes", "port", "random_hosts", "vlan"];

/// What a file of edits holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    edit: Edit,
}

/// Puts file and flags together.
///
/// # Errors
/// When the file cannot be read, or one of them says what is no edit.
pub fn read(args: &Edits) -> Result<Edit> {
    let mut table = match &args.edit_file {
        Some(path) => file(path)?,
        None => Table::new(),
    };
    for text in &args.edit {
        add(&mut table, text).map_err(UsageError)?;
    }
    let edit = Edit::deserialize(Value::Table(table));
    edit.map_err(|why| UsageError(format!("--edit: {}", printable(&why.message().trim().replace('\n', ", ")))).into())
}

fn file(path: &Path) -> Result<Table> {
    let shown = path.display();
    let size = std::fs::metadata(path).map_err(|why| UsageError(format!("{shown}: {why}")))?.len();
    if size > FILE_BYTES_MAX {
        return Err(UsageError(format!("{shown} has {size} bytes; at most {FILE_BYTES_MAX} are read")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|why| UsageError(format!("{shown}: {why}")))?;
    let wrong = |why: toml::de::Error| {
        let (line, column) = place(&text, why.span().map_or(0, |span| span.start));
        UsageError(format!("{shown}:{line}:{column}: {}", printable(why.message())))
    };
    let page: Page = toml::from_str(&text).map_err(wrong)?;
    let written = Table::try_from(&page.edit);
    written.map_err(|why| UsageError(format!("{shown}: {}", printable(&why.to_string()))).into())
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line..].chars().count() + 1)
}

fn add(table: &mut Table, text: &str) -> Result<(), String> {
    let help = "write KEY=VALUE, such as ttl=-1 or \"ip=10.0.0.0/24 -> 192.0.2.0/24\"";
    let (key, value) = text.split_once('=').ok_or_else(|| format!("--edit {text}: {help}"))?;
    let (key, value) = (key.trim(), value.trim());
    // what is no TOML value is a text without quotes
    let parsed = toml::from_str::<Table>(&format!("v = {value}")).ok().and_then(|mut page| page.remove("v"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    if !LISTS.contains(&key) {
        table.insert(key.to_owned(), value);
        return Ok(());
    }
    let list = table.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return Err(format!("--edit {key}: the file has no list under this key")) };
    match value {
        Value::Array(more) => list.extend(more),
        one => list.push(one),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(edits: &[&str]) -> Result<Edit, String> {
        let args = Edits { edit: edits.iter().map(|text| (*text).to_owned()).collect(), edit_file: None };
        read(&args).map_err(|why| why.to_string())
    }

    #[test]
    fn flags_need_no_quotes_and_lists_grow() {
        let edit =
            of(&["ttl=-1", "vlan=pop", "vlan=push 7", "ip = [\"a -> b\", \"c -> d\"]", "dscp=EF", "pad=original"]);
        let edit = edit.expect("an edit");
        assert_eq!((edit.ttl, edit.vlan, edit.ip.len()), (Some(-1), vec!["pop".to_owned(), "push 7".to_owned()], 2));
        assert!(edit.pad.is_some() && edit.dscp.is_some());
        assert!(of(&[]).expect("no edit").is_empty());
    }

    #[test]
    fn what_is_no_edit_is_named() {
        for (text, part) in [
            ("ttl", "write KEY=VALUE"),
            ("tll=3", "unknown field `tll`"),
            ("ttl=high", "expected i16"),
            ("pad=much", "write \"original\" or a number"),
            ("checksums=maybe", "`repair`"),
        ] {
            let why = of(&[text]).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
