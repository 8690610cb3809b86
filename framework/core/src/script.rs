//! Scripts: requests that users make one after the other, with values taken from earlier answers and rows of a file, and
//! checks of what is answered.
//!
//! A step's request is text with places: `{NAME}` is a value that an answer gave the user, a column of its row, or one of
//! `{user}`, `{seq}`, `{member}`, `{time}` and `{uuid}`. What answers give is kept here, with the payloads' recipe: the carrier
//! that renders a request looks it up, and the one that reads the answer puts it in. A dry run has no answers: there a value is
//! taken to be as long as the step says.
//!
//! | room | what happens there |
//! |---|---|
//! | [`spec`] | a step as it is written, and what cannot be |
//! | [`text`] | text with places |
//! | [`rows`] | rows of a file |
//! | [`take`] | values out of answers |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::kind::BuildError;
use crate::payload::{Recipe, RenderContext};

pub mod rows;
pub mod spec;
pub mod take;
pub mod text;

pub use rows::Rows;
pub use spec::{ExtractSpec, StepSpec, Which};
pub use take::Taking;
pub use text::{Text, Values};

use text::Form;

/// The key of a population under which its steps stand.
const KEY: &str = "diagram";
/// Longest value that is taken from an answer, bytes. Assumed: a signed token with its claims has less.
pub const VALUE_BYTES_MAX: usize = 8192;
/// Most values of one script.
pub const VALUES_MAX: usize = 32;
/// Bits of a turn's number below the user's.
const USER_BITS: u32 = 32;
/// Bits of a turn's number below the step's.
const STEP_BITS: u32 = 56;

/// The steps of a diagram, and what its users know.
#[derive(Debug)]
pub struct Script {
    steps: Vec<Step>,
    /// Names of values that answers give.
    names: Vec<String>,
    /// Users of one instance, at most.
    users: u32,
    /// By instance and user.
    known: Mutex<BTreeMap<(u32, u32), Known>>,
}

/// One request.
#[derive(Debug)]
pub struct Step {
    /// The method.
    pub method: String,
    path: Text,
    headers: Vec<(String, Text)>,
    body: Text,
    json: bool,
    rows: Option<(Arc<Rows>, Which)>,
    takes: Vec<(usize, Taking)>,
    /// Bytes that each value is taken to have where it is not known, by its row in the names.
    assumed: Vec<u32>,
    /// Codes of a success; without any, 2xx.
    pub status: Vec<u16>,
    contains: Option<Text>,
    /// Bytes of the answer, as far as they can be asked for.
    pub answer: u32,
}

/// Whose request it is, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The instance.
    pub member: u32,
    /// The user within it.
    pub user: u32,
    /// Row of the step.
    pub step: u16,
    /// How often the user was at this step before.
    pub count: u32,
}

/// What a user knows.
#[derive(Debug, Default)]
struct Known {
    /// What it is about: answers to anything else are too late.
    turn: Option<(u16, u32)>,
    values: Vec<Option<Box<str>>>,
}

/// A request, written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Path and query.
    pub path: Vec<u8>,
    /// Values of the step's headers, in the order of [`Script::headers`].
    pub headers: Vec<Vec<u8>>,
    /// What the answer must hold.
    pub contains: Option<Vec<u8>>,
}

impl Turn {
    /// The number of its payload, which holds all but the instance.
    pub const fn number(self) -> u64 {
        (self.user as u64) << USER_BITS | self.count as u64
    }

    /// The turn of an instance's payload at a step.
    pub const fn of(member: u32, step: u16, number: u64) -> Turn {
        Turn { member, user: (number >> USER_BITS) as u32, step, count: number as u32 }
    }

    /// A number that no other turn of its instance has.
    const fn unique(self) -> u64 {
        (self.step as u64) << STEP_BITS ^ self.number()
    }
}

