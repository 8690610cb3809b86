//! A step of a user's script as a request: its method, path and headers, and what is wanted of its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use rehearsal_core::Recipe;
use rehearsal_core::script::{Script, Turn};

/// The steps of a run, by the rows of their recipes.
pub(crate) type Steps = BTreeMap<u16, Arc<StepForm>>;

/// What all requests of a step have in common.
#[derive(Debug)]
pub(crate) struct StepForm {
    script: Arc<Script>,
    step: u16,
    method: Method,
    headers: Vec<HeaderName>,
    /// Whether `headers` say what a body is.
    typed: bool,
}

/// A request of a step.
#[derive(Debug)]
pub(crate) struct Stepped {
    form: Arc<StepForm>,
    turn: Turn,
    pub(crate) path: Bytes,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What its answer must hold.
    pub(crate) contains: Option<Vec<u8>>,
}

/// The steps among a run's recipes.
pub(crate) fn steps(recipes: &[Arc<dyn Recipe>]) -> Steps {
    let of = |(row, recipe): (usize, &Arc<dyn Recipe>)| {
        let (script, step) = recipe.step()?;
        let headers: Vec<HeaderName> = script.headers(step).filter_map(|name| name.parse().ok()).collect();
        let form = StepForm {
            script: Arc::clone(script),
            step,
            // what a method and a header can be was checked with the file
            method: script.step(step).method.parse().unwrap_or(Method::GET),
            typed: headers.contains(&CONTENT_TYPE),
            headers,
        };
        Some((row as u16, Arc::new(form)))
    };
    recipes.iter().enumerate().filter_map(of).collect()
}

impl StepForm {
    /// The request with this number, of an instance.
    pub(crate) fn write(self: &Arc<StepForm>, member: u32, number: u64, epoch_ns: u64) -> Stepped {
        let turn = Turn::of(member, self.step, number);
        let written = self.script.write(turn, epoch_ns);
        let values = written.headers.into_iter().map(HeaderValue::try_from);
        let headers = self.headers.iter().cloned().zip(values);
        Stepped {
            form: Arc::clone(self),
            turn,
            path: written.path.into(),
            headers: headers.filter_map(|(name, value)| Some((name, value.ok()?))).collect(),
            contains: written.contains,
        }
    }
}

impl Stepped {
    pub(crate) fn method(&self) -> &Method {
        &self.form.method
    }

    /// Whether its headers say what its body is.
    pub(crate) fn is_typed(&self) -> bool {
        self.form.typed
    }

    /// Whether it has a header of this name, which then stands instead of the one that all requests have.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        self.form.headers.contains(name)
    }

    /// Codes of a success; without any, 2xx.
    pub(crate) fn status(&self) -> &[u16] {
        &self.form.script.step(self.turn.step).status
    }

    /// Whether the answer's body matters.
    pub(crate) fn looks(&self) -> bool {
        self.form.script.step(self.turn.step).looks()
    }

    /// Takes what it wants from an answer: whether all of it is there.
    pub(crate) fn hear(&self, headers: &[(HeaderName, HeaderValue)], body: &[u8]) -> bool {
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_bytes());
        self.form.script.hear(self.turn, &find, body)
    }

    /// The headers that its answer is asked for.
    pub(crate) fn wants(&self, name: &[u8]) -> bool {
        let script = &self.form.script;
        script.step(self.turn.step).headers_taken().any(|wanted| wanted.as_bytes().eq_ignore_ascii_case(name))
    }
}
