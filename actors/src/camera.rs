//! The camera: JPEG frames of a clip, encoded before the run or while it goes on.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use rehearsal_core::kind::{FrameRequest, Frames, Weight};
use rehearsal_core::payload::RenderContext;
use rehearsal_core::units::{ByteRange, ByteSize};
use rehearsal_core::{BuildError, GroupContext, Kind, MetricId, Payload, Pool, Recipe, Role, Wiring, Work};
use rehearsal_models::{Next, Payloads, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends the frames of a clip as JPEG.
pub struct Camera;

/// The camera's own keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CameraParams {
    /// The clip, an MP4 file with H.264 video, relative to the experiment file.
    pub media: PathBuf,
    /// Bounds of an encoded frame. The default is the size of the frames in PL-5G.
    #[serde(default = "pl5g_frame")]
    pub frame: ByteRange,
    /// When frames are encoded.
    #[serde(default)]
    pub encode: Encode,
}

/// When frames are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encode {
    /// Before the run, once for all cameras of the group: encoding costs the run nothing.
    #[default]
    Prepared,
    /// When they are due, by an encoder of each camera's own: encoding costs what it costs in the field.
    Live,
}

const fn pl5g_frame() -> ByteRange {
    ByteRange { min: ByteSize(100_000), max: ByteSize(200_000) }
}

impl Kind for Camera {
    const NAME: &'static str = "camera";
    const SUMMARY: &'static str = "sends the frames of a clip as JPEG";
    const ROLE: Role = Role::Sender;
    type Params = CameraParams;

    fn build(
        params: &CameraParams,
        cx: &GroupContext<'_>,
        wiring: &mut dyn Wiring,
    ) -> Result<Box<dyn Pool>, BuildError> {
        let spoiled = wiring.recipe(Arc::new(NoPicture));
        let spec = SourceSpec::new(cx, wiring, spoiled)?;
        spec.check_bytes("frame", params.frame.min.0, params.frame.max.0)?;
        let live = params.encode == Encode::Live;
        let request = FrameRequest { media: params.media.clone(), bytes: params.frame, live };
        let encode_failed = live.then(|| wiring.metric("encode_failed"));
        let prepared = if live { None } else { Some(wiring.frames(&request)?) };
        let mut bytes = 0.0;
        let mut members = Vec::with_capacity(cx.members.len());
        for member in cx.members.clone() {
            let frames = match &prepared {
                Some(frames) => frames.clone(),
                None => wiring.frames(&request)?,
            };
            bytes = frames.sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / frames.sizes.len().max(1) as f64;
            let starts = starts(&frames, spec.streams(), wiring, member);
            members.push(Source::new(&spec, wiring, member, Clip { frames, starts, encode_failed }));
        }
        wiring.weight(Weight { encode: live, ..Weight::of(bytes, params.frame.max.0) });
        Ok(Box::new(members))
    }
}

/// For each stream of a member, the frame it begins with.
fn starts(frames: &Frames, streams: u32, wiring: &dyn Wiring, member: u32) -> Box<[u32]> {
    let length = frames.sizes.len() as u64;
    (0..streams).map(|stream| wiring.rng(member, stream, "frame").below(length) as u32).collect()
}

/// A clip as one member sends it.
#[derive(Debug)]
struct Clip {
    frames: Frames,
    starts: Box<[u32]>,
    /// Where frames are encoded while the run goes on: the counter of those that could not be.
    encode_failed: Option<MetricId>,
}

impl Payloads for Clip {
    fn payload(&mut self, stream: u32, seq: u64) -> Next {
        let frame = u64::from(self.starts[stream as usize]).wrapping_add(seq);
        if self.encode_failed.is_some() {
            return Next::Encode(Work::Encode { media: self.frames.media, frame });
        }
        let index = frame % self.frames.sizes.len() as u64;
        Next::Ready(Payload::new(self.frames.sizes[index as usize], self.frames.recipe, index))
    }

    fn encode_failed(&self) -> Option<MetricId> {
        self.encode_failed
    }
}

/// Announced as JPEG, and none: there is no start-of-image marker (ITU-T T.81, B.1.1.3) anywhere.
#[derive(Debug)]
struct NoPicture;

