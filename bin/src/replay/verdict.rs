//! May the numbers of a replay be trusted?

use rehearsal_export::verdict::{Severity, Status};
use rehearsal_replay::judge::Judgement;
use rehearsal_replay::send::Kind;
use rehearsal_replay::timing::wait::Ended;
use rehearsal_replay::worker::Sent;
use serde::Serialize;

/// How far CLOCK_REALTIME may move against CLOCK_MONOTONIC, ns. Assumed: ten times what NTP slews in 20 s.
const CLOCK_MOVED_MAX: u64 = 100_000;

/// A doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The doubt, as a word.
    pub code: &'static str,
    /// What it does to the verdict.
    pub severity: Severity,
    /// The doubt, for a reader.
    pub text: String,
}

/// The answer, as that of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What the worst doubt makes of it.
    pub status: Status,
    /// All doubts.
    pub reasons: Vec<Reason>,
}

/// Judges a replay by what was sent and, where somebody listened, by what arrived.
pub fn verdict(sent: &Sent, judgement: Option<&Judgement>) -> Verdict {
    let mut doubts = Doubts::default();
    if let Some(ended) = sent.ended {
        early(&mut doubts, sent, ended);
    }
    of_sender(&mut doubts, sent, judgement.is_some());
    if let Some(judged) = judgement {
        of_far_side(&mut doubts, judged);
        if let (Some(wanted), Some(held)) = (sent.to_hold, &judged.held) {
            of_streams(&mut doubts, wanted, held.held_max);
        }
    }
    doubts.verdict()
}

/// Doubts so far.
#[derive(Debug, Default)]
pub struct Doubts(Vec<Reason>);

impl Doubts {
    /// What all of them make of it.
    pub fn verdict(self) -> Verdict {
        let reasons = self.0;
        let status = match reasons.iter().map(|reason| reason.severity).max() {
            Some(Severity::Invalid) => Status::Invalid,
            Some(Severity::Degraded) => Status::Degraded,
            _ => Status::Valid,
        };
        Verdict { status, reasons }
    }

    /// Another one.
    pub fn add(&mut self, severity: Severity, code: &'static str, text: String) {
        self.0.push(Reason { code, severity, text });
    }

    /// One about packets, if there are any.
    pub fn some(&mut self, packets: u64, severity: Severity, code: &'static str, text: &str) {
        if packets > 0 {
            self.add(severity, code, format!("{packets} {text}"));
        }
    }
}

/// Why the path failed or refused the first packet.
fn why(sent: &Sent) -> String {
    sent.tallies.iter().find_map(|tally| tally.why.clone()).unwrap_or_default()
}

/// It ended before its end.
fn early(doubts: &mut Doubts, sent: &Sent, ended: Ended) {
    let name = sent.interface.as_ref().map_or("", |interface| &interface.name);
    // the kernel tells nobody when a redirected frame goes nowhere
    let live = sent.path == Kind::XdpLive;
    let unsure = "; up to 20 ms passed before it was noticed, and packets of these are counted as sent";
    let unsure = if live { unsure } else { "" };
    let (severity, text) = match ended {
        // that was its end
        Ended::Duration if sent.schedule.rules.loops.is_none() => return,
        Ended::Asked => (Severity::Degraded, "it was ended before its end".to_owned()),
        Ended::Duration => (Severity::Degraded, "--duration was over before all was sent".to_owned()),
        Ended::InterfaceGone => (Severity::Invalid, format!("the interface {name} went away meanwhile{unsure}")),
        Ended::InterfaceDown => {
            (Severity::Invalid, format!("the interface {name} went down, or lost its carrier, meanwhile{unsure}"))
        }
        Ended::Stalled => (Severity::Invalid, "the path took nothing any more".to_owned()),
        Ended::Failed => (Severity::Invalid, format!("the path failed: {}", why(sent))),
    };
    doubts.add(severity, "ended_early", text);
}

fn of_sender(doubts: &mut Doubts, sent: &Sent, heard: bool) {
    let [submitted, outstanding] = [sent.sum(|tally| tally.submitted), sent.sum(|tally| tally.outstanding)];
    if submitted == 0 {
        doubts.add(Severity::Invalid, "nothing_sent", "no packet was sent".to_owned());
    }
    doubts.some(sent.skipped().values().sum(), Severity::Degraded, "skipped", "packets were not given to the path");
    let refused = format!("packets were refused by the path: {}", why(sent));
    doubts.some(sent.sum(|tally| tally.refused), Severity::Degraded, "refused", &refused);
    let text = "packets had not left a second after the last one";
    doubts.some(outstanding, Severity::Invalid, "outstanding", text);
    let text = "times packets were more than 1 ms late; the longest are told";
    doubts.some(sent.sum(|tally| tally.stalls), Severity::Degraded, "stalled", text);
    if let Some(wire) = &sent.wire {
        let short = submitted.saturating_sub(outstanding).saturating_sub(wire.tx_packets);
        let text =
            format!("packets of those given to the interface are not among the {} that it counted", wire.tx_packets);
        doubts.some(short, if heard { Severity::Degraded } else { Severity::Invalid }, "wire_short", &text);
    }
}

fn of_streams(doubts: &mut Doubts, wanted: u64, held: u64) {
    if held < wanted {
        let text = format!("of {wanted} streams that were to be held at most {held} were there at the same time");
        doubts.add(Severity::Degraded, "not_held", text);
    }
}

fn of_far_side(doubts: &mut Doubts, judged: &Judgement) {
    let lost = format!("of {} packets did not arrive", judged.sent);
    doubts.some(judged.lost, Severity::Invalid, "lost", &lost);
    let text = "frames were missed by the receiver itself: losses may be its own";
    doubts.some(judged.receiver_missed, Severity::Degraded, "receiver_missed", text);
    let text = "packets arrived after a later one of their stream";
    doubts.some(judged.reordered.unwrap_or(0), Severity::Degraded, "reordered", text);
    let text = "packets arrived once too often";
    doubts.some(judged.duplicated.unwrap_or(0), Severity::Degraded, "duplicated", text);
    let moved = judged.clock_moved_ns.unsigned_abs();
    if moved > CLOCK_MOVED_MAX {
        let text = format!("the clock of the kernel's times moved by {moved} ns");
        doubts.add(Severity::Degraded, "clock_moved", text);
    }
}
