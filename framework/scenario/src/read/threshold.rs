//! Reads `[thresholds]`: a limit as text, or a table that may also end the run.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::check::article;
use crate::draft::Limit;
use crate::error::Problem;
use crate::threshold::{Threshold, ThresholdError, ThresholdTable};

impl Reader<'_, '_> {
    /// The limits, in the order of the file.
    pub(super) fn thresholds(&mut self, table: &DeTable<'_>) -> Vec<Limit> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut limits = Vec::new();
        for (key, value) in entries {
            let name: &str = key.get_ref();
            let read = match value.get_ref() {
                DeValue::String(text) => self.limit(name, text, &key.span(), &value.span()),
                DeValue::Table(table) if name.contains('.') => self.limit_table(name, &key.span(), table, value.span()),
                DeValue::Table(_) => {
                    let help = Some(format!("put the whole name in quotes: \"{name}.p99\" = \"<100ms\""));
                    let reason = "a threshold is one text, or a table with `limit`".into();
                    self.problems.helped(&key.span(), Problem::Value { key: name.to_owned(), reason }, help);
                    None
                }
                other => {
                    let help = Some("write for instance \"<100ms\"".to_owned());
                    let reason = format!("this is {}, not text", article(other));
                    self.problems.helped(&value.span(), Problem::Value { key: name.to_owned(), reason }, help);
                    None
                }
            };
            limits.extend(read.map(|threshold| Limit { threshold, span: key.span() }));
        }
        limits
    }

    fn limit(&mut self, name: &str, text: &str, key: &Range<usize>, value: &Range<usize>) -> Option<Threshold> {
        self.told(name, Threshold::read(name, text), key, value)
    }

    /// `{ limit = "<100ms", abort = true, after = "10s" }`.
    fn limit_table(
        &mut self,
        name: &str,
        key: &Range<usize>,
        table: &DeTable<'_>,
        span: Range<usize>,
    ) -> Option<Threshold> {
        let label = format!("threshold `{name}`");
        let shape = self.catalogue.threshold();
        let entry = self.entry::<ThresholdTable>(name, key.clone(), &label, table, &span, shape)?;
        let at = table.get("limit").map_or_else(|| span.clone(), Spanned::span);
        let threshold = self.limit(name, &entry.table.limit, key, &at)?;
        if entry.table.abort {
            return self.told(name, threshold.aborting(entry.table.after), key, &at);
        }
        if entry.keys.has("after") {
            let help = Some("write `abort = true` beside it, or leave it out");
            self.problems.rule(entry.keys.at("after"), "`after` means nothing without `abort`", help);
            return None;
        }
        Some(threshold)
    }

    fn told(
        &mut self,
        name: &str,
        read: Result<Threshold, ThresholdError>,
        key: &Range<usize>,
        value: &Range<usize>,
    ) -> Option<Threshold> {
        read.map_err(|error| {
            let span = if error.in_key { key } else { value };
            self.problems.helped(span, Problem::Value { key: name.to_owned(), reason: error.reason }, error.help);
        })
        .ok()
    }
}
