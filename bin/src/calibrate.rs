//! `rehearsal calibrate`: what sending and receiving costs on this host, from short real runs; and how well dry runs with a
//! calibration meet real runs at loads that it was not made from. With `--nats` every agent of a fleet does the first.
//!
//! ```text
//!   plan: carrier × size × (as much as possible, half of it, idle) ──measure──> tries that pass the gate
//!         ──fit──> lines through medians, ways ──made──> calibration.toml
//!   check: held-out points ──runner──> real run and dry run ──compare──> errors of each try
//! ```

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_scenario::load_calibration;

use crate::agents::calibrate as agents;
use crate::cli::{Calibrate, Way};
use crate::exit::{Refused, UsageError};
use crate::facts::unix_ns;
use crate::report::print;
use crate::room::Room;

mod check;
mod cores;
mod fit;
mod gate;
mod host;
mod made;
mod measure;
mod plan;
mod runner;
mod shape;

use gate::Gate;
use made::Made;
use measure::{Effort, Session};
use runner::Runner;

/// Runs `calibrate`.
///
/// # Errors
/// When a file is in the way, nothing could be measured, or a run fails.
pub fn calibrate(args: &Calibrate) -> Result<ExitCode> {
    if let Some(file) = &args.check {
        if args.nats.nats.is_some() {
            let text = "--check runs on this host; take --nats away, or call it on each of the others";
            return Err(UsageError(text.to_owned()).into());
        }
        return check::check(args, file);
    }
    if let Some(settings) = args.nats.settings()? {
        return fleet(args, &settings);
    }
    if args.out.exists() {
        let text = "exists already and is never overwritten; choose another name with --out";
        return Err(Refused(format!("{} {text}", args.out.display())).into());
    }
    let room = room()?;
    let mut session = Session::new(Runner::within(room.path())?, Effort::of(args.quick), args.anyway, args.quiet);
    let mut made = Made::on(host::identity());
    for way in ways(args, &mut session, &mut made)? {
        let seconds = session.seconds();
        match plan::measure(&mut session, way)? {
            Some(found) => made.add(&found, room.path(), session.runner.cores, seconds)?,
            None => made
                .remarks
                .push(format!("{way:?}: no try passed the gate at two sizes; it is left out").to_lowercase()),
        }
    }
    let gated = session.tries.iter().all(|tried| !tried.used || tried.objections.is_empty());
    let scaling = host::scaling(session.runner.cores, args.anyway);
    let made = made.finish(&session, gated, scaling);
    if made.calibration.carriers.is_empty() {
        return Err(Refused(busy(&session)).into());
    }
    made.calibration.check().context("what was measured makes no sense")?;
    write(&args.out, &page(&made, &session, gated)?)?;
    print(&told(&made, &session, &args.out))?;
    Ok(ExitCode::SUCCESS)
}

/// Every agent calibrates its host; gives one file each.
fn fleet(args: &Calibrate, settings: &ConnectSettings) -> Result<ExitCode> {
    let way = |way: &Way| way.to_possible_value().map(|value| value.get_name().to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let order = rehearsal_core::fleet::Calibrate {
        order: format!("{host}-{}-{}", std::process::id(), unix_ns()),
        leader: format!("{host}, process {}", std::process::id()),
        quick: args.quick,
        anyway: args.anyway,
        ways: args.carrier.iter().filter_map(way).collect(),
    };
    let (mut text, mut failed) = (String::new(), Vec::new());
    for (agent, outcome) in agents::calibrate(settings, &order, args.quiet)? {
        let path = agents::named(&args.out, &agent);
        let written = outcome.and_then(|file| write(&path, &file).map_err(|why| format!("{why:#}")));
        match written {
            Ok(()) => _ = writeln!(text, "{agent}: {}\nwritten: {}", load_calibration(&path)?.title(), path.display()),
            Err(why) => failed.push(format!("{agent}: {why}")),
        }
    }
    print(&text)?;
    if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Refused(failed.join("\n")).into()) }
}

