//! What is told of templates, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use rehearsal_bus::templates::Shared;
use rehearsal_export::Grid;
use rehearsal_replay::Template;
use rehearsal_replay::template::{Kept, Library, Stream};
use rehearsal_scenario::printable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::destination::civil;

/// A template that was just made: what became of each packet, and how to go on.
pub fn imported(kept: &Kept, template: &Template) -> String {
    let mut text = format!("{}\n", kept.called());
    ledger(&mut text, template);
    let _ = writeln!(text, "  {}", figures(template));
    let _ = writeln!(text, "\n`rehearsal template show {}` tells what it holds", kept.name);
    text
}

/// A template, in a page.
pub fn shown(called: &str, template: &Template, streams: usize) -> String {
    let (notes, overview) = (template.notes(), template.overview());
    let mut text = format!("{called}\n");
    if let Some(format) = &notes.format {
        let _ = writeln!(text, "  captured {} ({format})", date(notes.began));
    }
    if let Some(filter) = &notes.filter {
        let _ = writeln!(text, "  filter: {}", printable(filter));
    }
    ledger(&mut text, template);
    let _ = writeln!(text, "  {}", figures(template));
    let gap = overview.gap_seconds_max;
    let _ = writeln!(text, "  longest gap {}, largest frame {} B", seconds(gap), overview.frame_bytes_max);
    if overview.one_sided > 0 {
        let _ = writeln!(
            text,
            "  {} of {} streams have packets of one direction only",
            overview.one_sided, overview.streams
        );
    }
    for warning in &notes.ledger.warnings {
        let _ = writeln!(text, "  warning: {}", printable(warning));
    }
    let mut grid = Grid::new(&["protocol", "within", "streams", "packets", "bytes"]);
    for share in &overview.protocols {
        let count = [share.streams, share.packets, share.bytes].map(|n| n.to_string());
        grid.row([vec![share.protocol.clone(), dash(&share.within)], count.to_vec()].concat());
    }
    let _ = write!(text, "\n{grid}");
    let largest = largest(template, streams);
    if !largest.is_empty() {
        let mut grid =
            Grid::new(&["protocol", "client", "server", "packets", "back", "bytes", "back", "begins", "lasts"]);
        for (_, stream) in largest {
            let ends = [stream.carried.to_string(), stream.client.to_string(), stream.server.to_string()];
            let ([p, q], [b, c]) = (stream.packets, stream.bytes);
            let count = [p, q, b, c].map(|n| n.to_string());
            let (first, last) = (stream.first as f64 / 1e9, (stream.last - stream.first) as f64 / 1e9);
            grid.row([ends.to_vec(), count.to_vec(), vec![seconds(first), seconds(last)]].concat());
        }
        let _ = write!(text, "\n{grid}");
    }
    text
}

/// A template in the list.
#[derive(Debug, Serialize)]
pub struct Row {
    template: String,
    packets: u64,
    streams: u64,
    bytes: u64,
    duration_seconds: f64,
    /// When its first packet was captured, nanoseconds since 1970; 0 if it was not.
    captured_ns: u64,
    /// In the folder.
    here: bool,
    /// In the lab's library.
    shared: bool,
}

/// The templates of the folder and those of the lab, each once.
pub fn rows(here: &[(Kept, Template)], shared: &[Shared]) -> Vec<Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (kept, template) in here {
        let row = Row {
            template: kept.called(),
            packets: template.len().into(),
            streams: template.streams().len() as u64,
            bytes: template.bytes(),
            duration_seconds: template.duration() as f64 / 1e9,
            captured_ns: template.notes().began,
            here: true,
            shared: false,
        };
        rows.insert(kept.called(), row);
    }
    for Shared { called, facts, .. } in shared {
        let number = |key: &str| facts.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let row = rows.entry(called.clone()).or_insert_with(|| Row {
            template: called.clone(),
            packets: number("packets"),
            streams: number("streams"),
            bytes: number("bytes"),
            duration_seconds: number("duration_ns") as f64 / 1e9,
            captured_ns: number("captured_ns"),
            here: false,
            shared: true,
        });
        row.shared = true;
    }
    rows.into_values().collect()
}