impl Script {
    /// Makes steps ready, each with its state's name. `file` reads a file of rows.
    ///
    /// # Errors
    /// The first thing in a step that cannot be.
    pub fn new(
        specs: &[(&str, &StepSpec)],
        users: u32,
        file: &mut dyn FnMut(&str) -> Result<Bytes, BuildError>,
    ) -> Result<Script, BuildError> {
        let mut names: Vec<String> = Vec::new();
        let mut assumed = Vec::new();
        for (name, extract) in specs.iter().flat_map(|(_, spec)| &spec.extract) {
            if !names.contains(name) {
                names.push(name.clone());
                assumed.push(extract.bytes());
            }
        }
        if names.len() > VALUES_MAX {
            let reason = format!("the steps take {} values from answers, at most {VALUES_MAX} are kept", names.len());
            return Err(BuildError::of(KEY, reason));
        }
        let mut files: BTreeMap<&str, Arc<Rows>> = BTreeMap::new();
        let mut steps = Vec::new();
        for (state, spec) in specs {
            let wrong = |reason: String| BuildError::of(KEY, format!("state `{state}`: {reason}"));
            if let Some((_, reason)) = spec.faults().into_iter().next() {
                return Err(wrong(reason));
            }
            let rows = match spec.rows.as_deref() {
                None => None,
                Some(path) => {
                    if !files.contains_key(path) {
                        let bytes = file(path).map_err(|why| wrong(format!("`rows`: {}", why.reason)))?;
                        let rows = Rows::read(&bytes).map_err(|why| wrong(format!("{path}: {why}")))?;
                        files.insert(path, Arc::new(rows));
                    }
                    files.get(path).map(|rows| (Arc::clone(rows), spec.take))
                }
            };
            steps.push(Step::new(spec, &names, assumed.clone(), rows).map_err(wrong)?);
        }
        Ok(Script { steps, names, users, known: Mutex::default() })
    }

    /// The step in a row.
    pub fn step(&self, step: u16) -> &Step {
        &self.steps[usize::from(step)]
    }

    /// Names of a step's headers.
    pub fn headers(&self, step: u16) -> impl Iterator<Item = &str> {
        self.step(step).headers.iter().map(|(name, _)| name.as_str())
    }

    /// A user begins a step; the bytes of its request's body.
    pub fn begin(&self, turn: Turn) -> u32 {
        let step = self.step(turn.step);
        if self.names.is_empty() && step.body.plain().is_some() {
            return step.body.plain().map_or(0, |text| text.len() as u32);
        }
        let mut known = self.lock();
        if !step.takes.is_empty() || known.contains_key(&(turn.member, turn.user)) {
            known.entry((turn.member, turn.user)).or_default().turn = Some((turn.step, turn.count));
        }
        drop(known);
        let mut body = BytesMut::new();
        self.body(turn, 0, &mut body);
        body.len() as u32
    }

    /// Appends the body of a request.
    pub fn body(&self, turn: Turn, epoch_ns: u64, out: &mut BytesMut) {
        let step = self.step(turn.step);
        let form = if step.json { Form::Json } else { Form::Plain };
        self.with(turn, epoch_ns, |values| step.body.render(values, form, out));
    }

    /// Everything of a request but its body.
    pub fn write(&self, turn: Turn, epoch_ns: u64) -> Written {
        let step = self.step(turn.step);
        self.with(turn, epoch_ns, |values| {
            let written = |text: &Text, form| {
                let mut out = BytesMut::new();
                text.render(values, form, &mut out);
                out.to_vec()
            };
            Written {
                path: written(&step.path, Form::Path),
                headers: step.headers.iter().map(|(_, text)| written(text, Form::Header)).collect(),
                contains: step.contains.as_ref().map(|text| written(text, Form::Plain)),
            }
        })
    }

