//! The replayer: a template of captured packets as a sender, at its own times, faster or slower.
//!
//! With `interactive` it is one of two that converse: each hears what the other one says, and answers.
//!
//! Over `udp` each packet's payload becomes a datagram of ours, so that it works on any hosts; over `frames` the frames
//! themselves go. Either way a stream of the template is a stream of the sender.

use std::sync::Arc;

use rehearsal_core::dialogue::Direction;
use rehearsal_core::kind::{Complaint, Meeting, Offer, Scatter, StreamSpec, Targets};
use rehearsal_core::plan::{Carrier, Stop};
use rehearsal_core::recording::{Pace, Recording, Side, TemplateRequest};
use rehearsal_core::sender::{OnLate, SenderParams, Spread};
use rehearsal_core::subject::PREFIX;
use rehearsal_core::units::BitRate;
use rehearsal_core::{BuildError, GroupContext, Kind, Pool, Role, Span, Wiring};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod interactive;
mod player;
mod speaker;
#[cfg(test)]
mod tests;

pub use interactive::InteractiveParams;
use player::Player;
use speaker::{Counters, Scene, Speaker};

/// Streams of all instances of one replayer. Assumed: as of a population.
const STREAMS_MAX: u64 = 10_000_000;

/// Replays a template.
pub struct Replayer;

/// The replayer's own keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayerParams {
    /// A capture or a template: a file relative to the experiment, or a name in the library of templates, `name@digits`.
    pub template: String,
    /// The template's times are divided by this; 1 if no pace is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Evenly, so many packets of the template per second, in place of `speed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pps: Option<f64>,
    /// So many bits of the template's frames per second, in place of `speed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bps: Option<BitRate>,
    /// How often it is replayed; without it until the run's duration is over, or once where the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub loops: Option<u64>,
    /// From the last packet of a loop to the first of the next; without it the template's mean gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_gap: Option<Span>,
    /// Longer gaps of the template are cut to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_max: Option<Span>,
    /// Whose packets are sent: of `both` sides, of those that opened the streams (`client`), or of the others (`server`).
    #[serde(default, skip_serializing_if = "is_both")]
    pub side: Side,
    /// Changes to copies of the packets, each as after `--edit` of `rehearsal replay`: `["ttl=-1", "payload_bytes_max=64"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edit: Vec<String>,
    /// Converses as `side` with the replayer that `to` names, whose own `to` is this one: a packet goes when what it answers has
    /// arrived, and its side has thought. `{}` takes all defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive: Option<InteractiveParams>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_both(side: &Side) -> bool {
    *side == Side::Both
}

impl ReplayerParams {
    fn request(&self, frames: bool) -> TemplateRequest {
        let pace = match (self.pps, self.bps) {
            (Some(pps), _) => Pace::Packets(pps),
            (None, Some(bps)) => Pace::Bits(bps.0 as f64),
            (None, None) => Pace::Speed(self.speed.unwrap_or(1.0)),
        };
        TemplateRequest {
            template: self.template.clone(),
            pace,
            gap_max: self.gap_max,
            loop_gap: self.loop_gap,
            side: self.side,
            edit: self.edit.clone(),
            frames,
        }
    }
}

/// What the members share.
#[derive(Debug)]
struct Spec {
    node: String,
    targets: Targets,
    recording: Recording,
    /// `None`: until somebody ends it.
    loops: Option<u64>,
}

impl Kind for Replayer {
    const NAME: &'static str = "replayer";
    const SUMMARY: &'static str = "replays the packets of a capture";
    const ROLE: Role = Role::Sender;
    type Params = ReplayerParams;

