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
/// Requests of one connection at a time, where requests share it. Assumed: as many in all as above.
const STREAMS: u32 = 10;
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
    let options = LoadOptions { base: Some(base), files: true, ..LoadOptions::default() };
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
    let link = link(args)?;
    if !link.is_empty() {
        let links = Table::from_iter([("send->outside".to_owned(), Value::Table(link))]);
        file.insert("links".into(), Value::Table(links));
    }
    let mut thresholds = Table::new();
    for limit in &args.threshold {
        let (name, limit) = threshold(limit)?;
        thresholds.insert(name.to_owned(), limit.into());
    }
    file.insert("thresholds".into(), Value::Table(thresholds));
    Ok(file)
}

/// Whether requests share connections.
fn shares(args: &Send) -> bool {
    matches!(args.http.as_deref(), Some("2" | "3"))
}

/// Connections, and requests that each may have under way.
fn lanes(args: &Send) -> (u32, u32) {
    if shares(args) {
        (args.connections.unwrap_or(1), args.streams.unwrap_or(STREAMS))
    } else {
        (args.connections.unwrap_or(CONNECTIONS), 1)
    }
}

/// How the target is reached.
fn link(args: &Send) -> Result<Table> {
    let scheme = args.url.split("://").next().unwrap_or_default();
    let (http, encrypted) = (matches!(scheme, "http" | "https"), matches!(scheme, "https" | "tls" | "mqtts"));
    let mut link = Table::new();
    match args.http.as_deref() {
        Some(_) if !http => return Err(UsageError("--http is of http:// and https://".to_owned()).into()),
        Some("3") if !encrypted => {
            return Err(UsageError("--http 3 is always encrypted; write https://".to_owned()).into());
        }
        Some("2") => _ = link.insert("carrier".into(), "http2".into()),
        Some("3") => _ = link.insert("carrier".into(), "http3".into()),
        _ => {}
    }
    if shares(args) {
        let (connections, streams) = lanes(args);
        link.insert("connections".into(), i64::from(connections).into());
        link.insert("streams".into(), i64::from(streams).into());
    } else if args.streams.is_some() {
        return Err(
            UsageError("--streams is of --http 2 and --http 3; otherwise write --connections".to_owned()).into()
        );
    }
    let mut tls = Table::new();
    let files = [("ca", &args.ca), ("certificate", &args.cert), ("key", &args.key)];
    for (key, path) in files.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?))) {
        tls.insert(key.into(), path.display().to_string().into());
    }
    if args.insecure {
        tls.insert("insecure".into(), true.into());
    }
    if let Some(name) = &args.server_name {
        tls.insert("server_name".into(), name.as_str().into());
    }
    if !tls.is_empty() && !encrypted {
        let why = format!(
            "--ca, --cert, --key, --insecure and --server-name mean nothing to {scheme}://, which goes in clear"
        );
        return Err(UsageError(why).into());
    }
    if !tls.is_empty() {
        link.insert("tls".into(), Value::Table(tls));
    }
    Ok(link)
}

/// Who sends, and how fast.
fn sender(args: &Send) -> Table {
    let (connections, streams) = lanes(args);
    let at_once = i64::from(connections) * i64::from(streams);
    // no connection without a request
    let at_once = args.requests.map_or(at_once, |all| at_once.min(i64::try_from(all).unwrap_or(i64::MAX)).max(1));
    let mut actor = Table::new();
    actor.insert("kind".into(), "client".into());
    let (url, _) = url(args);
    actor.insert("to".into(), url.into());
    if let Some(rate) = &args.rate {
        actor.insert("rate".into(), rate.as_str().into());
    }
    if is_answered(args) {
        actor.insert("retries".into(), 0.into());
        actor.insert("timeout".into(), args.timeout.as_str().into());
        // one stream for all: a schedule is evenly spaced over the connections together, a count is kept to the one
        actor.insert("in_flight".into(), at_once.into());
    }
    if let Some(requests) = args.requests {
        actor.insert("requests".into(), i64::try_from(requests).unwrap_or(i64::MAX).into());
    }
    actor
}

/// Whether each request has an outcome that somebody tells.
fn is_answered(args: &Send) -> bool {
    match args.url.split("://").next() {
        Some("udp") => args.answer.as_deref().is_some_and(|answer| answer != "nothing"),
        Some("mqtt" | "mqtts") => args.qos != Some(0),
        _ => true,
    }
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
    if !headers.is_empty() {
        request.insert("headers".into(), Value::Table(headers));
    }
    if let Some(mqtt) = mqtt(args)? {
        request.insert("mqtt".into(), Value::Table(mqtt));
    }
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
    if let Some(text) = &args.answer {
        expect.insert("answer".into(), text.as_str().into());
    }
    request.insert("expect".into(), Value::Table(expect));
    Ok(request)
}

/// How messages go to a broker, if anything is said of it.
fn mqtt(args: &Send) -> Result<Option<Table>> {
    let mut mqtt = Table::new();
    if let Some(qos) = args.qos {
        mqtt.insert("qos".into(), i64::from(qos).into());
    }
    if let Some(user) = &args.user {
        mqtt.insert("user".into(), user.as_str().into());
    }
    if let Some(path) = &args.password_file {
        mqtt.insert("password_file".into(), path.display().to_string().into());
    }
    if !mqtt.is_empty() && !args.url.starts_with("mqtt") {
        return Err(UsageError("--qos, --user and --password-file are of mqtt:// and mqtts://".to_owned()).into());
    }
    Ok((!mqtt.is_empty()).then_some(mqtt))
}

/// `response.p99<100ms` as a file has it.
fn threshold(text: &str) -> Result<(&str, &str), UsageError> {
    let at = text.find(['<', '>', '=']).ok_or_else(|| {
        UsageError(format!("--threshold: `{text}` compares nothing; write for instance `response.p99<100ms`"))
    })?;
    Ok((text[..at].trim(), text[at..].trim()))
}
