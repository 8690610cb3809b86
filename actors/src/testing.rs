//! What the tests of all kinds share: a small experiment, and one of its groups to talk to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use rehearsal_core::assembly::{
    Assembly, AssemblyError, CastPackets, ClipFrames, LiveMedia, MediaSource, RecordedPackets,
};
use rehearsal_core::dialogue::{Casting, Dialogue, Direction, Line};
use rehearsal_core::kind::{Build, BuildError, Decoded};
use rehearsal_core::life::OnLoss;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::plan::{GroupPlan, LinkSpec, NodeInfo, NodePlan, Plan, RunInfo, Stop};
use rehearsal_core::recording::{Recorded, TemplateRequest};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::steer::PlannedSteer;
use rehearsal_core::units::{ByteRange, Rate};
use rehearsal_core::{Body, Command, Event, Kind, Message, Outbox, Payload, Recipe, Role, Span, SubjectId, Time};

use crate::{Receiver, receiver::ReceiverParams};

/// The instant `millis` ms after the run was created.
pub(crate) fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Keys of a sender to `receiver/main`: ten a second, five in all.
pub(crate) fn sender() -> SenderParams {
    SenderParams {
        to: "receiver/main".into(),
        spread: Default::default(),
        streams: 1,
        requests: Some(5),
        rate: Some(Rate::per_second(10)),
        arrivals: None,
        in_flight: 1,
        on_late: Default::default(),
        queue: 1000,
        timeout: Span::from_secs(10),
        retries: 3,
        backoff: Span::from_millis(100),
        limit: None,
        malformed: Default::default(),
        dscp: rehearsal_core::dscp::Dscp::DF,
        request: None,
        service: None,
    }
}

/// An experiment of two nodes: the kind under test in `lab`, as actor `main`, and a receiver.
pub(crate) struct Experiment {
    pub(crate) stop: Stop,
    /// Name and whether it sends.
    pub(crate) nodes: Vec<(&'static str, bool)>,
    pub(crate) count: u32,
    pub(crate) first: u32,
    pub(crate) link: LinkSpec,
    pub(crate) sender: Option<SenderParams>,
    pub(crate) on_loss: OnLoss,
    pub(crate) control: Vec<PlannedSteer>,
}

impl Default for Experiment {
    fn default() -> Self {
        Experiment {
            stop: Stop::AllRequestsDone,
            nodes: vec![("lab", true), ("receiver", false)],
            count: 1,
            first: 0,
            link: LinkSpec::default(),
            sender: None,
            on_loss: OnLoss::default(),
            control: Vec::new(),
        }
    }
}

impl Experiment {
    fn plan<K: Kind>(&self, params: &K::Params) -> Plan {
        let group = |kind, role, count, build: Arc<dyn Build>| GroupPlan {
            kind,
            ..GroupPlan::by_hand("main", role, count, build)
        };
        let build = Arc::new(Decoded::<K>(params.clone()));
        let tested = group(K::NAME, K::ROLE, self.count, build);
        let tested = GroupPlan { first: self.first, sender: self.sender.clone(), ..tested };
        let answers = Arc::new(Decoded::<Receiver>(ReceiverParams::default()));
        let answers = group("receiver", Role::Receiver, 1, answers);
        let info = RunInfo {
            lead: Span::from_millis(500),
            grace: Span::from_secs(1),
            on_loss: self.on_loss,
            control: self.control.clone(),
            nodes: self.nodes.iter().map(|(n, s)| NodeInfo { name: (*n).into(), sends: *s }).collect(),
            ..RunInfo::by_hand("r1", self.stop)
        };
        let nodes = vec![NodePlan::by_hand("lab", vec![tested]), NodePlan::by_hand("receiver", vec![answers])];
        Plan { base: PathBuf::from("base"), ..Plan::by_hand(info, nodes, self.link.clone()) }
    }

    /// Builds it, with kind `K` under test.
    pub(crate) fn build<K: Kind>(&self, params: &K::Params) -> Result<Stage, AssemblyError> {
        let mut clips = Clips::default();
        let assembly = Assembly::build(self.plan::<K>(params), &mut clips)?;
        Ok(Stage { assembly, asked: clips.asked, out: Outbox::default() })
    }

    /// Why it cannot be built: the key at fault and the text.
    pub(crate) fn refusal<K: Kind>(&self, params: &K::Params) -> (Option<&'static str>, String) {
        let error = self.build::<K>(params).err().expect("it cannot be built");
        (error.source.key, error.source.reason)
    }
}

/// The group under test.
pub(crate) struct Stage {
    pub(crate) assembly: Assembly,
    /// Clips that were asked for, and whether live.
    pub(crate) asked: Vec<(PathBuf, bool)>,
    out: Outbox,
}

impl Stage {
    /// Hands an event to member `index`; its wishes.
    pub(crate) fn tell_member(&mut self, index: u32, now: Time, event: Event<'_>) -> Vec<Command> {
        self.assembly.groups[0].pool.handle(index, now, event, &mut self.out);
        self.out.drain().collect()
    }

    /// Hands an event to the first member; its wishes.
    pub(crate) fn tell(&mut self, now: Time, event: Event<'_>) -> Vec<Command> {
        self.tell_member(0, now, event)
    }

    /// Hands the first member a message as a value.
    pub(crate) fn say<M: Message>(&mut self, now: Time, message: M) -> Vec<Command> {
        let body = Body::new(message);
        self.tell(now, Event::Message { subject: SubjectId(0), body: &body })
    }

    /// Hands the first member a message as it comes over a wire.
    pub(crate) fn say_wire<M: Message>(&mut self, now: Time, message: M) -> Vec<Command> {
        let body = Body::from_wire(Body::new(message).to_wire(&Default::default()));
        self.tell(now, Event::Message { subject: SubjectId(0), body: &body })
    }

