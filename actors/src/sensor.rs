//! The sensor: small JSON readings of a fixed size, as a device in the field sends them.

use std::fmt::Write;
use std::sync::Arc;

use bytes::BytesMut;
use rehearsal_core::distribution::Distribution;
use rehearsal_core::kind::Weight;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::units::ByteSize;
use rehearsal_core::{BuildError, GroupContext, Kind, Payload, Pool, Recipe, RecipeId, RngStream, Role, Wiring};
use rehearsal_models::distribution::Sampler;
use rehearsal_models::{Next, Payloads, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Digits kept for a reading's number; a longer one keeps its lower digits.
const SEQ_DIGITS: usize = 12;
/// `1700000000.123`: ten digits until the year 2286.
const TIME_DIGITS: usize = 14;
/// Everything but the device, the time, the number and the data.
const FRAME: usize = r#"{"device":"","ts":,"seq":,"data":""}"#.len();
/// Largest reading, bytes: what one reply buffer of a small device can hold many times over. Assumed.
const BYTES_MAX: u64 = 16 << 20;
/// What a reading is filled up with.
const DATA: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// Sends JSON readings of a fixed size.
pub struct Sensor;

/// The sensor's own keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SensorParams {
    /// Size of one reading, all of it. The smallest depends on the device's name; 160 B are always enough.
    pub bytes: ByteSize,
    /// Sizes that are drawn for each reading, instead of `bytes`. Between `min` and `max` of the distribution there must be
    /// nothing that a reading cannot have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Distribution<ByteSize>>,
}

impl Default for SensorParams {
    /// 1 kB, the sensor message of PL-5G.
    fn default() -> Self {
        SensorParams { bytes: ByteSize(1000), sizes: None }
    }
}

impl Kind for Sensor {
    const NAME: &'static str = "sensor";
    const SUMMARY: &'static str = "sends JSON readings of a fixed size or of sizes that are drawn";
    const ROLE: Role = Role::Sender;
    type Params = SensorParams;

