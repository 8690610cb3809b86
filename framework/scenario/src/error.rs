//! What can be wrong with an experiment, where it stands, and what to write instead.

use std::fmt;
use std::ops::Range;

use rehearsal_core::subject::SubjectError;
use thiserror::Error;

use crate::printable::{Excerpt, printable};
use crate::source::{Place, Sources};

/// Most errors that are shown at once; the rest is counted.
pub const ERRORS_MAX: usize = 20;

/// What is wrong.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot read the experiment: {reason}")]
    Unreadable {
        /// What the system says.
        reason: String,
    },
    /// A calibration cannot be read.
    #[error("cannot read the calibration {path}: {reason}")]
    Calibration {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The file is not what an experiment could be.
    #[error("the file is larger than {max} bytes")]
    Large {
        /// The bound.
        max: u64,
    },
    /// The file is not text.
    #[error("byte {offset} (value {value:#04x}) is not UTF-8")]
    NotUtf8 {
        /// Offset of the first bad byte.
        offset: usize,
        /// The byte.
        value: u8,
    },
    /// The text is not TOML.
    #[error("{reason}")]
    Syntax {
        /// What the parser says.
        reason: String,
    },
    /// A key that means nothing here.
    #[error("unknown key `{key}` in {table}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands.
        table: String,
    },
    /// A key that must be there.
    #[error("{table} lacks the key `{key}`")]
    MissingKey {
        /// The key.
        key: String,
        /// Where it is missing.
        table: String,
    },
    /// A value that cannot stand there.
    #[error("`{key}`: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with its value.
        reason: String,
    },
    /// A name that the grammar of subjects does not allow.
    #[error("{what} name: {reason}")]
    Name {
        /// Whose name.
        what: &'static str,
        /// What is wrong with it.
        reason: SubjectError,
    },
    /// A name that is kept for something else.
    #[error("`{name}` cannot be the name of {what}: {reason}")]
    Reserved {
        /// Whose name.
        what: &'static str,
        /// The name.
        name: String,
        /// Who has it.
        reason: String,
    },
    /// A reference to something that is not there.
    #[error("there is no {what} `{name}`")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A target that takes no traffic.
    #[error("`{to}` cannot receive: {reason}")]
    NoReceiver {
        /// The target.
        to: String,
        /// Why not.
        reason: String,
    },
    /// Keys that contradict each other, or a rule over several keys that is broken.
    #[error("{reason}")]
    Rule {
        /// The rule.
        reason: String,
    },
    /// An option of the command line that cannot be followed.
    #[error("{flag}: {reason}")]
    Flag {
        /// The option.
        flag: &'static str,
        /// Why not.
        reason: String,
    },
}

/// One error in an experiment.
#[derive(Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Where it stands; `None` if it stands nowhere in particular.
    pub place: Option<Place>,
    /// What is wrong.
    pub problem: Problem,
    /// What to do about it.
    pub help: Option<String>,
}

/// All that is wrong with an experiment, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct ScenarioErrors {
    /// The first [`ERRORS_MAX`].
    pub errors: Vec<ScenarioError>,
    /// How many more there are.
    pub more: usize,
}

impl std::error::Error for ScenarioError {}
impl std::error::Error for ScenarioErrors {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else {
            f.write_str(&printable(&self.problem.to_string()))?;
            return self.help.iter().try_for_each(|help| write!(f, "\n  help: {}", printable(help)));
        };
        write!(f, "{place}: {}", printable(&self.problem.to_string()))?;
        let number = if place.is_file { place.line.to_string() } else { String::new() };
        let margin = number.len();
        let Excerpt { text, indent, width } = Excerpt::new(&place.text, place.column, place.width);
        write!(f, "\n {number} | {text}")?;
        write!(f, "\n {:margin$} | {:indent$}{}", "", "", "^".repeat(width))?;
        self.help.iter().try_for_each(|help| write!(f, "\n {:margin$} help: {}", "", printable(help)))
    }
}

impl fmt::Display for ScenarioErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n\n" })?;
        }
        if self.more > 0 {
            write!(f, "\n\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// Collects errors while reading goes on.
#[derive(Debug)]
pub(crate) struct Problems<'s> {
    sources: &'s Sources,
    found: Vec<ScenarioError>,
}

impl<'s> Problems<'s> {
    pub(crate) fn new(sources: &'s Sources) -> Self {
        Problems { sources, found: Vec::new() }
    }

    /// Notes an error at a span.
    pub(crate) fn at(&mut self, span: &Range<usize>, problem: Problem) {
        self.helped(span, problem, None);
    }

    /// Notes an error at a span with what to do about it.
    pub(crate) fn helped(&mut self, span: &Range<usize>, problem: Problem, help: Option<String>) {
        let error = ScenarioError { place: Some(self.sources.place(span)), problem, help };
        if !self.found.contains(&error) {
            self.found.push(error);
        }
    }

    /// A rule over several keys is broken.
    pub(crate) fn rule(&mut self, span: &Range<usize>, reason: impl Into<String>, help: Option<&str>) {
        self.helped(span, Problem::Rule { reason: reason.into() }, help.map(str::to_owned));
    }

    /// Notes an error of the command line.
    pub(crate) fn flag(&mut self, flag: &'static str, reason: impl Into<String>, help: Option<String>) {
        let problem = Problem::Flag { flag, reason: reason.into() };
        self.found.push(ScenarioError { place: None, problem, help });
    }

    /// Where something is wrong so far.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.found.iter().filter_map(|error| error.place.clone()).collect()
    }

    /// Where a span is.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        self.sources.place(span)
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `Ok` if nothing is wrong so far, else everything that was noted.
    pub(crate) fn pass(&mut self) -> Result<(), ScenarioErrors> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut errors = std::mem::take(&mut self.found);
        errors.sort_by_key(|error| error.place.as_ref().map(|place| place.offset));
        let more = errors.len().saturating_sub(ERRORS_MAX);
        errors.truncate(ERRORS_MAX);
        Err(ScenarioErrors { errors, more })
    }
}

impl ScenarioErrors {
    /// A single error that stands nowhere in the text.
    pub(crate) fn single(problem: Problem, place: Option<Place>, help: Option<&str>) -> Self {
        let help = help.map(str::to_owned);
        ScenarioErrors { errors: vec![ScenarioError { place, problem, help }], more: 0 }
    }
}
