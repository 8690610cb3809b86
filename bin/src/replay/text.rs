//! A replay in words: what is ahead before it begins, and what came of it.

use std::fmt::Write as _;

use rehearsal_replay::judge::{Judgement, Rates};
use rehearsal_replay::receive::Mode;
use rehearsal_replay::send::{Chosen, Kind, Skipped};
use rehearsal_replay::timing::{Pace, Pacing, Schedule};

use super::record::Record;
use super::source::Source;

/// Stalls that are told one by one.
const STALLS_TOLD: usize = 3;

/// What is going to happen, before anything is sent.
pub fn ahead(source: &Source, chosen: &Chosen, schedule: &Schedule, duration: Option<u64>) -> String {
    let (packets, streams) = (schedule.packets, source.template.streams().len());
    let loops = match schedule.rules.loops {
        Some(1) => String::new(),
        Some(loops) => format!(", {loops} times"),
        None => ", again and again".to_owned(),
    };
    let mut text = format!(
        "{}: {} packets in {} streams, {} bytes{loops}\n",
        source.called,
        number(packets),
        number(streams as u64),
        number(schedule.bytes)
    );
    let _ = writeln!(text, "  pace:  {}", pace(schedule));
    let planned = schedule.planned.map(time);
    let end = duration.map(|duration| format!("at most {}", time(duration)));
    let takes = [planned, end].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let takes = if takes.is_empty() { "as long as the path needs".to_owned() } else { takes };
    let _ = writeln!(text, "  takes: {takes}");
    if schedule.clamped > 0 {
        let _ = writeln!(
            text,
            "  gaps:  {} are cut; the longest was {}",
            number(schedule.clamped),
            time(schedule.gap_longest)
        );
    } else if schedule.gap_longest > 60_000_000_000 && matches!(schedule.rules.pace, Pace::Original { .. }) {
        let _ = writeln!(text, "  gaps:  the longest is {}; --limit-gap cuts long ones", time(schedule.gap_longest));
    }
    let on = chosen.interface.as_ref().map(|interface| format!(" on {} (MTU {})", interface.name, interface.mtu));
    let _ = writeln!(text, "  path:  {}{}", chosen.kind.name(), on.unwrap_or_default());
    for note in &chosen.notes {
        let _ = writeln!(text, "         {note}");
    }
    text
}

fn pace(schedule: &Schedule) -> String {
    let kept = match schedule.rules.pacing {
        Pacing::Absolute => "",
        Pacing::Dtrf => ", kept by Algorithm 1 of DTRF",
    };
    match schedule.rules.pace {
        Pace::Original { factor: 1.0 } => format!("at its own times{kept}"),
        Pace::Original { factor } => format!("at its own times, {factor} times as fast{kept}"),
        Pace::Packets { per_second } => format!("{per_second} packets/s{kept}"),
        Pace::Bits { per_second } => format!("{per_second} bit/s{kept}"),
        Pace::TopSpeed => "top speed".to_owned(),
    }
}

/// What came of it.
pub fn summary(record: &Record) -> String {
    let Record { verdict, sent, path, wire, .. } = record;
    let mut text = format!("{:?}", verdict.status).to_uppercase();
    text.push('\n');
    for reason in &verdict.reasons {
        let _ = writeln!(text, "  {}: {}", reason.code, reason.text);
    }
    given(&mut text, record);
    for (why, count) in &sent.skipped {
        let why = match why {
            Skipped::OverMtu => "longer than the MTU allows",
            Skipped::TooShort => "shorter than an Ethernet header",
            Skipped::NotUdp => "no whole datagrams of UDP",
        };
        let _ = writeln!(text, "skipped   {} packets: {why}", number(*count));
    }
    if let Some(wire) = wire {
        let _ = writeln!(
            text,
            "wire      {} packets sent, {} dropped, {} errors",
            number(wire.tx_packets),
            number(wire.tx_dropped),
            number(wire.tx_errors)
        );
    }
    if path.kind != Kind::Others {
        by_whom(&mut text, record);
    }
    if let Some(late) = &sent.lateness {
        let _ = writeln!(
            text,
            "given     p50 {}, p99 {}, at most {} late",
            time(late.p50_ns),
            time(late.p99_ns),
            time(late.max_ns)
        );
    }
    for stall in sent.longest_stalls.iter().take(STALLS_TOLD) {
        let _ = writeln!(
            text,
            "stall     {} at {}: {} packets",
            time(stall.late_ns),
            time(stall.at_ns),
            number(stall.packets)
        );
    }
    if let Some(received) = &record.received {
        arrived(&mut text, received);
    }
    text
}

