//! Rate traces: files of rows of time and rate, which an experiment has in itself once it is loaded.

use std::path::Path;

use rehearsal_core::time::Span;
use rehearsal_core::units::BitRate;

use crate::draft::{Draft, LinkDraft};
use crate::error::{Problem, Problems};
use crate::load::read_file;

/// Rows of one trace. Assumed: a day in steps of a second.
pub(crate) const ROWS_MAX: usize = 86_400;

/// Puts every trace that a file holds into its link.
pub(crate) fn load(draft: &mut Draft, base: &Path, problems: &mut Problems<'_>) {
    let Draft { link, links, .. } = draft;
    for LinkDraft { link, keys, .. } in links.iter_mut().chain([link]) {
        let Some(file) = link.rate_trace.take() else { continue };
        let read = read_file(&base.join(&file)).map_err(|problem| problem.to_string());
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
        match text.map_err(|why| (0, why)).and_then(|text| rows(&text)) {
            Ok(rows) => link.rate_steps = rows,
            Err((line, why)) => {
                let place = if line > 0 { format!("{file}:{line}") } else { file };
                let problem = Problem::Value { key: "rate_trace".to_owned(), reason: format!("{place}: {why}") };
                problems.helped(keys.at("rate_trace"), problem, Some(HELP.to_owned()));
            }
        }
    }
}

const HELP: &str = "write a row for each change, such as `0s, 20Mbit/s`, in the order of time and from zero on";

/// The rows of a trace, or the line that is none and why. Empty lines and those that begin with `#` are skipped.
fn rows(text: &str) -> Result<Vec<(Span, BitRate)>, (usize, String)> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (time, rate) = line.split_once(',').ok_or_else(|| (number, format!("`{line}` is no time and rate")))?;
        let time: Span = time.trim().parse().map_err(|why| (number, format!("{why}")))?;
        let rate: BitRate = rate.trim().parse().map_err(|why| (number, format!("{why}")))?;
        rows.push((time, rate));
        order(&rows).map_err(|why| (number, why))?;
    }
    if rows.is_empty() { Err((0, "there is no row".to_owned())) } else { Ok(rows) }
}

/// Whether the last of these rows follows the one before it.
pub(crate) fn order(rows: &[(Span, BitRate)]) -> Result<(), String> {
    match rows {
        [(time, _)] if !time.is_zero() => Err(format!("the first row is at {time}, not at 0s")),
        [.., (before, _), (time, _)] if time <= before => Err(format!("{time} does not come after {before}")),
        rows if rows.len() > ROWS_MAX => Err(format!("there are more than {ROWS_MAX} rows")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_none_is_told_by_its_line() {
        let text = "# measured\n0s, 20Mbit/s\n\n500ms,1Mbit/s\n";
        assert_eq!(rows(text).map(|rows| rows.len()), Ok(2));
        let wrong = [
            ("", 0, "no row"),
            ("1s, 1Mbit/s", 1, "not at 0s"),
            ("0s, 1Mbit/s\n0s, 2Mbit/s", 2, "does not come after"),
            ("0s, 1Mbit/s\n# x\n1s 2Mbit/s", 3, "no time and rate"),
            ("0s, 0bit/s", 1, "above zero"),
            ("0s, -1Mbit/s", 1, "-1Mbit/s"),
            ("0, 1Mbit/s", 1, "no unit"),
        ];
        for (text, line, why) in wrong {
            let (at, told) = rows(text).expect_err(text);
            assert!(at == line && told.contains(why), "{text}: {at} {told}");
        }
    }
}