    /// The name of a subject.
    pub(crate) fn name(&self, subject: SubjectId) -> String {
        self.assembly.subjects.name(subject).into_owned()
    }

    /// The messages of one type among `wishes`, with the names of their subjects.
    pub(crate) fn published<M: Message>(&self, wishes: &[Command]) -> Vec<(String, M)> {
        let body = |wish: &Command| match wish {
            Command::Publish { subject, body } => body.get::<M>().ok().map(|m| (self.name(*subject), m.into_owned())),
            _ => None,
        };
        wishes.iter().filter_map(body).collect()
    }

    /// The counter of a name, summed over `wishes`.
    pub(crate) fn counted(&self, wishes: &[Command], name: &str) -> u64 {
        let place = self.assembly.groups[0].metrics.iter().position(|m| *m == name).expect("a named counter");
        let by = |wish: &Command| match wish {
            Command::Count { metric, by }
                if usize::from(metric.0) == place + usize::from(rehearsal_core::MetricId::FIRST_OWN) =>
            {
                *by
            }
            _ => 0,
        };
        wishes.iter().map(by).sum()
    }

    /// Whether a message on subject `name` reaches the group under test.
    pub(crate) fn hears(&mut self, name: &str) -> bool {
        let subject = self.assembly.subjects.intern(name);
        let base = self.assembly.groups[0].base;
        self.assembly.routes().hearers(subject).contains(&base)
    }

    /// The bytes of a payload, as member 4 sends them 1.7·10^9 s and 123 ms after 1970.
    pub(crate) fn render(&self, payload: Payload) -> Vec<u8> {
        let mut out = BytesMut::from(&b"before"[..]);
        let cx =
            RenderContext { seq: payload.seq, member: 4, epoch_ns: 1_700_000_000_123_456_789, bytes: payload.bytes };
        self.recipe(payload).render(cx, &mut out);
        out.strip_prefix(b"before").expect("it appends").to_vec()
    }

    /// The recipe of a payload.
    pub(crate) fn recipe(&self, payload: Payload) -> &dyn Recipe {
        &*self.assembly.recipes[usize::from(payload.recipe.0)]
    }
}

/// The messages of one type among `wishes`.
pub(crate) fn messages<M: Message>(wishes: &[Command]) -> Vec<M> {
    let message = |wish: &Command| match wish {
        Command::Publish { body, .. } => body.get::<M>().ok().map(|m| m.into_owned()),
        _ => None,
    };
    wishes.iter().filter_map(message).collect()
}

/// Every clip has three frames, of 100, 150 and 200 kB.
#[derive(Debug, Default)]
struct Clips {
    asked: Vec<(PathBuf, bool)>,
}

#[derive(Debug)]
struct Frame;

impl Recipe for Frame {
    fn content_type(&self) -> &'static str {
        "image/jpeg"
    }
    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        out.resize(out.len() + cx.bytes as usize, 0xff);
    }
}

impl LiveMedia for Frame {
    fn encode(&self, _: u64) -> Result<u32, String> {
        Ok(100_000)
    }
}

impl MediaSource for Clips {
    fn clip(&mut self, path: &Path, bytes: ByteRange, live: bool) -> Result<ClipFrames, String> {
        if path.ends_with("missing.mp4") {
            return Err(format!("{}: no such file", path.display()));
        }
        assert_eq!(bytes.max.0, 200_000);
        self.asked.push((path.to_owned(), live));
        let sizes = Arc::from([100_000, 150_000, 200_000]);
        Ok(ClipFrames { recipe: Arc::new(Frame), sizes, live: live.then(|| Arc::new(Frame) as _) })
    }

    /// Two questions and two answers: after 10 ms, 20 ms later, and 15 ms after that; 100 bytes each, 142 as frames.
    fn conversations(
        &mut self,
        _: &Path,
        request: &TemplateRequest,
        casting: &Casting,
    ) -> Result<CastPackets, BuildError> {
        use Direction::{Backward, Forward};
        let said = [(Forward, 0), (Backward, 10), (Forward, 30), (Backward, 45)];
        let line = |(packet, (side, ms)): (u32, (Direction, u64))| Line {
            packet,
            side,
            at: ms * 1_000_000,
            key: Some(u64::from(packet)),
        };
        let dialogue = Arc::new(Dialogue::new((0..).zip(said).map(line)));
        let (recipe, bytes) = (Arc::new(Frame), if request.frames { 142 } else { 100 });
        let count = casting.conversations.unwrap_or(1) as u32;
        Ok(CastPackets { recipe, repertoire: Arc::from([dialogue]), bytes: Arc::from([vec![bytes; 2]]), count })
    }

    /// Four packets of two streams within 30 ms, 40 ms from loop to loop; `burst` is one packet in no time.
    fn recording(&mut self, _: &Path, request: &TemplateRequest) -> Result<RecordedPackets, BuildError> {
        let packet = |at: u64, stream, place| {
            let bytes = if request.frames { 142 } else { 100 };
            Recorded { at: Span::from_millis(at), bytes, stream, place }
        };
        let recipe = Arc::new(Frame);
        if request.template == "burst" {
            let packets = Arc::from([packet(0, 0, 0)]);
            return Ok(RecordedPackets { recipe, packets, streams: Arc::from([1]), period: Span::ZERO });
        }
        let packets = Arc::from([packet(0, 0, 0), packet(10, 1, 0), packet(20, 0, 1), packet(30, 0, 2)]);
        Ok(RecordedPackets { recipe, packets, streams: Arc::from([3, 1]), period: Span::from_millis(40) })
    }
}