    fn build(
        params: &SensorParams,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError> {
        let prefix = format!("{}-{}", cx.node, cx.actor);
        let law =
            params.sizes.as_ref().map(Distribution::law).transpose().map_err(|why| BuildError::of("sizes", why))?;
        let (key, [min, max]) = match &law {
            None => ("bytes", [params.bytes.0; 2]),
            Some(law) => ("sizes", [law.bounds().0.floor() as u64, law.bounds().1.ceil() as u64]),
        };
        let bytes = size(key, [min, max], &prefix, cx.members.end)?;
        let sampler = law.map(|law| Sampler::new("sizes", &law).map(Arc::new)).transpose()?;
        let spoiled = wiring.recipe(Arc::new(Reading { prefix: prefix.clone(), spoiled: true }));
        let recipe = wiring.recipe(Arc::new(Reading { prefix, spoiled: false }));
        let spec = SourceSpec::new(cx, wiring, spoiled)?;
        spec.check_bytes(key, min, max)?;
        let mean = law.as_ref().map_or(f64::from(bytes), |law| law.moments().mean.clamp(min as f64, max as f64));
        wiring.weight(Weight::of(mean, max));
        let mut members = Vec::with_capacity(cx.members.len());
        for member in cx.members.clone() {
            let sizes = sampler.as_ref().map(|sampler| {
                let draws = (0..spec.streams()).map(|stream| (0, wiring.rng(member, stream, "sizes")));
                Sizes { sampler: sampler.clone(), draws: draws.collect() }
            });
            members.push(Source::new(&spec, wiring, member, Readings { bytes, recipe, sizes }));
        }
        Ok(Box::new(members))
    }
}

/// The largest size of a reading, if the smallest reading of this device fits into the least.
fn size(key: &'static str, [least, most]: [u64; 2], prefix: &str, members: u32) -> Result<u32, BuildError> {
    let device = prefix.len() + 1 + members.to_string().len();
    let min = (FRAME + TIME_DIGITS + SEQ_DIGITS + device) as u64;
    match u32::try_from(most) {
        Ok(size) if least >= min && most <= BYTES_MAX => Ok(size),
        _ if key == "sizes" => {
            let reason = format!("a reading of this device has {min}B to {}; set `min` and `max`", ByteSize(BYTES_MAX));
            Err(BuildError::of(key, reason))
        }
        _ => Err(BuildError::of(key, format!("a reading of this device has {min}B to {}", ByteSize(BYTES_MAX)))),
    }
}

#[derive(Clone, Debug)]
struct Readings {
    bytes: u32,
    recipe: RecipeId,
    sizes: Option<Sizes>,
}

/// Sizes that are drawn: the reading's number tells which draw of its stream it is.
#[derive(Clone, Debug)]
struct Sizes {
    sampler: Arc<Sampler>,
    /// Of each stream, how many were drawn.
    draws: Box<[(u64, RngStream)]>,
}

impl Sizes {
    /// The size of a stream's reading `seq`. Numbers that an earlier incarnation of the node has used are drawn and left out.
    fn draw(&mut self, stream: u32, seq: u64) -> Option<u32> {
        let (drawn, rng) = self.draws.get_mut(stream as usize)?;
        let mut size = self.sampler.whole(rng);
        while *drawn < seq {
            *drawn += 1;
            size = self.sampler.whole(rng);
        }
        *drawn += 1;
        u32::try_from(size).ok()
    }
}

impl Payloads for Readings {
    fn payload(&mut self, stream: u32, seq: u64) -> Next {
        let bytes = self.sizes.as_mut().and_then(|sizes| sizes.draw(stream, seq)).unwrap_or(self.bytes);
        Next::Ready(Payload::new(bytes, self.recipe, seq))
    }
}

/// `{"device":"sensor-1-main-1","ts":1700000000.123,"seq":7,"data":"…"}`, filled up to the announced length.
#[derive(Debug)]
struct Reading {
    prefix: String,
    /// Ends in the wrong bracket.
    spoiled: bool,
}

impl Recipe for Reading {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn malformed(&self) -> bool {
        self.spoiled
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let (start, length) = (out.len(), cx.bytes as usize);
        let (device, seq, millis) = (cx.member + 1, cx.seq % 10_u64.pow(SEQ_DIGITS as u32), cx.epoch_ns / 1_000_000);
        write!(
            out,
            r#"{{"device":"{}-{device}","ts":{}.{:03},"seq":{seq},"data":""#,
            self.prefix,
            millis / 1000,
            millis % 1000,
        )
        .expect("memory is the only limit");
        let end: &[u8] = if self.spoiled { b"\"]" } else { b"\"}" };
        fill(out, length.saturating_sub(out.len() - start + end.len()), cx.seq);
        out.extend_from_slice(end);
        out.truncate(start + length);
    }
}

/// Appends `length` characters that follow from the reading's number.
fn fill(out: &mut BytesMut, length: usize, seq: u64) {
    let (mut from, mut left) = ((seq % DATA.len() as u64) as usize, length);
    while left > 0 {
        let count = left.min(DATA.len() - from);
        out.extend_from_slice(&DATA[from..from + count]);
        (from, left) = (0, left - count);
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::messages::StartAt;
    use rehearsal_core::plan::{Carrier, LinkSpec};
    use rehearsal_core::sender::SenderParams;
    use rehearsal_core::units::Fraction;
    use rehearsal_core::{Command, Event, MetricId, Request, Time, TimerKey};
    use serde_json::Value;

    use super::*;
    use crate::testing::{Experiment, Stage, at, sender};

    fn stage(bytes: u64, sender: SenderParams) -> Stage {
        let experiment = Experiment { sender: Some(sender), ..Experiment::default() };
        experiment.build::<Sensor>(&SensorParams { bytes: ByteSize(bytes), sizes: None }).expect("it builds")
    }

    /// The first request, after a start at 1 s.
    fn first(stage: &mut Stage) -> (Request, Vec<Command>) {
        let wishes = stage.say(at(0), StartAt { at: at(1000), until: None });
        let [Command::SetTimer { key: TimerKey(0), at: due }] = wishes[..] else { panic!("{wishes:?}") };
        let wishes = stage.tell(due, Event::Timer { key: TimerKey(0), due });
        let request = wishes.iter().find_map(|w| match w {
            Command::Request(request) => Some(*request),
            _ => None,
        });
        (request.expect("a request"), wishes)
    }

    #[test]
    fn a_reading_is_json_of_exactly_the_size_asked_for() {
        for bytes in [77, 160, 1000, 65_536] {
            let mut stage = stage(bytes, sender());
            let (request, _) = first(&mut stage);
            let text = stage.render(Payload { seq: 81, ..request.payload });
            assert_eq!(text.len() as u64, bytes);
            let value: Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!((&value["device"], &value["seq"]), (&Value::from("lab-main-5"), &Value::from(81)));
            assert!(String::from_utf8_lossy(&text).contains(r#""ts":1700000000.123,"#));
            assert_eq!(stage.recipe(request.payload).content_type(), "application/json");
            assert!(!stage.recipe(request.payload).malformed());
        }
    }

    #[test]
    fn a_reading_of_the_smallest_size_still_has_room_for_every_number() {
        let mut stage = stage(77, sender());
        let (request, _) = first(&mut stage);
        for seq in [0, 10_u64.pow(12) - 1, u64::MAX] {
            let text = stage.render(Payload { seq, ..request.payload });
            assert_eq!(text.len(), 77);
            serde_json::from_slice::<Value>(&text).expect("JSON");
        }
    }

    #[test]
    fn one_reading_is_the_same_each_time_and_differs_from_the_next() {
        let mut stage = stage(500, sender());
        let (request, _) = first(&mut stage);
        let text = |seq| stage.render(Payload { seq, ..request.payload });
        assert_eq!(text(3), text(3));
        let data = |seq| serde_json::from_slice::<Value>(&text(seq)).expect("JSON")["data"].clone();
        assert_ne!(data(3), data(4));
    }

    #[test]
    fn drawn_sizes_are_within_their_bounds_and_follow_the_number() {
        let text = r#"{"dist":"lognormal","mean":"1kB","cv":2,"min":"160B","max":"8kB","truncate":"clamp"}"#;
        let sizes: Distribution<ByteSize> = serde_json::from_str(text).expect("a distribution");
        let law = sizes.law().expect("a law");
        let sampler = Arc::new(Sampler::new("sizes", &law).expect("a sampler"));
        let seed =
            rehearsal_core::rng::Seed { seed: 1, repetition: 0, group: "a/b", member: 0, stream: 0, purpose: "sizes" };
        let fresh = || Sizes { sampler: sampler.clone(), draws: [(0, RngStream::new(seed))].into() };
        let mut all = fresh();
        let drawn: Vec<u32> = (0..10_000).map(|seq| all.draw(0, seq).expect("a size")).collect();
        assert!(drawn.iter().all(|bytes| (160..=8000).contains(bytes)));
        let mean = drawn.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / 1e4;
        assert!((mean - law.moments().mean).abs() < 5.0 * law.moments().sd / 100.0, "five standard errors: {mean}");
        // a node that comes back goes on where its numbers do
        let mut late = fresh();
        assert_eq!([late.draw(0, 777), late.draw(0, 778), late.draw(0, 900)], [777, 778, 900].map(|i| Some(drawn[i])));

        let of = |sizes| {
            Experiment { sender: Some(sender()), ..Experiment::default() }
                .refusal::<Sensor>(&SensorParams { sizes: Some(sizes), ..SensorParams::default() })
        };
        let (key, reason) = of(Distribution { min: None, truncate: None, max: None, ..sizes });
        assert_eq!(key, Some("sizes"));
        assert!(reason.contains("set `min` and `max`"), "{reason}");
    }

    #[test]
    fn a_spoiled_reading_has_the_same_size_and_is_no_json() {
        let mut stage = stage(300, SenderParams { malformed: Fraction(1.0), ..sender() });
        let (request, wishes) = first(&mut stage);
        assert!(wishes.contains(&Command::Count { metric: MetricId::MALFORMED, by: 1 }));
        assert!(stage.recipe(request.payload).malformed());
        let text = stage.render(request.payload);
        assert_eq!(text.len(), 300);
        assert!(serde_json::from_slice::<Value>(&text).is_err());
    }

    #[test]
    fn it_counts_from_the_schedule_and_not_from_the_wake_up() {
        let mut stage = stage(1000, sender());
        let (request, wishes) = first(&mut stage);
        assert_eq!((request.intended, request.at, request.attempt), (request.at, request.intended, 0));
        assert!(request.intended >= at(1000) && request.intended < at(1100));
        let Some(Command::SetTimer { at: next, .. }) = wishes.last() else { panic!("{wishes:?}") };
        assert_eq!(next.since(request.intended), at(100).since(Time::ZERO));
        let late = stage.tell(*next + at(7).since(Time::ZERO), Event::Timer { key: TimerKey(0), due: *next });
        let Some(Command::Request(second)) = late.first() else { panic!("{late:?}") };
        assert_eq!((second.intended, second.seq), (*next, 1));
        assert_eq!(stage.name(request.to), "lab.v1.r1.trf.receiver.main");
        assert!(stage.hears("lab.v1.r1.ctl.services.controller.start"));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let refusal = |bytes, link: LinkSpec| {
            let experiment = Experiment { sender: Some(sender()), link, ..Experiment::default() };
            experiment.refusal::<Sensor>(&SensorParams { bytes: ByteSize(bytes), sizes: None })
        };
        let (key, reason) = refusal(71, LinkSpec::default());
        assert_eq!((key, reason.as_str()), (Some("bytes"), "a reading of this device has 72B to 16MiB"));
        assert_eq!(refusal(17 << 20, LinkSpec::default()).0, Some("bytes"));
        let (key, reason) = refusal(70_000, LinkSpec { carrier: Carrier::Udp, ..LinkSpec::default() });
        assert_eq!(key, Some("bytes"));
        assert!(reason.contains("a datagram carries 32B to 65507B"), "{reason}");
    }
}
