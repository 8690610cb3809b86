//! `rehearsal model`: the library of user models, and what one of them does and offers.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use rehearsal_core::rng::Seed;
use rehearsal_core::{RngStream, Span};
use rehearsal_models::diagram::figures::Trial;
use rehearsal_models::diagram::{Chain, Diagram, Figure, Stationary};
use rehearsal_scenario::{load_model, printable};

use crate::cli::{Model, ModelVerb, Show};
use crate::exit::UsageError;
use crate::report::print;

mod mix;
pub(crate) mod quality;
mod scatter;

/// Flows of a trial, about, and its users. Assumed: a mean of heavy-tailed pages to a few per cent, in a second or two.
const FLOWS: f64 = 20_000.0;
const PACKETS: f64 = 2e6;
const USERS: u32 = 200;
/// Bounds of a trial's virtual time, s: a minute, and a year.
const SECONDS: [f64; 2] = [60.0, 3.0e7];

/// Runs it.
///
/// # Errors
/// What is wrong with a model, or a folder that cannot be read.
pub fn model(args: &Model) -> Result<ExitCode> {
    match &args.verb {
        ModelVerb::List { folder } => list(folder)?,
        ModelVerb::Show(show) => self::show(show)?,
        ModelVerb::Users(mix) => print(&mix::users(mix)?)?,
        ModelVerb::Quality(args) => print(&quality::quality(args)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("{} cannot be read", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let mut text =
        format!("{:<26} {:>4} {:>8} {:>12} {:>12}  what\n", "model", "5QI", "delay", "per user", "in a flow");
    for path in &files {
        let diagram = load_model(path)?;
        let chain = Chain::new(&diagram).map_err(|why| UsageError(why.reason))?;
        let about = &diagram.about;
        let total = chain.stationary().map(|long| (long.total().bytes * 8.0, in_flow(&chain, &long)));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(
            text,
            "{:<26} {:>4} {:>8} {:>12} {:>12}  {}",
            printable(&name),
            about.five_qi.map_or(String::new(), |qi| qi.to_string()),
            about.delay_budget.map_or(String::new(), |delay| delay.to_string()),
            total.map_or("-".to_owned(), |(user, _)| bits(user)),
            total.and_then(|(_, flow)| flow).map_or("-".to_owned(), bits),
            printable(&about.title)
        );
    }
    if files.is_empty() {
        let _ = writeln!(text, "there is none in {}", folder.display());
    }
    print(&text)
}

/// Payload of a flow while it goes on, bit/s; of what waits for answers that is up to the network.
fn in_flow(chain: &Chain, long: &Stationary) -> Option<f64> {
    let talks = |row: &usize| chain.module_of(*row).is_some_and(|works| !works.module.kind.waits());
    let share: f64 = (0..chain.states.len()).filter(talks).map(|row| long.shares[row]).sum();
    let waits = chain.modules.iter().any(|works| works.module.kind.waits());
    (share > 0.0 && !waits).then(|| long.total().bytes * 8.0 / share)
}

fn show(args: &Show) -> Result<()> {
    let diagram = load_model(&args.file)?;
    if args.dot {
        return print(&diagram.dot());
    }
    if args.svg {
        return print(&diagram.svg());
    }
    let chain = Arc::new(Chain::new(&diagram).map_err(|why| UsageError(why.reason))?);
    let mut text = head(&diagram);
    let long = chain.stationary();
    match &long {
        Some(long) => text += &in_the_long_run(&chain, long, args.users),
        None => text += "\nThere is no long run: users end in a final state, or go by conditions.\n",
    }
    text += &against_published(&diagram, &chain, long.as_ref());
    if args.variance_time {
        text += &scatter::variance_time(&chain, args.users)?;
    }
    print(&text)
}

fn head(diagram: &Diagram) -> String {
    let about = &diagram.about;
    let mut text = printable(&about.title);
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = write!(text, "\n  {name:<14}{value}");
        }
    };
    line("source", printable(&about.source));
    line("direction", printable(&about.direction));
    line("5QI", about.five_qi.map_or(String::new(), |qi| qi.to_string()));
    line("delay budget", about.delay_budget.map_or(String::new(), |delay| delay.to_string()));
    line(
        "loss budget",
        about.loss_budget.map_or(String::new(), |loss| format!("{}%", (loss.percent() * 1e9).round() / 1e9)),
    );
    for assumed in &about.assumed {
        line("assumed", printable(assumed));
    }
    text + "\n"
}

fn in_the_long_run(chain: &Chain, long: &Stationary, users: u32) -> String {
    let many = f64::from(users);
    let mut text = format!(
        "\n{:<20} {:>12} {:>14}  {users} user{}\n",
        "state",
        "users",
        "visits/s",
        if users == 1 { "" } else { "s" }
    );
    for (row, state) in chain.states.iter().enumerate() {
        let module = chain.module_of(row).map_or(String::new(), |works| works.module.kind.word().to_owned());
        let (share, visits) = (long.shares[row] * many, long.visits[row] * many);
        let _ = writeln!(text, "{:<20} {share:>12.4} {visits:>14.6}  {module}", printable(&state.name));
    }
    let _ = writeln!(text, "\n{:<20} {:>12} {:>14} {:>14}", "module", "flows/s", "packets/s", "payload");
    for (works, offered) in chain.modules.iter().zip(&long.offered) {
        let (flows, packets) = (offered.flows * many, offered.packets * many);
        let payload = bits(offered.bytes * 8.0 * many);
        let _ = writeln!(text, "{:<20} {flows:>12.6} {packets:>14.4} {payload:>14}", printable(&works.name));
    }
    text
}

/// A trial without a network beside the published figures.
fn against_published(diagram: &Diagram, chain: &Arc<Chain>, long: Option<&Stationary>) -> String {
    if diagram.about.published.is_empty() {
        return String::new();
    }
    let trial = trial(chain, long);
    let mut text = format!("\n{:<16} {:>14} {:>14} {:>8}\n", "published", "value", "in a trial", "within");
    for published in &diagram.about.published {
        let (holds, found) = trial.holds(published);
        let name = name(published.figure);
        let verdict = if holds { "" } else { "  NOT MET" };
        let what = printable(&published.what);
        let _ = writeln!(
            text,
            "{name:<16} {:>14.6} {found:>14.6} {:>8}{verdict}  {what}",
            published.value, published.within
        );
    }
    text
}

/// A trial long enough for means, with a seed of its own.
pub fn trial(chain: &Arc<Chain>, long: Option<&Stationary>) -> Trial {
    let total = long.map(Stationary::total).unwrap_or_default();
    let by = |wanted: f64, rate: f64| if rate > 0.0 { wanted / (rate * f64::from(USERS)) } else { SECONDS[0] };
    let seconds = by(FLOWS, total.flows).min(by(PACKETS, total.packets)).clamp(SECONDS[0], SECONDS[1]);
    let seed = Seed { seed: 1, repetition: 0, group: "model", member: 0, stream: 0, purpose: "trial" };
    Trial::run(chain, USERS, Span::from_secs_f64(seconds), RngStream::new(seed))
}

fn name(figure: Figure) -> String {
    serde_json::to_value(figure).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A rate in the largest unit that leaves it above one.
fn bits(rate: f64) -> String {
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let unit = units.iter().find(|(_, scale)| rate >= *scale);
    unit.map_or_else(|| format!("{rate:.3} bit/s"), |(name, scale)| format!("{:.2} {name}", rate / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every model of the library meets the figures that its source publishes.
    #[test]
    fn models_meet_their_published_figures() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/models");
        let mut missed = Vec::new();
        for entry in fs::read_dir(library).expect("the library") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let diagram = load_model(&path).unwrap_or_else(|errors| panic!("{errors}"));
            let chain = Arc::new(Chain::new(&diagram).expect("a chain"));
            let trial = trial(&chain, chain.stationary().as_ref());
            assert!(trial.complete, "{}", path.display());
            for published in &diagram.about.published {
                let (holds, found) = trial.holds(published);
                if !holds {
                    missed.push(format!(
                        "{}: {:?} is {found}, not {}",
                        path.display(),
                        published.figure,
                        published.value
                    ));
                }
            }
        }
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}
