//! Figures that others published or that the user gives: rates and volumes that a file alone does not tell.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use rehearsal_core::units::Rate;

use crate::analysis::paper::Paper;
use crate::exit::UsageError;

/// What is known of an experiment from elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Requests per second, all senders together.
    pub rate: Option<(f64, String)>,
    /// Whether that rate was given on the command line.
    pub given: bool,
    /// Payload of a run in bytes.
    pub volume: Option<(f64, String)>,
}

/// What is known of all experiments.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    named: BTreeMap<String, Figure>,
    all: Option<f64>,
}

impl Figures {
    /// Those of the command line, `[NAME=]RATE`.
    ///
    /// # Errors
    /// When one is no rate.
    pub fn given(rates: &[String]) -> Result<Self, UsageError> {
        let mut figures = Figures::default();
        for text in rates {
            let (name, rate) = text.split_once('=').map_or((None, text.as_str()), |(name, rate)| (Some(name), rate));
            let rate = rate.trim().parse::<Rate>().map_err(|why| UsageError(format!("--rate {text}: {why}")))?.as_f64();
            match name {
                None => figures.all = Some(rate),
                Some(name) => {
                    let figure = figures.named.entry(name.trim().to_owned()).or_default();
                    (figure.rate, figure.given) = (Some((rate, "given by --rate".to_owned())), true);
                }
            }
        }
        Ok(figures)
    }

    /// Takes in a file of published figures, and says what it is; `None` if it is none. What is given outranks it.
    pub fn take(&mut self, path: &Path) -> Option<String> {
        let text = std::fs::read_to_string(path).ok()?;
        let is_one = text.parse::<toml::Table>().ok()?.contains_key("paper");
        let paper: Paper = if is_one { toml::from_str(&text).ok()? } else { return None };
        let count = paper.experiments.len();
        for published in paper.experiments {
            let figure = self.named.entry(published.experiment).or_default();
            if !figure.given {
                let source = format!("{}, {}", paper.paper.title, published.rate.source);
                figure.rate = Some((published.rate.mean, source));
            }
            let volume = published.volume.map(|v| (v.bytes, format!("{}, {}", paper.paper.title, v.source)));
            figure.volume = figure.volume.take().or(volume);
        }
        Some(format!(
            "{} is no experiment: its figures of {count} experiments are used as published rates and volumes",
            path.display()
        ))
    }

    /// Experiments that were named on the command line, for errors when there is no such one.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.named.iter().filter(|(_, figure)| figure.given).map(|(name, _)| name.as_str())
    }

    /// What is known of one.
    pub fn of(&self, experiment: &str) -> Figure {
        let mut figure = self.named.get(experiment).cloned().unwrap_or_default();
        if let Some(rate) = self.all.filter(|_| !figure.given) {
            (figure.rate, figure.given) = (Some((rate, "given by --rate".to_owned())), true);
        }
        figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/pl5g/paper.toml");

    #[test]
    fn what_is_given_outranks_what_is_published() {
        let mut figures = Figures::given(&["pl5g-a1=100/s".to_owned(), "pl5g-b1=60/min".to_owned()]).expect("rates");
        let note = figures.take(Path::new(PAPER)).expect("the paper's figures");
        assert!(note.contains("no experiment") && note.contains("9 experiments"), "{note}");
        let [a1, a2, b1] = ["pl5g-a1", "pl5g-a2", "pl5g-b1"].map(|name| figures.of(name));
        assert_eq!((a1.rate.as_ref().map(|r| r.0), a1.given), (Some(100.0), true));
        assert_eq!(b1.rate.as_ref().map(|r| r.0), Some(1.0));
        let (rate, source) = a2.rate.expect("published");
        assert_eq!(rate, 173.72);
        assert!(source.ends_with("Table 2, scenario A, experiment 2"), "{source}");
        assert_eq!(a2.volume.expect("published").0, 22e9);
        assert_eq!(figures.of("mine"), Figure::default());
    }

    #[test]
    fn a_rate_without_a_name_is_of_all() {
        let mut figures = Figures::given(&["50/s".to_owned()]).expect("a rate");
        figures.take(Path::new(PAPER));
        assert_eq!(["pl5g-a1", "mine"].map(|n| figures.of(n).rate.map(|r| r.0)), [Some(50.0); 2]);
        let error = Figures::given(&["pl5g-a1=50".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--rate pl5g-a1=50") && error.contains("no unit"), "{error}");
    }

    #[test]
    fn an_experiment_is_not_taken_for_figures() {
        let mut figures = Figures::default();
        assert_eq!(figures.take(&Path::new(PAPER).with_file_name("a1.toml")), None);
        assert_eq!(figures.take(Path::new("nowhere.toml")), None);
    }
}