/// What was sent, or what another program was to send.
fn given(text: &mut String, record: &Record) {
    let Record { sent, path, .. } = record;
    let [packets, bytes] = [sent.packets, sent.bytes].map(number);
    let _ = if path.kind == Kind::Others {
        writeln!(text, "expected  {packets} packets, {bytes} bytes of frames, of another program")
    } else {
        writeln!(
            text,
            "sent      {packets} packets, {bytes} bytes of frames{}{} through {}",
            Some(sent.elapsed_ns).filter(|ns| *ns > 0).map(|ns| format!(" in {}", time(ns))).unwrap_or_default(),
            sent.packets_per_second.map(|rate| format!(" ({} packets/s)", number(rate as u64))).unwrap_or_default(),
            path.kind.name(),
        )
    };
}

fn by_whom(text: &mut String, record: &Record) {
    let workers = &record.workers;
    let with =
        |what: fn(&rehearsal_replay::worker::WorkerSent) -> bool| workers.each.iter().filter(|each| what(each)).count();
    let [pinned, real_time] = [with(|each| each.pinned), with(|each| each.real_time)];
    let _ = writeln!(
        text,
        "workers   {}, {pinned} kept to a core, {real_time} before ordinary threads; the busiest has {:.1} % more than the mean",
        workers.each.len(),
        workers.spread.imbalance_percent,
    );
}

fn arrived(text: &mut String, judged: &Judgement) {
    let or =
        |count: Option<u64>, what: &str| count.map(|count| format!(", {} {what}", number(count))).unwrap_or_default();
    let how = if judged.mode == Mode::Frames { "" } else { " (counted; order and times are not known)" };
    let _ = writeln!(
        text,
        "arrived   {} packets, {} lost{}{}{}{how}",
        number(judged.arrived),
        number(judged.lost),
        or(judged.reordered, "out of order"),
        or(judged.duplicated, "twice"),
        or(judged.foreign, "of others"),
    );
    if let Some(gaps) = &judged.gap_error {
        let [p50, p90, p99, max] = [gaps.p50_ns, gaps.p90_ns, gaps.p99_ns, gaps.max_ns].map(time);
        let mean = time(gaps.mean_ns.round() as u64);
        let _ = writeln!(text, "gap error mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, at most {max}");
    }
    if let Some(offset) = &judged.offset {
        let mean = time(offset.mean_abs_ns.round() as u64);
        let [p99, max] = [offset.p99_abs_ns, offset.max_abs_ns].map(time);
        let _ = writeln!(
            text,
            "offset    mean {mean}, p99 {p99}, at most {max}; last packet {}; drift {:.2} ppm",
            signed(offset.end_ns),
            offset.drift_ppm
        );
    }
    if let Some(error) = &judged.timestamp_error {
        let _ = writeln!(
            text,
            "paper     \"timestamp error\": by Eq. 1 (mean of gaps) {}; added up since the first packet {} at the end, {} at most",
            time(error.eq1_mean_gap_ns.round() as u64),
            signed(error.cumulative_end_ns),
            time(error.cumulative_max_ns),
        );
    }
    if let Some(held) = judged.held.as_ref().filter(|held| held.streams > 1) {
        let _ = writeln!(
            text,
            "streams   {} arrived, {} at the same time; all open after {} ({} per second)",
            number(held.streams),
            number(held.held_max),
            time(held.opened_ns),
            number(held.opened_per_second as u64),
        );
    }
    for window in &judged.windows {
        let _ = writeln!(
            text,
            "windows   {} ms: {:.1} packets, planned CV {:.3}, arrived CV {:.3}, {:.1} % apart",
            window.width_ms, window.packets_mean, window.planned_cv, window.arrived_cv, window.difference_percent
        );
    }
    if let Some(rates) = &judged.rates {
        rate(text, rates);
    }
}

fn rate(text: &mut String, rates: &Rates) {
    let _ = writeln!(
        text,
        "rate      {} packets/s over {}",
        number(rates.packets_per_second as u64),
        time(rates.elapsed_ns)
    );
    for window in &rates.windows {
        let [min, p50, max] = [window.min, window.p50, window.max].map(|rate| number(rate as u64));
        let _ = writeln!(text, "windows   {} ms: {min} to {max} packets/s, p50 {p50}", window.width_ms);
    }
}

/// Nanoseconds in the unit that suits them.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        1_000_000_000..7_200_000_000_000 => format!("{:.3} s", ns as f64 / 1e9),
        _ => format!("{:.1} h", ns as f64 / 3.6e12),
    }
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, time(ns.unsigned_abs()))
}

/// `12,345`
pub fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        let times = [7, 1_500, 2_500_000, 3_000_000_000, 86_400_000_000_000].map(time);
        assert_eq!(times, ["7 ns", "1.5 µs", "2.50 ms", "3.000 s", "24.0 h"]);
        assert_eq!([signed(-1_500), signed(0)], ["-1.5 µs", "+0 ns"]);
    }
}
