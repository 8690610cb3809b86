//! `rehearsal replay`: a template on the wire, and what came of it.
//!
//! ```text
//!   source (library, file, capture) ─> far side listens ─> path is chosen ─> told ─> sent ─> judged ─> text, JSON, folder
//! ```

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rehearsal_core::Span;
use rehearsal_core::units::{BitRate, UnitError};
use rehearsal_export::verdict::Status;
use rehearsal_replay::Editor;
use rehearsal_replay::edit::Laps;
use rehearsal_replay::judge::judge;
use rehearsal_replay::receive::{Ear, Mode, Place};
use rehearsal_replay::send::{ChooseError, Kind, Wish};
use rehearsal_replay::timing::wait::{Ended, Stop};
use rehearsal_replay::timing::{Pace, Pacing, Rules, Schedule};
use rehearsal_replay::worker::{self, Crew, Material, ReplayError};

use crate::cli::{Format, Keeping, Receive, ReceiveAs, Replay, SendPath, Times};
use crate::exit::{Refused, UsageError};
use crate::report::{chain, print};
use crate::signals::Signals;
use crate::template::edits;
use crate::unfinished::Unfinished;

mod converse;
mod folder;
mod others;
mod record;
mod source;
mod text;
mod verdict;

use folder::Folder;
use record::Record;
use source::Source;

/// Exit code of a replay that is not to be trusted.
const DOUBTED: u8 = 20;