    /// Takes what a step wants from an answer: whether all of it is there. `header` finds a header of it.
    pub fn hear<'h>(&self, turn: Turn, header: &dyn Fn(&str) -> Option<&'h [u8]>, body: &[u8]) -> bool {
        let step = self.step(turn.step);
        if step.takes.is_empty() {
            return true;
        }
        let mut document = None;
        let taken: Option<Vec<(usize, Box<str>)>> = step
            .takes
            .iter()
            .map(|(row, taking)| Some((*row, taking.from(header, body, &mut document)?.into_boxed_str())))
            .collect();
        let Some(taken) = taken else { return false };
        let mut known = self.lock();
        let Some(user) = known.get_mut(&(turn.member, turn.user)) else { return true };
        if user.turn == Some((turn.step, turn.count)) {
            user.values.resize(self.names.len(), None);
            for (row, value) in taken {
                user.values[row] = Some(value);
            }
        }
        true
    }

    /// Calls `with` with what a user knows.
    fn with<T>(&self, turn: Turn, epoch_ns: u64, with: impl FnOnce(&Values<'_>) -> T) -> T {
        let step = self.step(turn.step);
        let number = u64::from(turn.member) * u64::from(self.users) + u64::from(turn.user);
        let all = u64::from(self.users).max(1);
        let row = step.rows.as_ref().map(|(rows, which)| {
            let turns = if *which == Which::Next { u64::from(turn.count).wrapping_mul(all) } else { 0 };
            rows.row(number.wrapping_add(turns))
        });
        let known = self.lock();
        let known = known.get(&(turn.member, turn.user)).map_or(&[][..], |known| &known.values);
        let unique = turn.unique();
        let (member, count) = (turn.member, turn.count);
        with(&Values { known, assumed: &step.assumed, row, user: number, count, member, unique, epoch_ns })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u32), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Step {
    fn new(
        spec: &StepSpec,
        names: &[String],
        assumed: Vec<u32>,
        rows: Option<(Arc<Rows>, Which)>,
    ) -> Result<Step, String> {
        let columns = rows.as_ref().map_or(&[][..], |(rows, _)| rows.columns());
        let read = |text: &str| Text::read(text, names, columns);
        let body = spec.body.as_deref().unwrap_or_default();
        let headers = spec.headers.iter().map(|(name, text)| Ok((name.to_ascii_lowercase(), read(text)?)));
        let expect = spec.expect.clone().unwrap_or_default();
        let takes = spec.extract.iter().map(|(name, extract)| {
            let row = names.iter().position(|known| known == name).unwrap_or(0);
            Ok((row, Taking::new(extract)?))
        });
        Ok(Step {
            method: spec.method().to_owned(),
            path: read(spec.path())?,
            headers: headers.collect::<Result<_, String>>()?,
            body: read(body)?,
            json: spec.is_json(),
            takes: takes.collect::<Result<_, String>>()?,
            assumed,
            status: expect.status,
            contains: expect.body_contains.as_deref().map(read).transpose()?,
            answer: spec.answer_bytes(),
            rows,
        })
    }

    /// Whether it takes something from its answers.
    pub fn takes(&self) -> bool {
        !self.takes.is_empty()
    }

    /// Names of the headers that it takes values from.
    pub fn headers_taken(&self) -> impl Iterator<Item = &str> {
        self.takes.iter().filter_map(|(_, taking)| match taking {
            Taking::Header(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether an answer must hold something.
    pub fn looks(&self) -> bool {
        self.contains.is_some() || self.takes()
    }

    /// Bytes of its body where nothing is known of a user, and of the first row.
    pub fn usual_body_bytes(&self) -> u32 {
        let row = self.rows.as_ref().map(|(rows, _)| rows.row(0));
        let mut out = BytesMut::new();
        let form = if self.json { Form::Json } else { Form::Plain };
        let values = Values { assumed: &self.assumed, row, ..Values::NOBODY };
        self.body.render(&values, form, &mut out);
        out.len() as u32
    }
}

/// The bodies of one step.
#[derive(Debug)]
pub struct StepBody {
    /// The script that it is of.
    pub script: Arc<Script>,
    /// Its row there.
    pub step: u16,
}

impl Recipe for StepBody {
    fn content_type(&self) -> &'static str {
        if self.script.step(self.step).json { "application/json" } else { "text/plain" }
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        self.script.body(Turn::of(cx.member, self.step, cx.seq), cx.epoch_ns, out);
    }

    fn step(&self) -> Option<(&Arc<Script>, u16)> {
        Some((&self.script, self.step))
    }
}

#[cfg(test)]
mod tests;