/// The ways that are measured; what cannot be is remarked.
fn ways(args: &Calibrate, session: &mut Session, made: &mut Made) -> Result<Vec<Way>> {
    let all = [Way::Http1, Way::Udp, Way::Nats];
    let mut ways: Vec<Way> =
        all.into_iter().filter(|way| args.carrier.is_empty() || args.carrier.contains(way)).collect();
    if ways.contains(&Way::Nats) && !session.runner.serve()? {
        if args.carrier.contains(&Way::Nats) {
            return Err(Refused(
                "there is no nats-server on this host; leave `--carrier nats` out, or set NATS_SERVER".to_owned(),
            )
            .into());
        }
        ways.retain(|way| *way != Way::Nats);
        made.remarks.push("nats: there is no server on this host; it is left out".to_owned());
    }
    Ok(ways)
}

/// Why there is no calibration.
fn busy(session: &Session) -> String {
    let worst = session.tries.iter().find(|tried| !tried.objections.is_empty());
    let why = worst.map_or_else(|| "no run had a measured second".to_owned(), |tried| tried.objections.join("; "));
    format!(
        "nothing is written: of {} tries none could be used at two sizes of one carrier ({why}). Calibrate on a host that does \
         nothing else, or try it out with --anyway",
        session.tries.len()
    )
}

/// The file: how it came about in comments, then the costs.
fn page(made: &Made, session: &Session, gated: bool) -> Result<String> {
    let Gate { steal_percent_max, other_cores_max, wall_per_cpu_max } = Gate::FIXED;
    let mut text = format!(
        "# What sending and receiving cost on this host, from short real runs over the loopback; made by `rehearsal calibrate`.\n\
         # Expect it to hold for this host alone, for JSON readings (a receiver parses them whole; pictures are only looked at),\n\
         # and for the loads under [valid]. `simulate --calibration FILE` takes it, `calibrate --check FILE` tries it.\n#\n\
         # Gate: at most {steal_percent_max} % stolen, {other_cores_max} cores used by others, {wall_per_cpu_max} times its CPU time \
         for a computation. {}\n#\n",
        if gated { "All that was used has passed it." } else { "NOT HELD: tries that failed it were used (--anyway)." }
    );
    for remark in &made.remarks {
        let _ = writeln!(text, "# {remark}");
    }
    text.push_str("#\n# every try: point: rate, CPU load of sender and receiver; used, or why not\n");
    for tried in &session.tries {
        let cell = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.0}"));
        let verdict = match (tried.used, tried.objections.is_empty()) {
            (true, true) => "used".to_owned(),
            (true, false) => format!("used all the same: {}", tried.objections.join("; ")),
            (false, _) => format!("not used: {}", tried.objections.join("; ")),
        };
        let [rate, sender, receiver] = [tried.rate, tried.sender_cpu_percent, tried.receiver_cpu_percent].map(cell);
        let _ = writeln!(text, "# {}: {rate}/s, {sender} % and {receiver} %; {verdict}", tried.point);
    }
    text.push('\n');
    text.push_str(&toml::to_string(&made.calibration).context("a calibration can be written as TOML")?);
    Ok(text)
}

/// Writes a file that must not be there.
fn write(path: &Path, text: &str) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.map_err(|why| Refused(format!("{} cannot be written: {why}", path.display())))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

fn told(made: &Made, session: &Session, path: &Path) -> String {
    let used = session.tries.iter().filter(|tried| tried.used).count();
    let failed = session.tries.iter().filter(|tried| !tried.objections.is_empty()).count();
    let mut text = format!("{}\n", made.calibration.title());
    for remark in &made.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    let _ = writeln!(text, "{} tries, {used} used, {failed} failed the gate", session.tries.len());
    let _ = writeln!(text, "written: {}", path.display());
    text
}

/// A folder for bundles that nobody keeps.
fn room() -> Result<Room> {
    Room::within(&std::env::temp_dir(), "rehearsal-calibrate")
}
