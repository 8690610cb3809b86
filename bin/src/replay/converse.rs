//! `rehearsal replay --interactive`: conversations between two interfaces, in one process or two.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rehearsal_export::verdict::Status;
use rehearsal_replay::Editor;
use rehearsal_replay::converse::{self, Cast, ConverseError, Hours, Loss, Manners, Nets, Pace, Place, Split, Thinking};
use rehearsal_replay::edit::Laps;
use rehearsal_replay::frame;
use rehearsal_replay::timing::wait::{Ended, Stop};

use super::folder::Folder;
use super::source::Source;
use super::{DOUBTED, time};
use crate::cli::{Converse, Format, HalfOf, Replay, SendPath, SplitBy};
use crate::exit::{Refused, UsageError};
use crate::report::{chain, print};
use crate::signals::Signals;
use crate::template::edits;
use crate::unfinished::Unfinished;

mod record;
mod text;

use record::Record;

/// Replays conversations.
///
/// # Errors
/// When it does not begin. What happens later is told in the result.
pub fn run(args: &Replay) -> Result<ExitCode> {
    let wish = &args.converse;
    let hours = hours(args)?;
    let places = places(args)?;
    let source = Source::open(&args.place, &args.what)?;
    let editor = editor(args, &source)?;
    let nets = Nets { clients: wish.clients.clone(), servers: wish.servers.clone() };
    let split = match wish.split {
        SplitBy::Hosts => Split::Hosts,
        SplitBy::Streams => Split::Streams,
    };
    let cast = Cast::new(&source.template, editor.as_ref().map(Into::into), split, wish.conversations, &nets);
    let cast = cast.map_err(|why| UsageError(chain(&why)))?;
    let folder = args.out.as_deref().map(Folder::create).transpose()?;
    let stop = Arc::new(Stop::new());
    let ending = Arc::clone(&stop);
    let signals = Signals::draining(Unfinished::default(), move || ending.set(Ended::Asked))?;
    let conversed = converse::converse(&cast, &places, hours, &stop, |interfaces| {
        if !args.quiet {
            let notes = editor.as_ref().map(Editor::notes).unwrap_or_default();
            let text = text::ahead(&source, &cast, &hours, interfaces, notes);
            // when nobody reads it, the replay is no worse
            let _ = write!(std::io::stderr(), "{text}");
        }
    });
    let conversed = conversed.map_err(refused)?;
    let record = Record::of(&source, editor.as_ref(), split, &hours, &conversed);
    let json = serde_json::to_string_pretty(&record).context("a record can be written as JSON")?;
    let told = text::summary(&record);
    if let Some(folder) = folder {
        folder.add("conversations.csv", |to| text::table(&conversed, to))?;
        folder.finish(&json, &told)?;
    }
    print(if args.format == Format::Json { &json } else { &told })?;
    let status = record.verdict.status;
    let doubted = status == Status::Invalid || args.strict && status == Status::Degraded;
    let code = signals.code().or(doubted.then_some(DOUBTED));
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Where halves are: the client's and the server's.
fn places(args: &Replay) -> Result<[Option<Place>; 2]> {
    let wish = &args.converse;
    if !matches!(args.target.path, SendPath::Auto | SendPath::Packet) {
        return Err(UsageError("--interactive sends through a packet socket; leave --path out".to_owned()).into());
    }
    let Some(interface) = args.target.interface.clone() else {
        return Err(UsageError("--interactive needs an interface; write --interface NAME".to_owned()).into());
    };
    let here = Place { interface, space: None, next_hop: mac("--next-hop", wish.next_hop.as_deref())? };
    match (wish.half, &wish.peer) {
        (Some(HalfOf::Client), _) => Ok([Some(here), None]),
        (Some(HalfOf::Server), _) => Ok([None, Some(here)]),
        (None, Some(peer)) => {
            let next_hop = mac("--peer-next-hop", wish.peer_next_hop.as_deref())?;
            let peer = Place { interface: peer.clone(), space: wish.peer_in.clone(), next_hop };
            Ok([Some(here), Some(peer)])
        }
        (None, None) => {
            let text = "--interactive has two halves; write --peer NAME for the interface of the servers, or --half client \
                        here and --half server where these are";
            Err(UsageError(text.to_owned()).into())
        }
    }
}

fn mac(flag: &str, text: Option<&str>) -> Result<Option<[u8; 6]>> {
    let read = |text: &str| {
        frame::mac(text).ok_or_else(|| {
            UsageError(format!("{flag}: `{text}` is no Ethernet address; write such as 02:00:00:00:00:01"))
        })
    };
    Ok(text.map(read).transpose()?)
}

/// When packets go, and what becomes of those that do not come.
fn hours(args: &Replay) -> Result<Hours> {
    let (times, wish) = (&args.times, &args.converse);
    let above = |flag: &str, value: Option<f64>| match value {
        Some(value) if !(value.is_finite() && value > 0.0) => {
            Err(UsageError(format!("{flag}: {value}; write a number above 0")))
        }
        value => Ok(value),
    };
    let rate = above("--pps", times.pps)?;
    let speed = above("--speed", times.speed)?;
    let factor = (rate.is_none() && !times.top_speed).then_some(speed.unwrap_or(1.0));
    let thinking = Thinking { factor, most: time("--limit-gap", times.limit_gap.as_deref())? };
    let timeout = time("--timeout", Some(&wish.timeout))?.unwrap_or_default();
    Ok(Hours {
        pace: rate.map_or(Pace::Thinking, |per_second| Pace::Rate { per_second }),
        manners: Manners { thinking, loss: loss(wish)?, timeout },
        start_rate: above("--start-rate", wish.start_rate)?,
        concurrent: wish.concurrent,
        duration: time("--duration", times.duration.as_deref())?,
        real_time: !times.ordinary,
    })
}

/// `resend=3,after=200ms` or `give-up`.
fn loss(wish: &Converse) -> Result<Loss> {
    let wrong = |what: &str| {
        UsageError(format!("--loss {}: {what}; write such as resend=3,after=200ms, or give-up", wish.loss))
    };
    let mut loss = Loss { resend: 3, after: 200_000_000 };
    if wish.loss == "give-up" {
        return Ok(Loss { resend: 0, ..loss });
    }
    for part in wish.loss.split(',') {
        match part.split_once('=') {
            Some(("resend", times)) => {
                let times = times.parse().ok().filter(|times| (1..=1000).contains(times));
                loss.resend = times.ok_or_else(|| wrong("resend is 1 to 1000"))?;
            }
            Some(("after", text)) => {
                let after = time("--loss", Some(text))?.filter(|after| *after > 0);
                loss.after = after.ok_or_else(|| wrong("after is a time above 0"))?;
            }
            _ => return Err(wrong(&format!("`{part}` is neither resend nor after")).into()),
        }
    }
    Ok(loss)
}

/// What is changed in copies of packets; hosts that are drawn are each copy's own.
fn editor(args: &Replay, source: &Source) -> Result<Option<Editor>> {
    let mut edit = edits::read(&args.edits)?;
    if args.converse.conversations.is_some() && !edit.random_hosts.is_empty() {
        edit.laps = Laps::Unique;
    }
    let editor = (!edit.is_empty()).then(|| Editor::new(&edit, &source.template)).transpose();
    editor.map_err(|why| UsageError(chain(&why)).into())
}

fn refused(why: ConverseError) -> anyhow::Error {
    Refused(chain(&why)).into()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn args(words: &[&str]) -> Replay {
        let before = ["rehearsal", "replay", "c.pcap", "--interactive", "--interface", "va"];
        match Cli::parse_from([&before[..], words].concat()).verb {
            Verb::Replay(args) => *args,
            _ => unreachable!("it was written"),
        }
    }

    #[test]
    fn a_policy_for_losses_is_read() {
        let of = |text: &str| loss(&args(&["--loss", text]).converse).map_err(|why| why.to_string());
        assert_eq!(of("resend=5,after=1s"), Ok(Loss { resend: 5, after: 1_000_000_000 }));
        assert_eq!(of("after=50ms"), Ok(Loss { resend: 3, after: 50_000_000 }));
        assert_eq!(of("give-up"), Ok(Loss { resend: 0, after: 200_000_000 }));
        for (text, says) in
            [("again", "neither"), ("resend=0", "1 to 1000"), ("after=0s", "above 0"), ("after=x", "--loss")]
        {
            assert!(of(text).is_err_and(|why| why.contains(says)), "{text}");
        }
    }

    #[test]
    fn halves_are_both_here_or_one() {
        let here = |words: &[&str]| places(&args(words)).map(|places| places.map(|place| place.is_some()));
        assert_eq!(here(&["--peer", "vb"]).ok(), Some([true, true]));
        assert_eq!(here(&["--half", "client"]).ok(), Some([true, false]));
        assert_eq!(here(&["--half", "server"]).ok(), Some([false, true]));
        assert!(here(&[]).is_err_and(|why| why.to_string().contains("--peer NAME")));
        assert!(here(&["--peer", "vb", "--path", "udp"]).is_err());
        let next = places(&args(&["--half", "client", "--next-hop", "02:00:00:00:00:07"])).expect("places");
        assert_eq!(next[0].as_ref().and_then(|place| place.next_hop), Some([2, 0, 0, 0, 0, 7]));
        assert!(here(&["--half", "client", "--next-hop", "there"]).is_err());
    }
}
