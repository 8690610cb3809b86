//! Arrivals of senders: their traces are read from files, so that the experiment has them in itself, and all are checked.

use std::path::Path;

use rehearsal_core::arrivals::ROWS_MAX;
use rehearsal_core::time::Span;

use crate::draft::Draft;
use crate::error::{Problem, Problems};
use crate::load::read_file;

const HELP: &str = "write a duration in each row, such as `1.5ms`: times since the start, or gaps";

/// Puts every trace that a file holds into its sender, and tells of arrivals that cannot be.
pub(crate) fn load(draft: &mut Draft, base: &Path, problems: &mut Problems<'_>) {
    for actor in draft.nodes.iter_mut().flat_map(|node| &mut node.actors) {
        let Some(sender) = &mut actor.sender else { continue };
        let at = actor.actor.keys.at("arrivals");
        let Some(arrivals) = &mut sender.arrivals else { continue };
        if sender.rate.is_some() {
            let help = "keep `rate` for an even pace, or `arrivals`, which has a rate of its own";
            problems.rule(at, "`rate` and `arrivals` exclude each other", Some(help));
            continue;
        }
        if arrivals.file.is_some() && !arrivals.trace.is_empty() {
            problems.rule(at, "`file` and `trace` exclude each other", Some("keep one of them"));
            continue;
        }
        if let Some(file) = arrivals.file.take() {
            let read = read_file(&base.join(&file)).map_err(|problem| problem.to_string());
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
            match text.map_err(|why| (0, why)).and_then(|text| rows(&text)) {
                Ok(rows) => arrivals.trace = rows,
                Err((line, why)) => {
                    let place = if line > 0 { format!("{file}:{line}") } else { file };
                    let problem = Problem::Value { key: "arrivals".to_owned(), reason: format!("{place}: {why}") };
                    problems.helped(at, problem, Some(HELP.to_owned()));
                    continue;
                }
            }
        }
        if let Err(reason) = arrivals.course() {
            problems.at(at, Problem::Value { key: "arrivals".to_owned(), reason });
        }
    }
}

/// The rows of a trace, or the line that is none and why. Empty lines and those that begin with `#` are skipped.
fn rows(text: &str) -> Result<Vec<Span>, (usize, String)> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if rows.len() == ROWS_MAX {
            return Err((number, format!("there are more than {ROWS_MAX} rows")));
        }
        rows.push(line.parse().map_err(|why| (number, format!("{why}")))?);
    }
    if rows.is_empty() { Err((0, "there is no row".to_owned())) } else { Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_none_is_told_by_its_line() {
        let ms = Span::from_millis;
        assert_eq!(rows("# measured\n10ms\n\n 1.5s \n"), Ok(vec![ms(10), ms(1500)]));
        let many = "1ms\n".repeat(ROWS_MAX + 1);
        for (text, line, why) in
            [("", 0, "no row"), ("10ms\n10", 2, "no unit"), ("# x\n-1s", 2, "-1s"), (&many, ROWS_MAX + 1, "more than")]
        {
            let (at, told) = rows(text).expect_err("it is wrong");
            assert!(at == line && told.contains(why), "{at} {told}");
        }
    }
}
