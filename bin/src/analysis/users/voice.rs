//! The quality of speech of a run's calls by the E-model (ITU-T G.107), from the delays and losses of their packets.
//!
//! A receiver plays out a fixed time after the quickest packet: what comes later is lost to the ear. So the way from mouth to
//! ear is the codec's own time, the least one-way delay, and the play-out buffer; and what is lost is what the network lost,
//! and what came too late.

use hdrhistogram::Histogram;
use rehearsal_export::Bundle;
use rehearsal_models::diagram::module::Codec;
use rehearsal_stats::standards::g107::{opinion, rating};
use serde::Serialize;

use super::delays::Times;
use super::senders::Sender;
use crate::model::quality::{impairment, look_ahead_ms, words};

/// Heads of a table.
pub const HEADS: [&str; 8] = ["speech of", "codec", "mouth to ear", "lost", "too late", "R", "opinion score", ""];

/// One codec of one population.
#[derive(Clone, Debug, Serialize)]
pub struct Voice {
    /// `node/actor` as in the file.
    pub sender: String,
    /// Its module.
    pub module: String,
    /// The module's codec.
    pub codec: Codec,
    /// Play-out buffer, ms.
    pub playout_ms: f64,
    /// Share of packets that were lost on the way.
    pub lost: f64,
    /// What came of it, where clocks tell one-way delays and the codec's impairment is known.
    #[serde(flatten)]
    pub told: Option<Told>,
    /// Why nothing came of it.
    pub why: Option<String>,
}

/// A quality.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Told {
    /// One-way delay from mouth to ear, ms.
    pub mouth_to_ear_ms: f64,
    /// The least delay on the way, ms.
    pub least_ms: f64,
    /// Share of packets that came too late.
    pub late: f64,
    /// The E-model's rating.
    pub rating: f64,
    /// The mean opinion score that it stands for.
    pub opinion_score: f64,
}

impl Voice {
    /// A row of a table.
    pub fn cells(&self) -> Vec<String> {
        let codec = serde_json::to_value(self.codec).ok().and_then(|word| word.as_str().map(str::to_owned));
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let mut row = vec![format!("{} {}", self.sender, self.module), codec.unwrap_or_default()];
        let dash = || "-".to_owned();
        match &self.told {
            Some(told) => {
                row.extend([format!("{:.1} ms", told.mouth_to_ear_ms), percent(self.lost), percent(told.late)]);
                row.extend([format!("{:.1}", told.rating), format!("{:.2}", told.opinion_score)]);
                row.push(words(told.rating).to_owned());
            }
            None => {
                row.extend([dash(), percent(self.lost), dash(), dash(), dash()]);
                row.push(format!("cannot be told: {}", self.why.as_deref().unwrap_or_default()));
            }
        }
        row
    }
}

/// What is taken for granted.
pub fn assumed(playout_ms: f64) -> String {
    format!(
        "speech by the E-model, ITU-T G.107: mouth to ear is a packet's speech and the codec's look-ahead (G.114), the least one-way \
         delay, and a play-out buffer of {playout_ms:.0} ms; losses at random (BurstR 1), their concealment and the codec's impairment \
         by G.113 appendix I, all other parameters at their defaults (no echo, quiet rooms, A = 0)"
    )
}

/// The codecs of all senders.
pub fn of(bundles: &[Bundle], senders: &[Sender], times: &Times, playout_ns: u64) -> Vec<Voice> {
    let mut all = Vec::new();
    for (row, sender) in senders.iter().enumerate() {
        let lost = lost(bundles, &sender.name);
        for (module, codec) in &sender.codecs {
            let told = times.whole(row).filter(|_| sender.datagrams).and_then(|delays| {
                let (least, late) = late(delays, playout_ns)?;
                judge(*codec, (least, late, lost), playout_ns)
            });
            let why = if told.is_some() {
                None
            } else if !sender.datagrams {
                Some("it was not sent as datagrams".to_owned())
            } else if impairment(*codec).is_none() {
                Some("G.113 has no impairment of this codec".to_owned())
            } else {
                Some("the clocks of the run do not tell one-way delays".to_owned())
            };
            let playout_ms = playout_ns as f64 / 1e6;
            all.push(Voice {
                sender: sender.name.clone(),
                module: module.clone(),
                codec: *codec,
                playout_ms,
                lost,
                told,
                why,
            });
        }
    }
    all
}

/// The least delay, ns, and the share of packets that come later than the play-out buffer after it.
fn late(delays: &Histogram<u64>, playout_ns: u64) -> Option<(u64, f64)> {
    (!delays.is_empty()).then(|| {
        let least = delays.min();
        let in_time = delays.count_between(0, least.saturating_add(playout_ns));
        (least, 1.0 - in_time as f64 / delays.len() as f64)
    })
}

fn judge(codec: Codec, (least, late, lost): (u64, f64, f64), playout_ns: u64) -> Option<Told> {
    let impairment = impairment(codec)?;
    let own = codec.framing().every.as_secs_f64() * 1e3 + look_ahead_ms(codec);
    let least_ms = least as f64 / 1e6;
    let mouth_to_ear_ms = own + least_ms + playout_ns as f64 / 1e6;
    let missing = 1.0 - (1.0 - lost) * (1.0 - late);
    let rating = rating(impairment, mouth_to_ear_ms, missing);
    Some(Told { mouth_to_ear_ms, least_ms, late, rating, opinion_score: opinion(rating) })
}

/// Share of a sender's packets that were lost, over all repetitions.
fn lost(bundles: &[Bundle], name: &str) -> f64 {
    let rows = bundles.iter().flat_map(|bundle| &bundle.summary.templates);
    let own = rows.filter(|row| format!("{}/{}", row.template, row.actor) == name);
    let (lost, all) = own
        .map(|row| row.measures.judged())
        .fold((0, 0), |(lost, all), tally| (lost + tally.lost, all + tally.lost + tally.success));
    if all > 0 { lost as f64 / all as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::parts::ledger::histogram;

    use super::*;

    #[test]
    fn what_comes_after_the_buffer_is_lost_to_the_ear() {
        let mut delays = histogram();
        for ms in [30, 31, 50, 95, 200] {
            delays.record_n(ms * 1_000_000, 20).expect("below an hour");
        }
        let (least, late) = late(&delays, 60_000_000).expect("there are some");
        assert!(least.abs_diff(30_000_000) < 100_000, "to three digits: {least}");
        assert!((late - 0.4).abs() < 1e-9, "95 and 200 ms are late: {late}");
        // 20 ms of speech, 30 ms of way, 60 ms of buffer
        let told = judge(Codec::G711, (least, 0.0, 0.0), 60_000_000).expect("a known codec");
        assert!((told.mouth_to_ear_ms - 110.0).abs() < 0.1, "{told:?}");
        // 110 ms: x = 0.1375, 25 · ((1 + x⁶)^(1/6) − 3 (1 + (x/3)⁶)^(1/6) + 2) is nothing yet
        assert!((told.rating - 93.2).abs() < 0.01, "{told:?}");
        // 40 % late of what the network has not lost: G.711 with 46 % missing, 95 · 46 / 71.1 = 61.46
        let told = judge(Codec::G711, (least, 0.4, 0.1), 60_000_000).expect("a known codec");
        assert!((93.2 - told.rating - 61.46).abs() < 0.01, "{told:?}");
        assert!(judge(Codec::G726, (least, 0.0, 0.0), 0).is_none());
    }
}