/// All templates, a line for each.
pub fn list(library: &Library, rows: &[Row]) -> String {
    if rows.is_empty() {
        let folder = library.folder().display();
        return format!("no templates in {folder}; make one by `rehearsal template import FILE`\n");
    }
    let mut grid = Grid::new(&["template", "packets", "streams", "bytes", "duration", "captured, UTC", "where"]);
    for row in rows {
        let captured = if row.captured_ns == 0 { "-".to_owned() } else { date(row.captured_ns) };
        let place = match (row.here, row.shared) {
            (true, true) => "here, lab",
            (true, false) => "here",
            _ => "lab",
        };
        let count = [row.packets, row.streams, row.bytes].map(|n| n.to_string());
        let rest = [seconds(row.duration_seconds), captured, place.to_owned()];
        grid.row([vec![printable(&row.template)], count.to_vec(), rest.to_vec()].concat());
    }
    grid.to_string()
}

/// A template for programs.
///
/// # Errors
/// None that can happen: everything has a JSON form.
pub fn json(called: &str, template: &Template, streams: usize) -> Result<String> {
    let listed: Vec<Value> = largest(template, streams)
        .into_iter()
        .map(|(number, stream)| {
            let mut value = json!(stream);
            value["stream"] = number.into();
            value["within"] = stream.wrappings.to_string().into();
            value
        })
        .collect();
    let all = json!({
        "template": called,
        "notes": template.notes(),
        "overview": template.overview(),
        "streams": listed,
    });
    Ok(serde_json::to_string_pretty(&all)?)
}

fn ledger(text: &mut String, template: &Template) {
    let ledger = &template.notes().ledger;
    let _ =
        writeln!(text, "  {} packets read = {} loaded + {} left out", ledger.read, ledger.loaded, ledger.left_out());
    for (why, count) in &ledger.left {
        let _ = writeln!(text, "    {count} left out: {why}");
    }
    let notes = [
        (ledger.cut, "cut by the capture: what was kept of them is loaded"),
        (ledger.trimmed, "held more bytes than they had; the surplus is dropped"),
        (ledger.untimed, "have no time of their own: they got that of the one before"),
        (ledger.backward, "were older than one before; all are in order now"),
        (ledger.headed, "got an Ethernet header, which their link does not have"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "    {count} loaded packets {what}");
    }
}

fn figures(template: &Template) -> String {
    let duration = template.duration() as f64 / 1e9;
    let mut text = format!(
        "{} packets, {} streams, {} bytes in {}",
        template.len(),
        template.streams().len(),
        template.bytes(),
        seconds(duration)
    );
    if duration > 0.0 {
        let rate = f64::from(template.len()) / duration;
        let _ = write!(text, ": {rate:.1} packets/s, {:.3} Mbit/s", template.bytes() as f64 * 8e-6 / duration);
    }
    text
}

/// The streams with most bytes.
fn largest(template: &Template, most: usize) -> Vec<(usize, &Stream)> {
    let mut all: Vec<(usize, &Stream)> = template.streams().iter().enumerate().collect();
    all.sort_by_key(|(number, stream)| (std::cmp::Reverse(stream.bytes.iter().sum::<u64>()), *number));
    all.truncate(most);
    all
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 7_200.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{s:.6} s"),
    }
}

/// A date with nanoseconds, UTC.
fn date(unix_ns: u64) -> String {
    let (year, month, day, second) = civil(unix_ns / 1_000_000_000);
    let (hour, minute, second, rest) = (second / 3600, second / 60 % 60, second % 60, unix_ns % 1_000_000_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:09}Z")
}

fn dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
