//! What is written of conversations: one JSON object.

use std::collections::BTreeMap;

use rehearsal_export::verdict::Severity;
use rehearsal_replay::Editor;
use rehearsal_replay::converse::{Conversed, Counts, Hours, Outcome, SeatFacts, Split, Stopped};
use rehearsal_replay::timing::wait::Ended;
use serde::Serialize;

use crate::replay::record::{TemplateFacts, VERSION};
use crate::replay::source::Source;
use crate::replay::verdict::{Doubts, Verdict};

/// Conversations whose end is told one by one; the table in the folder has all.
const STOPPED_TOLD: usize = 100;

/// A replay of conversations.
#[derive(Debug, Serialize)]
pub struct Record {
    /// Version of this object.
    pub version: u32,
    /// Version of the program.
    pub program: &'static str,
    /// May it be trusted?
    pub verdict: Verdict,
    /// What was replayed.
    pub template: TemplateFacts,
    /// What was planned.
    pub plan: Plan,
    /// How conversations ended.
    pub conversations: Conversations,
    /// Each half that was here.
    pub halves: Vec<SeatFacts>,
    /// From the first packet to the last, ns.
    pub elapsed_ns: u64,
    /// Packets per second of that, of the halves that were here.
    pub packets_per_second: Option<f64>,
    /// Times in which this program did not run for more than 20 ms.
    pub stalls: u64,
    /// How long they were in all, ns.
    pub stalled_ns: u64,
    /// Why it ended before its end.
    pub ended: Option<Ended>,
}

/// What was planned.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// What one conversation is.
    pub split: Split,
    /// How many the template holds.
    pub in_template: usize,
    /// How many there are with their copies.
    pub conversations: u32,
    /// Their packets, of clients and of servers.
    pub packets: [u64; 2],
    /// Packets of the template that belong to none.
    pub left_out: u64,
    /// Handshakes that were put right.
    pub put_right: u64,
    /// Packets that nobody waits for.
    pub silent: u64,
    /// Times and rules.
    #[serde(flatten)]
    pub hours: Hours,
}

/// How they ended.
#[derive(Debug, Serialize)]
pub struct Conversations {
    /// By outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Packets that were sent before one that stands before them.
    pub order_broken: u64,
    /// By protocol and port.
    pub kinds: BTreeMap<String, Counts>,
    /// Those that did not complete, the first of them.
    pub stopped: Vec<Stopped>,
    /// How many more there are.
    pub stopped_untold: u64,
}

impl Record {
    /// Of what was replayed and what came of it.
    pub fn of(
        source: &Source,
        editor: Option<&Editor>,
        split: Split,
        hours: &Hours,
        conversed: &Conversed<'_>,
    ) -> Self {
        let cast = conversed.cast;
        let scripts = cast.scripts();
        let outcomes = conversed.outcomes();
        let stopped: Vec<Stopped> = conversed.stops().take(STOPPED_TOLD).collect();
        let all: u64 = outcomes.values().sum();
        let completed = outcomes.get(&Outcome::Completed).copied().unwrap_or(0);
        let sent: u64 = conversed.seats.iter().map(|seat| seat.sent).sum();
        let seconds = conversed.elapsed as f64 / 1e9;
        Record {
            version: VERSION,
            program: env!("CARGO_PKG_VERSION"),
            verdict: verdict(conversed, &outcomes),
            template: TemplateFacts::of(source, editor),
            plan: Plan {
                split,
                in_template: scripts.all.len(),
                conversations: cast.conversations(),
                packets: cast.packets(),
                left_out: scripts.left_out,
                put_right: scripts.put_right,
                silent: scripts.silent,
                hours: *hours,
            },
            conversations: Conversations {
                order_broken: conversed.order_broken,
                kinds: conversed.kinds(),
                stopped_untold: all - completed - stopped.len() as u64,
                stopped,
                outcomes,
            },
            halves: conversed.seats.clone(),
            elapsed_ns: conversed.elapsed,
            packets_per_second: (seconds > 0.0).then(|| sent as f64 / seconds),
            stalls: conversed.stalls.0,
            stalled_ns: conversed.stalls.1,
            ended: conversed.ended,
        }
    }
}

fn verdict(conversed: &Conversed<'_>, outcomes: &BTreeMap<Outcome, u64>) -> Verdict {
    use Severity::{Degraded, Invalid};
    let mut doubts = Doubts::default();
    match conversed.ended {
        None => {}
        Some(Ended::Asked) => doubts.add(Degraded, "ended_early", "it was ended before its end".to_owned()),
        Some(Ended::Duration) => {
            doubts.add(Degraded, "ended_early", "--duration was over before all conversations were".to_owned());
        }
        Some(Ended::InterfaceDown) => {
            doubts.add(Invalid, "ended_early", "an interface went down meanwhile".to_owned());
        }
        Some(why) => doubts.add(Invalid, "ended_early", format!("the path failed ({why:?})")),
    }
    let sum = |of: fn(&SeatFacts) -> u64| conversed.seats.iter().map(of).sum::<u64>();
    let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
    if sum(|seat| seat.sent + seat.arrived) == 0 {
        doubts.add(Invalid, "nothing_sent", "no packet was sent or heard".to_owned());
    }
    let text = "conversations timed out: nothing new was heard any more; it is told where";
    let severity = if of(Outcome::Completed) == 0 { Invalid } else { Degraded };
    doubts.some(of(Outcome::TimedOut), severity, "timed_out", text);
    doubts.some(of(Outcome::Unfinished), Degraded, "unfinished", "conversations were under way at the end");
    doubts.some(of(Outcome::NotBegun), Degraded, "not_begun", "conversations did not begin at one half");
    doubts.some(
        conversed.order_broken,
        Invalid,
        "order_broken",
        "packets were sent before one that stands before them",
    );
    doubts.some(sum(|seat| seat.refused), Degraded, "refused", "packets were refused by the path");
    let text = "frames were missed by this program itself: what was sent again may be its own fault";
    doubts.some(sum(|seat| seat.missed), Degraded, "receiver_missed", text);
    let text = "packets had the addresses of a conversation and were none of its; with generic receive offload the kernel joins \
                segments: `ethtool -K NAME gro off`";
    doubts.some(sum(|seat| seat.strange), Degraded, "strange", text);
    doubts.verdict()
}