    fn build(
        params: &ReplayerParams,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError> {
        let sender = cx.sender.ok_or_else(|| BuildError::of("to", "a sender needs to know where to"))?;
        check(sender)?;
        let targets = wiring.target(&sender.to)?;
        if targets.exchange || !matches!(targets.carrier, Carrier::Udp | Carrier::Frames) {
            let reason = "a replayer waits for no answer: its link needs `carrier = \"udp\"` without `mode`, for payloads in \
                          datagrams, or `carrier = \"frames\"`, for whole frames";
            return Err(BuildError::of("to", reason));
        }
        for verb in ["start", "steer"] {
            wiring.subscribe(&format!("{PREFIX}.{}.ctl.*.*.{verb}", cx.run.run))?;
        }
        if let Some(interactive) = &params.interactive {
            return speakers(params, interactive, cx, &sender.to, targets, wiring);
        }
        let recording = wiring.recording(&params.request(targets.carrier == Carrier::Frames))?;
        let streams = recording.streams.len() as u64;
        let all = streams * cx.members.len() as u64;
        if all > STREAMS_MAX {
            let reason = format!("{all} streams of all instances together are more than {STREAMS_MAX}");
            return Err(BuildError::of("template", reason));
        }
        let once = cx.run.stop == Stop::AllRequestsDone;
        let loops = params.loops.or(once.then_some(1));
        if recording.period.is_zero() && loops != Some(1) {
            let reason = "all packets of a loop are due at once, and it has no end: write `loops = 1`, or a `loop_gap`";
            return Err(BuildError::of("loops", reason));
        }
        wiring.streams(StreamSpec {
            per_member: streams as u32,
            in_flight: 1,
            gap: mean_gap(&recording),
            scatter: Some(Scatter::Unknown),
            ..StreamSpec::UNDECLARED
        });
        let spec = Arc::new(Spec { node: cx.node.to_owned(), targets, recording, loops });
        Ok(Box::new(cx.members.clone().map(|member| Player::new(&spec, member)).collect::<Vec<_>>()))
    }

    fn check(params: &ReplayerParams) -> Vec<Complaint> {
        let mut all = Vec::new();
        let mut say = |key: &str, reason: &str| {
            all.push(Complaint { path: vec![key.to_owned()], reason: reason.to_owned() });
        };
        let paces = [("speed", params.speed), ("pps", params.pps), ("bps", params.bps.map(|bps| bps.0 as f64))];
        for (key, _) in paces.iter().filter(|(_, pace)| pace.is_some()).skip(1) {
            say(key, "`speed`, `pps` and `bps` exclude each other; keep one of them");
        }
        for (key, _) in paces.iter().filter(|(_, pace)| pace.is_some_and(|pace| !(pace.is_finite() && pace > 0.0))) {
            say(key, "write a number above 0");
        }
        if params.loops == Some(0) {
            say("loops", "0 loops send nothing; write 1 or more, or leave it out");
        }
        if params.template.is_empty() {
            say("template", "write the name of a capture file, or of a template of the library");
        }
        if let Some(interactive) = &params.interactive {
            interactive.check(params, &mut all);
        }
        all
    }

    fn offers(params: &ReplayerParams) -> Option<Offer> {
        if let Some(interactive) = &params.interactive {
            let count = interactive.conversations.map_or_else(String::new, |count| format!("{count} "));
            return Some(Offer { text: format!("{count}conversations as answered"), ..Offer::default() });
        }
        let text = match params.request(false).pace {
            Pace::Speed(1.0) => "as captured".to_owned(),
            Pace::Speed(factor) => format!("as captured, {factor} times as fast"),
            Pace::Packets(pps) => format!("{pps} packets/s"),
            Pace::Bits(bps) => format!("{} of frames", BitRate(bps as u64)),
        };
        // of one side alone it takes the template itself to tell
        let per_second = params.pps.filter(|_| params.side == Side::Both);
        Some(Offer { text, per_second, ..Offer::default() })
    }

    fn template(params: &ReplayerParams, frames: bool) -> Option<(TemplateRequest, Option<u64>)> {
        Some((params.request(frames), params.loops))
    }

    fn meeting(params: &ReplayerParams) -> Option<Meeting> {
        params.interactive.as_ref().map(|interactive| interactive.meeting(params))
    }
}

/// Members that converse.
fn speakers(
    params: &ReplayerParams,
    interactive: &InteractiveParams,
    cx: &GroupContext<'_>,
    to: &str,
    targets: Targets,
    wiring: &mut dyn Wiring,
) -> Result<Box<dyn Pool>, BuildError> {
    let frames = targets.carrier == Carrier::Frames;
    if !frames {
        interactive.unseen()?;
    }
    let side = if params.side == Side::Server { Direction::Backward } else { Direction::Forward };
    let conversations = wiring.conversations(&params.request(frames), &interactive.casting(targets.len))?;
    let all = u64::from(conversations.count) * cx.members.len() as u64;
    if all > STREAMS_MAX {
        let reason = format!("{all} conversations of all instances together are more than {STREAMS_MAX}");
        return Err(BuildError::of("interactive", reason));
    }
    let peers = wiring.instances(to).map_err(|why| BuildError::of("to", why.reason))?;
    wiring.serve(None);
    // answers decide when packets go, as in any closed loop
    wiring.streams(StreamSpec { per_member: conversations.count, in_flight: 1, ..StreamSpec::UNDECLARED });
    let manners = interactive.manners(params);
    let dialogue = |number: u32| &conversations.repertoire[number as usize % conversations.repertoire.len()];
    let start = |number: u32| match (interactive.start_rate, manners.thinking.factor) {
        (Some(rate), _) => (f64::from(number) * 1e9 / rate) as u64,
        (None, factor) => factor.map_or(0, |factor| (dialogue(number).first as f64 / factor) as u64),
    };
    let start_of: Vec<u64> = (0..conversations.count).map(start).collect();
    let mut starts: Vec<(u64, u32)> = start_of.iter().copied().zip(0..).collect();
    starts.sort_unstable();
    let plans = conversations.repertoire.iter().map(|dialogue| dialogue.plan(&manners.thinking)).collect();
    let counters = Counters::new(wiring);
    let (node, concurrent) = (cx.node.to_owned(), interactive.concurrent);
    let scene =
        Scene { node, targets, peers, side, manners, concurrent, conversations, starts, start_of, plans, counters };
    let scene = Arc::new(scene);
    Ok(Box::new(cx.members.clone().map(|member| Speaker::new(&scene, member)).collect::<Vec<_>>()))
}

/// The mean gap of a stream, over all streams: those of the other side never send, and are counted by the engine all the same.
fn mean_gap(recording: &Recording) -> Option<Span> {
    let streams = recording.streams.len() as f64;
    let nanos = recording.period.as_nanos() as f64 * streams / recording.packets.len() as f64;
    (nanos >= 1.0).then(|| Span::from_nanos(nanos as u64))
}

/// Common sender keys that mean nothing here: the template tells what is sent when.
fn check(sender: &SenderParams) -> Result<(), BuildError> {
    for (key, there) in [
        ("rate", sender.rate.is_some()),
        ("arrivals", sender.arrivals.is_some()),
        ("requests", sender.requests.is_some()),
        ("streams", sender.streams != 1),
        ("in_flight", sender.in_flight != 1),
        ("on_late", sender.on_late != OnLate::Queue),
        ("limit", sender.limit.is_some()),
        ("malformed", sender.malformed.0 > 0.0),
    ] {
        if there {
            return Err(BuildError::of(key, "the template tells what is sent when: take this key away"));
        }
    }
    if sender.spread == Spread::All {
        return Err(BuildError::of("spread", "a stream of the template goes to one instance: leave it out"));
    }
    Ok(())
}