/// Runs the verb.
///
/// # Errors
/// When the template, the interface or a place for results cannot be had. What happens while packets are sent is no error: it
/// is told in the result.
pub fn replay(args: &Replay) -> Result<ExitCode> {
    if args.converse.interactive {
        return converse::run(args);
    }
    let source = Source::open(&args.place, &args.what)?;
    let laps = args.times.hold.map(|streams| streams.div_ceil(source.template.streams().len().max(1) as u64));
    let rules = rules(&args.times, laps)?;
    let crew = Crew {
        wish: Wish {
            path: kind(args.target.path),
            interface: args.target.interface.clone(),
            to: args.target.to,
            write: args.target.write.clone(),
        },
        rules,
        workers: args.target.workers,
        duration: time("--duration", args.times.duration.as_deref())?,
        real_time: !args.times.ordinary,
    };
    // what makes no sense is told before anything is touched
    let schedule = Schedule::new(&source.template, rules).map_err(|why| UsageError(why.to_string()))?;
    let editor = editor(args, &source, laps.is_some())?;
    let material = Material { template: &source.template, editor: editor.as_ref(), laps };
    let (mode, ear) = listen(&args.receive, &schedule, laps.is_some())?;
    // who sees the folder knows that somebody listens
    let folder = args.out.as_deref().map(Folder::create).transpose()?;
    let stop = Arc::new(Stop::new());
    let ending = Arc::clone(&stop);
    let signals = Signals::draining(Unfinished::default(), move || ending.set(Ended::Asked))?;
    let tell = |text: &str| {
        if !args.quiet {
            // when nobody reads it, the replay is no worse
            let _ = write!(std::io::stderr(), "{text}");
        }
    };
    let sent = match (&ear, crew.wish.path) {
        (None, Some(Kind::Others)) => {
            return Err(UsageError("the path `others` needs --receive: it only judges what arrives".to_owned()).into());
        }
        (Some(ear), Some(Kind::Others)) => {
            tell("listening: another program may send now\n");
            others::wait(ear, &schedule, crew.duration, &stop);
            worker::others(&source.template, rules)
        }
        _ => worker::replay(material, &crew, &stop, |chosen, schedule| {
            let notes = editor.as_ref().map(Editor::notes).unwrap_or_default();
            notes.iter().for_each(|note| tell(&format!("note: {note}\n")));
            tell(&text::ahead(&source, chosen, schedule, crew.duration));
        }),
    };
    let sent = sent.map_err(refused)?;
    let judgement = ear.map(|ear| judge(material, &sent, &ear.finish(), mode));
    let record = Record::of(&source, editor.as_ref(), &sent, judgement);
    let json = serde_json::to_string_pretty(&record).context("a record can be written as JSON")?;
    let told = text::summary(&record);
    if let Some(folder) = folder {
        folder.finish(&json, &told)?;
    }
    print(if args.format == Format::Json { &json } else { &told })?;
    let doubted = record.verdict.status == Status::Invalid || args.strict && record.verdict.status == Status::Degraded;
    let code = signals.code().or(doubted.then_some(DOUBTED));
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// What is changed in copies of packets; whoever holds streams needs new hosts in each loop.
fn editor(args: &Replay, source: &Source, holds: bool) -> Result<Option<Editor>> {
    let mut edit = edits::read(&args.edits)?;
    if holds {
        if edit.random_hosts.is_empty() {
            let text = "--hold needs hosts for its streams; write --edit random_hosts=10.0.0.0/8, or another network";
            return Err(UsageError(text.to_owned()).into());
        }
        edit.laps = Laps::Unique;
    }
    let editor = (!edit.is_empty()).then(|| Editor::new(&edit, &source.template)).transpose();
    editor.map_err(|why| UsageError(chain(&why)).into())
}

/// Listens at the far side, if that is wished; tells how arrivals are taken.
fn listen(receive: &Receive, schedule: &Schedule, holds: bool) -> Result<(Mode, Option<Ear>)> {
    let mode = match receive.receive_as {
        ReceiveAs::Auto if schedule.is_timed() => Mode::Frames,
        ReceiveAs::Auto if holds => Mode::Streams,
        ReceiveAs::Auto | ReceiveAs::Count => Mode::Count,
        ReceiveAs::Frames => Mode::Frames,
        ReceiveAs::Streams => Mode::Streams,
    };
    let Some(interface) = receive.receive.clone() else { return Ok((mode, None)) };
    let place = Place { interface, space: receive.receive_in.clone(), mode, redirected: !schedule.is_timed() };
    let ear = Ear::open(place).map_err(|why| Refused(chain(&why)))?;
    Ok((mode, Some(ear)))
}

/// When packets are sent, as it was typed.
fn rules(times: &Times, laps: Option<u64>) -> Result<Rules> {
    let bits = |text: &str| {
        let rate: BitRate = text.parse().map_err(|why: UnitError| UsageError(format!("--bps: {why}")))?;
        Ok::<_, UsageError>(Pace::Bits { per_second: rate.0 as f64 })
    };
    let pace = match (times.pps, times.bps.as_deref(), times.top_speed) {
        (Some(per_second), _, _) => Pace::Packets { per_second },
        (_, Some(text), _) => bits(text)?,
        (_, _, true) => Pace::TopSpeed,
        _ => Pace::Original { factor: times.speed.unwrap_or(1.0) },
    };
    Ok(Rules {
        pace,
        pacing: match times.pacing {
            Keeping::Absolute => Pacing::Absolute,
            Keeping::Dtrf => Pacing::Dtrf,
        },
        loops: times.loops.or(times.duration.is_none().then_some(laps.unwrap_or(1))),
        loop_gap: time("--loop-gap", times.loop_gap.as_deref())?,
        gap_max: time("--limit-gap", times.limit_gap.as_deref())?,
    })
}

fn kind(path: SendPath) -> Option<Kind> {
    match path {
        SendPath::Auto => None,
        SendPath::Packet => Some(Kind::Packet),
        SendPath::AfXdp => Some(Kind::AfXdp),
        SendPath::XdpLive => Some(Kind::XdpLive),
        SendPath::Udp => Some(Kind::Udp),
        SendPath::Pcap => Some(Kind::Pcap),
        SendPath::Others => Some(Kind::Others),
    }
}

/// Nanoseconds of a time that was typed.
fn time(flag: &str, text: Option<&str>) -> Result<Option<u64>> {
    let parsed = text.map(str::parse::<Span>).transpose();
    parsed.map(|span| span.map(Span::as_nanos)).map_err(|why: UnitError| UsageError(format!("{flag}: {why}")).into())
}

fn refused(why: ReplayError) -> anyhow::Error {
    match &why {
        ReplayError::Timing(_)
        | ReplayError::Choose(ChooseError::Interface { .. } | ChooseError::To | ChooseError::File) => {
            UsageError(chain(&why)).into()
        }
        _ => Refused(chain(&why)).into(),
    }
}
