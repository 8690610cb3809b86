//! Conversations in words, and as a table.

use std::fmt::Write as _;
use std::io;

use rehearsal_replay::converse::{Cast, Conversed, Hours, Outcome, Pace, Times};
use rehearsal_replay::send::Interface;

use super::record::Record;
use crate::replay::source::Source;
use crate::replay::text::{number, time};

/// Conversations that are told one by one.
const STOPPED_TOLD: usize = 5;

/// What is going to happen, before anything is sent.
pub fn ahead(source: &Source, cast: &Cast<'_>, hours: &Hours, interfaces: &[&Interface], notes: &[String]) -> String {
    let mut text: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    let [client, server] = cast.packets();
    let scripts = cast.scripts();
    let _ = writeln!(
        text,
        "{}: {} conversations, {} in the template, {} packets of clients and {} of servers",
        source.called,
        number(cast.conversations().into()),
        number(scripts.all.len() as u64),
        number(client),
        number(server),
    );
    let _ = writeln!(text, "  pace:  {}", pace(hours));
    let [from, to] = cast.hosts(0);
    let [last_from, last_to] = cast.hosts(cast.conversations() - 1);
    let _ = writeln!(text, "  hosts: {from} and {to} are the first, {last_from} and {last_to} the last");
    let loss = hours.manners.loss;
    let policy = match loss.resend {
        0 => "nothing is sent again".to_owned(),
        times => format!("a block is sent again {} after no answer came, {times} times at most", time(loss.after)),
    };
    let _ = writeln!(text, "  loss:  {policy}; timed out after {}", time(hours.manners.timeout));
    let on: Vec<String> =
        interfaces.iter().map(|interface| format!("{} (MTU {})", interface.name, interface.mtu)).collect();
    let _ = writeln!(text, "  on:    {}; none of the hosts is this kernel's, so it resets nothing", on.join(" and "));
    let notes = [
        (scripts.left_out, "packets of the template are between no two hosts of IP, and left out"),
        (scripts.put_right, "handshakes were recorded with the answer first, and put right"),
        (scripts.silent, "packets cannot be told from others (pieces, or quoted addresses): nobody waits for them"),
    ];
    for (count, note) in notes.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "         {} {note}", number(count));
    }
    text
}

fn pace(hours: &Hours) -> String {
    match (hours.pace, hours.manners.thinking.factor) {
        (Pace::Rate { per_second }, _) => format!("{per_second} packets/s, each conversation in its order"),
        (_, None) => "each packet as soon as what it answers has arrived".to_owned(),
        (_, Some(1.0)) => "each packet when what it answers has arrived, and its side has thought".to_owned(),
        (_, Some(factor)) => {
            format!("each packet when what it answers has arrived, and its side has thought {factor} times as fast")
        }
    }
}

/// What came of it.
pub fn summary(record: &Record) -> String {
    let mut text = format!("{:?}\n", record.verdict.status).to_uppercase();
    for reason in &record.verdict.reasons {
        let _ = writeln!(text, "  {}: {}", reason.code, reason.text);
    }
    let of = |outcome| record.conversations.outcomes.get(&outcome).copied().unwrap_or(0);
    let _ = writeln!(
        text,
        "conversations  {} completed, {} timed out, {} unfinished, {} not begun; {} packets out of order",
        number(of(Outcome::Completed)),
        number(of(Outcome::TimedOut)),
        number(of(Outcome::Unfinished)),
        number(of(Outcome::NotBegun)),
        number(record.conversations.order_broken),
    );
    for (kind, counts) in &record.conversations.kinds {
        let sum = |pair: [u64; 2]| number(pair.iter().sum());
        let _ = writeln!(
            text,
            "  {kind}: {} conversations, {} packets: {} sent, {} heard, {} sent again",
            number(counts.outcomes.values().sum()),
            sum(counts.packets),
            sum(counts.sent),
            sum(counts.heard),
            sum(counts.repeated),
        );
    }
    let rate = record.packets_per_second.map(|rate| format!(", {} packets/s", number(rate as u64)));
    let _ = writeln!(text, "took           {}{}", time(record.elapsed_ns), rate.unwrap_or_default());
    for half in &record.halves {
        let _ = writeln!(
            text,
            "{:<14} {}: {} sent ({} again), {} heard, {} twice, {} out of order",
            half.half,
            half.interface,
            number(half.sent),
            number(half.repeated),
            number(half.arrived),
            number(half.again),
            number(half.reordered),
        );
        times(&mut text, "round trips", half.round_trip.as_ref());
        times(&mut text, "late", half.late.as_ref());
    }
    let stopped = &record.conversations.stopped;
    for stop in stopped.iter().take(STOPPED_TOLD) {
        let row = &stop.row;
        let _ = writeln!(
            text,
            "stopped        {}: {} of {} and {} at packet {} of {}, the {}'s (packet {} of the template){}",
            row.conversation,
            row.kind,
            row.client,
            row.server,
            stop.at + 1,
            row.packets,
            stop.from,
            stop.packet,
            if stop.was_sent == Some(true) { ", which was sent and not heard" } else { "" },
        );
    }
    let more = stopped.len().saturating_sub(STOPPED_TOLD) as u64 + record.conversations.stopped_untold;
    if more > 0 {
        let _ = writeln!(text, "               and {} more", number(more));
    }
    text
}

fn times(text: &mut String, what: &str, times: Option<&Times>) {
    if let Some(times) = times {
        let [p50, p99, max] = [times.p50_ns, times.p99_ns, times.max_ns].map(time);
        let _ = writeln!(text, "               {what}: p50 {p50}, p99 {p99}, at most {max}");
    }
}

/// One line for each conversation.
pub fn table(conversed: &Conversed<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        to,
        "conversation,copy,kind,client,server,outcome,began_ns,took_ns,packets,client_sent,server_sent,client_heard,server_heard,repeated"
    )?;
    for row in conversed.rows() {
        let or = |time: Option<u64>| time.map(|time| time.to_string()).unwrap_or_default();
        let outcome = match row.outcome {
            Outcome::Completed => "completed",
            Outcome::TimedOut => "timed-out",
            Outcome::Unfinished => "unfinished",
            Outcome::NotBegun => "not-begun",
        };
        writeln!(
            to,
            "{},{},{},{},{},{outcome},{},{},{},{},{},{},{},{}",
            row.conversation,
            row.copy,
            row.kind,
            row.client,
            row.server,
            or(row.began_ns),
            or(row.took_ns),
            row.packets,
            row.sent[0],
            row.sent[1],
            row.heard[0],
            row.heard[1],
            row.repeated,
        )?;
    }
    Ok(())
}
