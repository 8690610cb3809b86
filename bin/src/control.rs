//! `rehearsal control`: acts on a run that goes on, on this host by a socket in the user's runtime folder, on another
//! host by the run's NATS server.

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use rehearsal_bus::nats::{ConnectSettings, Nats};
use rehearsal_core::message::{Body, Header};
use rehearsal_core::steer::{Answer, Ask, Steering};
use rehearsal_core::subject::{Plane, check_token, subject};
use rehearsal_core::units::{Rate, UnitError};

use crate::cli::{Action, Control, Emulate};
use crate::exit::{Refused, UsageError};
use crate::processes;
use crate::report::chain;

mod desk;
mod place;

pub use desk::{Desk, Reply};

/// How long a run may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest line that either side reads, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Runs the verb.
///
/// # Errors
/// When the run does not answer, or refuses.
pub fn control(args: &Control) -> Result<ExitCode> {
    if args.run == "list" && args.action == Action::Status {
        return list();
    }
    let ask = Ask { id: 0, node: args.node.clone(), step: step(args)? };
    // a run on this host needs no server, and the variable that names one may be set for other verbs
    let runs = place::runs()?;
    let is_here = runs.contains(&args.run);
    if let (false, Ok(action)) = (is_here, Action::from_str(&args.run, false)) {
        return Err(UsageError(nameless(&runs, action)).into());
    }
    let (accepted, text) = match args.nats.settings()?.filter(|_| !is_here) {
        Some(settings) => from_afar(&settings, &args.run, &ask)?,
        None => here(&args.run, &ask)?,
    };
    if !accepted {
        return Err(Refused(text).into());
    }
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the desk of a run, and says how to act on it. A run without one goes on.
pub fn open(run: &str, args: &Emulate, server: &processes::Nats, control: &rehearsal_emu::Control) -> Option<Desk> {
    let placement = args.placement.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
    let nats = server.settings().map(|settings| settings.shown());
    let (pid, text) = (std::process::id(), String::new());
    let known = Reply { run: run.to_owned(), pid, placement, nats, accepted: false, text };
    match Desk::open(known, control.clone()) {
        Ok(desk) => {
            if !args.output.quiet {
                eprintln!("run {run}; control it with: rehearsal control {run} pause|resume|rate|stop");
            }
            Some(desk)
        }
        Err(why) => {
            eprintln!("note: `rehearsal control` cannot find this run here: {why:#}");
            None
        }
    }
}

/// Somebody said what to do, and not with which run.
fn nameless(runs: &[String], action: Action) -> String {
    let word = action.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
    match runs {
        [] => format!("which run? Its name comes before `{word}`; none of this user goes on here"),
        [run] => format!("which run? Its name comes before `{word}`, such as: rehearsal control {run} {word}"),
        several => format!("which run? Its name comes before `{word}`; these go on here: {}", several.join(", ")),
    }
}

/// What is asked for; `None` asks how the run stands.
fn step(args: &Control) -> Result<Option<Steering>, UsageError> {
    let value = args.value.as_deref();
    if value.is_some() && args.action != Action::Rate {
        return Err(UsageError("only `rate` takes a value, such as `rate 0.5` or `rate 40/s`".to_owned()));
    }
    Ok(Some(match args.action {
        Action::Status => return Ok(None),
        Action::Pause => Steering::Pause,
        Action::Resume => Steering::Resume,
        Action::Stop => Steering::Stop,
        Action::Rate => rate(value)?,
    }))
}

fn rate(value: Option<&str>) -> Result<Steering, UsageError> {
    let example = "write a factor such as `rate 0.5`, or a rate for each stream such as `rate 40/s`";
    let Some(value) = value else { return Err(UsageError(format!("`rate` needs a value: {example}"))) };
    if let Ok(factor) = value.parse::<f64>() {
        if factor.is_finite() && factor > 0.0 {
            return Ok(Steering::Factor(factor));
        }
        return Err(UsageError(format!("`{value}` is no factor above zero; to send nothing, `pause`")));
    }
    let rate: Result<Rate, _> = value.parse();
    rate.map(Steering::Rate).map_err(|why| {
        UsageError(match why {
            UnitError::Range { .. } => why.to_string(),
            _ => format!("`{value}` is neither a factor nor a rate; {example}"),
        })
    })
}

/// Tells which runs of this user answer.
fn list() -> Result<ExitCode> {
    let ask = Ask { id: 0, node: None, step: None };
    let mut lines = Vec::new();
    for run in place::runs()? {
        if let Ok(reply) = ask_desk(&place::socket(&run)?, &ask) {
            let Reply { run, pid, placement, nats, text, .. } = reply;
            let nats = nats.map(|url| format!(", {url}")).unwrap_or_default();
            lines.push(format!("{run}  process {pid}, {placement}{nats}: {text}"));
        }
    }
    if lines.is_empty() {
        eprintln!("no run of this user goes on here");
    }
    lines.iter().try_for_each(|line| say(line))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks a run on this host.
fn here(name: &str, ask: &Ask) -> Result<(bool, String)> {
    let runs = place::runs()?;
    let mut found = runs.iter().filter(|run| run.as_str() == name);
    let mut begin = runs.iter().filter(|run| run.starts_with(name));
    let run = match (found.next(), begin.next(), begin.next()) {
        (Some(run), ..) | (None, Some(run), None) => run,
        (None, Some(one), Some(other)) => {
            return Err(Refused(format!("several runs begin with `{name}`, among them {one} and {other}")).into());
        }
        (None, None, _) => {
            let known = if runs.is_empty() { "none does".to_owned() } else { runs.join(", ") };
            let text = format!("no run `{name}` goes on here ({known}); for one on another host, give --nats");
            return Err(Refused(text).into());
        }
    };
    let reply = ask_desk(&place::socket(run)?, ask).map_err(|why| Refused(format!("{run} does not answer: {why}")))?;
    Ok((reply.accepted, format!("{run}: {}", reply.text)))
}

/// Asks the desk of a run.
fn ask_desk(socket: &Path, ask: &Ask) -> std::io::Result<Reply> {
    let mut stream = place::connect(socket)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(serde_json::from_str(&desk::line(stream)?)?)
}

/// Asks a run on another host, by its server.
fn from_afar(settings: &ConnectSettings, run: &str, ask: &Ask) -> Result<(bool, String)> {
    check_token(run).map_err(|why| UsageError(format!("`{run}` is no run: {why}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (nats, _queue) = Nats::connect(settings, "rehearsal control").await.map_err(|why| Refused(chain(&why)))?;
        let name = subject(run, Plane::Control, "viewer", "control", "ask");
        let header = Header { run, from: "viewer.control", ..Header::default() };
        let payload = Body::new(ask.clone()).to_wire(&header);
        let answer = nats.request(&name, payload, PATIENCE).await;
        let answer = answer.map_err(|why| Refused(format!("no run `{run}` answers there: {}", chain(&why))))?;
        let answer = Body::from_wire(answer);
        let answer = answer.get::<Answer>().context("the answer cannot be read")?;
        Ok((answer.accepted, format!("{run}: {}", answer.text)))
    })
}

fn say(line: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_factor_or_a_rate() {
        assert_eq!(rate(Some("0.5")), Ok(Steering::Factor(0.5)));
        assert_eq!(rate(Some("40/s")), Ok(Steering::Rate(Rate::per_second(40))));
        for bad in [None, Some("0"), Some("-1"), Some("nan"), Some("fast"), Some("0/s")] {
            let why = rate(bad).expect_err("no rate").0;
            assert!(why.contains("40/s") || why.contains("pause") || why.contains("above zero"), "{why}");
        }
        let why = rate(Some("banana")).expect_err("no rate").0;
        assert_eq!(why.matches("banana").count() + why.matches("; ").count(), 2, "one message: {why}");
    }
}
