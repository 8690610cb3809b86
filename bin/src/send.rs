//! `rehearsal send`: an experiment of one sender and one target outside, made of flags, and run like any other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use rehearsal_scenario::{Experiment, LoadOptions, parse};
use toml::{Table, Value};

use crate::cli::{Cli, Send, Verb};
use crate::emulate;
use crate::exit::UsageError;
use crate::registry::registry;

mod once;

/// Connections, if nothing is said. Assumed: what a browser or two open to one host.
const CONNECTIONS: u32 = 10;
/// How long a run takes, if nothing is said: what a verdict asks for at least.
const DURATION: &str = "10s";

/// Runs the verb.
///
/// # Errors
/// What stops it before or while it runs.
pub fn send(args: Send) -> Result<ExitCode> {
    let experiment = experiment(&args)?;
    if args.once {
        return once::once(&args, experiment);
    }
    // every other flag of `emulate` as it is by itself
    let Verb::Emulate(mut wishes) = Cli::try_parse_from(["rehearsal", "emulate", "send"])?.verb else {
        anyhow::bail!("`emulate` is a verb");
    };
    let scratch = Scratch::new();
    wishes.allow = args.allow;
    wishes.force = args.force;
    wishes.output = args.output;
    if wishes.output.out.is_none() {
        wishes.output.out = Some(scratch.bundle());
        wishes.output.scratch = true;
    }
    emulate::run_one(&wishes, experiment)
}

/// A folder that goes with the run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        Scratch(std::env::temp_dir().join(format!("rehearsal-send-{}", std::process::id())))
    }

    fn bundle(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // fails if nothing was kept there, as with --out
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The experiment that the flags describe, read like a file: so its errors are those of files.
fn experiment(args: &Send) -> Result<Experiment> {
    if !args.url.contains("://") {
        return Err(UsageError(format!("`{0}` is no URL; write for instance http://{0}", args.url)).into());
    }
    let text = toml::to_string(&file(args)?).context("what was typed can be written as TOML")?;
    let base = std::env::current_dir().unwrap_or_default();
    let options = LoadOptions { base: Some(base), ..LoadOptions::default() };
    Ok(parse(Path::new("the command line"), text, &registry(), &options)?)
}

fn file(args: &Send) -> Result<Table> {
    let mut experiment = Table::new();
    experiment.insert("name".into(), "send".into());
    match (&args.duration, args.requests) {
        (None, Some(_)) => experiment.insert("stop".into(), "all-requests-done".into()),
        (duration, _) => experiment.insert("duration".into(), duration.as_deref().unwrap_or(DURATION).into()),
    };
    let mut actor = sender(args);
    actor.insert("request".into(), Value::Table(request(args)?));
    let mut file = Table::new();
    file.insert("experiment".into(), Value::Table(experiment));
    let mut actors = Table::new();
    actors.insert("main".into(), Value::Table(actor));
    let mut node = Table::new();
    node.insert("actors".into(), Value::Table(actors));
    let mut nodes = Table::new();
    nodes.insert("send".into(), Value::Table(node));
    file.insert("nodes".into(), Value::Table(nodes));
    let mut thresholds = Table::new();
    for limit in &args.threshold {
        let (name, limit) = threshold(limit)?;
        thresholds.insert(name.to_owned(), limit.into());
    }
    file.insert("thresholds".into(), Value::Table(thresholds));
    Ok(file)
}

/// Who sends, and how fast.
fn sender(args: &Send) -> Table {
    let connections = i64::from(args.connections.unwrap_or(CONNECTIONS));
    // no connection without a request
    let connections =
        args.requests.map_or(connections, |all| connections.min(i64::try_from(all).unwrap_or(i64::MAX)).max(1));
    let mut actor = Table::new();
    actor.insert("kind".into(), "client".into());
    let (url, _) = url(args);
    actor.insert("to".into(), url.into());
    actor.insert("retries".into(), 0.into());
    actor.insert("timeout".into(), args.timeout.as_str().into());
    match &args.rate {
        // one schedule for all: evenly spaced over the connections together
        Some(rate) => {
            actor.insert("rate".into(), rate.as_str().into());
            actor.insert("in_flight".into(), connections.into());
        }
        None => _ = actor.insert("streams".into(), connections.into()),
    }
    if let Some(requests) = args.requests {
        let streams = if args.rate.is_some() { 1 } else { connections.unsigned_abs() };
        let each = requests.div_ceil(streams).max(1);
        actor.insert("requests".into(), i64::try_from(each).unwrap_or(i64::MAX).into());
    }
    actor
}

/// The URL, and its path apart where something is filled in.
fn url(args: &Send) -> (&str, Option<&str>) {
    let after = args.url.find("://").map_or(0, |at| at + 3);
    let path = args.url[after..].find('/').map(|at| after + at);
    match path.filter(|at| args.url[*at..].contains('{')) {
        Some(at) => (&args.url[..at], Some(&args.url[at..])),
        None => (&args.url, None),
    }
}

fn request(args: &Send) -> Result<Table> {
    let mut request = Table::new();
    if let Some(method) = &args.method {
        request.insert("method".into(), method.as_str().into());
    }
    if let (_, Some(path)) = url(args) {
        request.insert("path".into(), path.into());
    }
    let mut headers = Table::new();
    for text in &args.headers {
        let (name, value) = text.split_once(':').ok_or_else(|| {
            UsageError(format!("--header: `{text}` has no colon; write for instance `accept: text/html`"))
        })?;
        headers.insert(name.trim().to_owned(), value.trim().into());
    }
    request.insert("headers".into(), Value::Table(headers));
    let mut body = Table::new();
    if let Some(text) = &args.body {
        body.insert("template".into(), text.as_str().into());
    } else if let Some(path) = &args.body_file {
        body.insert("file".into(), path.display().to_string().into());
    } else if let Some(bytes) = &args.body_bytes {
        body.insert("generator".into(), "json".into());
        body.insert("bytes".into(), bytes.as_str().into());
    }
    if !body.is_empty() {
        request.insert("body".into(), Value::Table(body));
    }
    let mut expect = Table::new();
    expect.insert("status".into(), args.expect.iter().map(|code| i64::from(*code)).collect::<Vec<_>>().into());
    if let Some(text) = &args.expect_body {
        expect.insert("body_contains".into(), text.as_str().into());
    }
    request.insert("expect".into(), Value::Table(expect));
    Ok(request)
}

/// `response.p99<100ms` as a file has it.
fn threshold(text: &str) -> Result<(&str, &str), UsageError> {
    let at = text.find(['<', '>', '=']).ok_or_else(|| {
        UsageError(format!("--threshold: `{text}` compares nothing; write for instance `response.p99<100ms`"))
    })?;
    Ok((text[..at].trim(), text[at..].trim()))
}