impl Recipe for NoPicture {
    fn content_type(&self) -> &'static str {
        "image/jpeg"
    }

    fn malformed(&self) -> bool {
        true
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let byte = (cx.seq % 128) as u8;
        out.resize(out.len() + cx.bytes as usize, byte);
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_core::messages::StartAt;
    use rehearsal_core::sender::SenderParams;
    use rehearsal_core::units::Fraction;
    use rehearsal_core::{Command, Event, Request, TimerKey, WorkResult};

    use super::*;
    use crate::testing::{Experiment, Stage, at, sender};

    fn params(encode: Encode) -> CameraParams {
        CameraParams { media: "clip.mp4".into(), frame: pl5g_frame(), encode }
    }

    fn stage(encode: Encode, sender: SenderParams) -> Stage {
        let experiment = Experiment { sender: Some(sender), count: 2, ..Experiment::default() };
        experiment.build::<Camera>(&params(encode)).expect("it builds")
    }

    /// All first attempts of member `index`, each timer followed at once.
    fn requests(stage: &mut Stage, index: u32) -> Vec<Request> {
        let body = rehearsal_core::Body::new(StartAt { at: at(1000), until: None });
        let subject = rehearsal_core::SubjectId(0);
        let mut wishes = stage.tell_member(index, at(0), Event::Message { subject, body: &body });
        let mut requests = Vec::new();
        while let Some(wish) = wishes.pop() {
            match wish {
                Command::SetTimer { key, at } => {
                    wishes.extend(stage.tell_member(index, at, Event::Timer { key, due: at }));
                }
                Command::Request(request) => requests.push(request),
                _ => {}
            }
        }
        requests.sort_by_key(|r| r.seq);
        requests
    }

    #[test]
    fn prepared_frames_follow_the_clip_from_a_frame_of_their_own() {
        let mut stage = stage(Encode::Prepared, SenderParams { requests: Some(30), ..sender() });
        assert_eq!(stage.asked, [("base/clip.mp4".into(), false)], "one clip for the group");
        for member in 0..2 {
            let requests = requests(&mut stage, member);
            assert_eq!(requests.len(), 30);
            let first = requests[0].payload.seq;
            for (k, request) in requests.iter().enumerate() {
                let frame = (first + k as u64) % 3;
                assert_eq!(request.payload.seq, frame);
                assert_eq!(request.payload.bytes, [100_000, 150_000, 200_000][frame as usize]);
            }
            assert_eq!(stage.recipe(requests[0].payload).content_type(), "image/jpeg");
        }
    }

    #[test]
    fn streams_begin_at_different_frames() {
        let streams = SenderParams { streams: 40, requests: Some(1), ..sender() };
        let first: Vec<u64> =
            requests(&mut stage(Encode::Prepared, streams), 0).iter().map(|r| r.payload.seq).collect();
        assert_eq!(first.len(), 40);
        assert!([0, 1, 2].iter().all(|f| first.contains(f)), "{first:?}");
    }

    #[test]
    fn a_live_frame_is_encoded_when_it_is_due_and_is_late_by_that() {
        let mut stage = stage(Encode::Live, sender());
        assert_eq!(stage.asked.len(), 2, "an encoder for each camera");
        assert!(stage.asked.iter().all(|(_, live)| *live));
        let wishes = stage.say(at(0), StartAt { at: at(1000), until: None });
        let [Command::SetTimer { at: due, .. }] = wishes[..] else { panic!("{wishes:?}") };
        let wishes = stage.tell(due, Event::Timer { key: TimerKey(0), due });
        let [Command::Work { key, work: Work::Encode { frame, .. } }, Command::SetTimer { .. }] = wishes[..] else {
            panic!("{wishes:?}")
        };
        assert!(frame < 3);
        let made = Payload::new(123_456, rehearsal_core::RecipeId(7), frame);
        let now = due + rehearsal_core::Span::from_millis(9);
        let wishes = stage.tell(now, Event::WorkDone { key, result: &WorkResult::Produced(made) });
        let [Command::Request(request)] = wishes[..] else { panic!("{wishes:?}") };
        assert_eq!((request.intended, request.at, request.payload), (due, due, made));
    }

    #[test]
    fn a_spoiled_frame_has_the_size_of_the_frame_and_is_no_picture() {
        let spoiled = SenderParams { malformed: Fraction(1.0), ..sender() };
        let mut stage = stage(Encode::Prepared, spoiled);
        let requests = requests(&mut stage, 0);
        assert_eq!(requests.len(), 5);
        for request in requests {
            assert!(stage.recipe(request.payload).malformed());
            let bytes = stage.render(request.payload);
            assert_eq!(bytes.len() as u32, request.payload.bytes);
            assert!(!bytes.windows(2).any(|w| w == [0xff, 0xd8]));
        }
    }

    #[test]
    fn a_clip_that_is_not_there_is_named() {
        let experiment = Experiment { sender: Some(sender()), ..Experiment::default() };
        let missing = CameraParams { media: "missing.mp4".into(), ..params(Encode::Prepared) };
        let expected = (Some("media"), "base/missing.mp4: no such file".to_owned());
        assert_eq!(experiment.refusal::<Camera>(&missing), expected);
    }

    #[test]
    fn its_keys_are_read_and_a_wrong_one_is_refused() {
        let read = |text: &str| serde_json::from_str::<CameraParams>(text);
        assert_eq!(read(r#"{"media": "clip.mp4"}"#).expect("the defaults"), params(Encode::Prepared));
        let live = read(r#"{"media": "clip.mp4", "encode": "live", "frame": "100kB..200kB"}"#).expect("all keys");
        assert_eq!(live, params(Encode::Live));
        assert!(read(r#"{"media": "clip.mp4", "encoding": "live"}"#).is_err());
        assert!(read("{}").is_err(), "a camera has a clip");
    }
}
