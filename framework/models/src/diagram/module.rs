//! Interface modules: what goes on while a user communicates, as a model writes it.
//!
//! One table for all kinds, of which each takes its own keys; [`Module::takes`] tells which are missing or too many.

use rehearsal_core::Span;
use rehearsal_core::distribution::Distribution;
use rehearsal_core::script::StepSpec;
use rehearsal_core::units::{BitRate, ByteSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most rows of a frame-size trace or a cycle of sizes. Assumed: an hour at 25 frames/s.
pub const ROWS_MAX: usize = 90_000;
/// Header of RTP, bytes. Source: RFC 3550 §5.1.
pub const RTP_BYTES: u32 = 12;
/// Largest payload of one packet, bytes: a full Ethernet frame less IPv4 and UDP (RFC 791, RFC 768).
pub const PACKET_BYTES: u64 = 1472;

/// What goes on while a user communicates. Which keys there are depends on `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// What it is.
    pub kind: Kind,
    /// How long a flow goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Distribution<Span>>,
    /// After so many packets or frames a flow ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// From one packet or frame to the next. A flow begins at a random point of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Drawn gaps, instead of `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Distribution<Span>>,
    /// Departures are early or late against their interval; the interval's own clock does not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Payload of each packet or frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// Drawn payloads, instead of `bytes`; of `file`, the size of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Distribution<ByteSize>>,
    /// Payloads in turn, from a random one on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<ByteSize>,
    /// Largest payload of one packet: longer frames are cut. Without it, 1472 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<ByteSize>,
    /// How the packets of a frame leave; without it, in a burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emission: Option<Emission>,
    /// The codec of `voip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<Codec>,
    /// Length of a talk spurt. With `talk` and `silence` nothing is sent in silence, save what a codec sends then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talk: Option<Distribution<Span>>,
    /// Length of a silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Distribution<Span>>,
    /// The order of frames of `video`, such as `IBBPBBPBBPBB`. A flow begins at a random one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gop: Option<String>,
    /// Sizes of I frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub i: Option<Distribution<ByteSize>>,
    /// Sizes of P frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<Distribution<ByteSize>>,
    /// Sizes of B frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<Distribution<ByteSize>>,
    /// Bits of each interval of `trace`, from a random one on and again from the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bits: Vec<u64>,
    /// A file with the bits of an interval in each row, relative to the experiment file; instead of `bits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Which way payloads go. Without it, `file` and `web` load down and others send up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Payload of the request for what is loaded down. Without it, 328 B (3GPP web model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ByteSize>,
    /// Size of a page's main object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<Distribution<ByteSize>>,
    /// Size of an object in a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<Distribution<ByteSize>>,
    /// How many objects are in a page, after `less` is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<Distribution<u32>>,
    /// What is taken from a drawn number of objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub less: Option<u32>,
    /// From the main object to the first request for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parsing: Option<Distribution<Span>>,
    /// Bit rates that a video of `dash` is there in, from the lowest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<BitRate>,
    /// Play time of a segment of `dash`. Without it, 4 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Span>,
    /// Play time that is loaded ahead by `dash`, at most. Without it, 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Span>,
    /// Coefficient of variation: of a segment of `dash` around its rate, lognormal, 0.2 without it; of the frames of `gbar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub cv: Option<f64>,
    /// Correlation of the sizes of a frame of `gbar` and the next, above 0 and below 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub correlation: Option<f64>,
    /// Requests of one page that are under way at the same time. Without it, 6 (what browsers allow for one origin).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub parallel: Option<u32>,
}

/// Kinds of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Packets of one size, or of sizes in turn, at a fixed interval.
    Cbr,
    /// Packets or frames of drawn sizes, at drawn gaps or with jitter.
    Drawn,
    /// Speech: packets of a codec in RTP, with talk spurts.
    Voip,
    /// Frames of a group of pictures.
    Video,
    /// Frames whose sizes are a gamma-beta autoregressive process, as of a video conference.
    Gbar,
    /// Frames whose bits are given.
    Trace,
    /// A page: a main object, then those embedded in it, some at a time.
    Web,
    /// One file.
    File,
    /// Video in segments, each loaded at the rate that the one before allowed, until enough is loaded ahead.
    Dash,
    /// A request that a state's `step` makes: no module is written so.
    #[serde(skip)]
    Step,
}

/// Which way payloads go, as seen from the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the user.
    Up,
    /// To the user, who sends a request for each: over carriers with answers only.
    Down,
}

/// How the packets of a frame leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Emission {
    /// All at once.
    #[default]
    Burst,
    /// Evenly over the interval.
    Spread,
}

/// Normal jitter, drawn again beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Standard deviation before it is bounded.
    pub sd: Span,
    /// The farthest from the mean.
    pub max: Span,
}

/// Codecs: payload and interval. Sources: ITU-T G.711, G.729, G.723.1, G.726; Cisco, "Voice over IP – per call bandwidth
/// consumption"; NGMN radio access performance evaluation methodology, annex B (AMR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Codec {
    /// 160 B every 20 ms, 64 kbit/s.
    #[serde(rename = "g711")]
    G711,
    /// 20 B every 20 ms, 8 kbit/s.
    #[serde(rename = "g729")]
    G729,
    /// 24 B every 30 ms, 6.3 kbit/s.
    #[serde(rename = "g723.1")]
    G7231,
    /// 80 B every 20 ms, 32 kbit/s.
    #[serde(rename = "g726")]
    G726,
    /// 40 B every 20 ms with all headers, compressed; in silence 15 B every 160 ms.
    #[serde(rename = "amr12.2")]
    Amr122,
}

/// What a codec sends, bytes and interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a packet, with the RTP header.
    pub bytes: u32,
    /// From one packet to the next.
    pub every: Span,
    /// The same in silence, if something is sent then.
    pub silence: Option<(u32, Span)>,
}

impl Codec {
    /// What it sends. The AMR figures hold the headers (compressed, as the source counts them).
    pub const fn framing(self) -> Framing {
        match self {
            Codec::G711 => Framing { bytes: 160 + RTP_BYTES, every: Span::from_millis(20), silence: None },
            Codec::G729 => Framing { bytes: 20 + RTP_BYTES, every: Span::from_millis(20), silence: None },
            Codec::G7231 => Framing { bytes: 24 + RTP_BYTES, every: Span::from_millis(30), silence: None },
            Codec::G726 => Framing { bytes: 80 + RTP_BYTES, every: Span::from_millis(20), silence: None },
            Codec::Amr122 => {
                Framing { bytes: 40, every: Span::from_millis(20), silence: Some((15, Span::from_millis(160))) }
            }
        }
    }
}

/// Keys that each kind needs (one of each group), and those that it takes beside.
type Takes = (Kind, &'static str, &'static [&'static [&'static str]], &'static [&'static str]);

const PACED: &[&str] = &["lasts", "count"];
const TAKES: [Takes; 9] = [
    (
        Kind::Cbr,
        "cbr",
        &[PACED, &["every"], &["bytes", "cycle"]],
        &["packet", "emission", "direction", "request", "talk", "silence"],
    ),
    (
        Kind::Drawn,
        "drawn",
        &[PACED, &["every", "gaps"], &["bytes", "sizes"]],
        &["jitter", "packet", "emission", "direction", "request", "talk", "silence"],
    ),
    (Kind::Voip, "voip", &[PACED, &["codec"]], &["talk", "silence"]),
    (Kind::Video, "video", &[PACED, &["every"], &["gop"]], &["i", "p", "b", "jitter", "packet", "emission"]),
    (
        Kind::Gbar,
        "gbar",
        &[PACED, &["every"], &["bytes"], &["cv"], &["correlation"]],
        &["jitter", "packet", "emission"],
    ),
    (Kind::Trace, "trace", &[PACED, &["every"], &["bits", "file"]], &["packet", "emission"]),
    (Kind::Web, "web", &[&["main"]], &["embedded", "objects", "less", "parsing", "parallel", "request"]),
    (Kind::File, "file", &[&["sizes", "bytes"]], &["direction", "request"]),
    (Kind::Dash, "dash", &[PACED, &["ladder"]], &["segment", "buffer", "cv", "request"]),
];

impl Kind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        TAKES.iter().find(|(kind, ..)| *kind == self).map_or("step", |(_, word, ..)| word)
    }

    /// Whether its flows end by answers rather than by time.
    pub const fn waits(self) -> bool {
        matches!(self, Kind::Web | Kind::File | Kind::Dash | Kind::Step)
    }
}

impl Module {
    /// With nothing set but its kind.
    pub const fn plain(kind: Kind) -> Module {
        Module {
            kind,
            lasts: None,
            count: None,
            every: None,
            gaps: None,
            jitter: None,
            bytes: None,
            sizes: None,
            cycle: Vec::new(),
            packet: None,
            emission: None,
            codec: None,
            talk: None,
            silence: None,
            gop: None,
            i: None,
            p: None,
            b: None,
            bits: Vec::new(),
            file: None,
            direction: None,
            request: None,
            main: None,
            embedded: None,
            objects: None,
            less: None,
            parsing: None,
            ladder: Vec::new(),
            segment: None,
            buffer: None,
            cv: None,
            correlation: None,
            parallel: None,
        }
    }

    /// What a step comes to: a request of so many bytes, and an answer.
    pub fn of_step(step: &StepSpec, body_bytes: u32) -> Module {
        let (bytes, request) = (step.answer, Some(ByteSize(u64::from(body_bytes))));
        Module { bytes, request, ..Module::plain(Kind::Step) }
    }

    /// Payload of a request for something that is loaded down, bytes.
    pub fn request_bytes(&self) -> u32 {
        self.request.map_or(328, |size| size.0 as u32)
    }

    /// Which way its payloads go.
    pub fn way(&self) -> Direction {
        let usual = if self.kind.waits() { Direction::Down } else { Direction::Up };
        self.direction.unwrap_or(usual)
    }

    /// Requests of one flow under way at the same time.
    pub fn parallel(&self) -> u32 {
        if self.kind == Kind::Web { self.parallel.unwrap_or(6) } else { 1 }
    }

    /// Largest payload of one packet, bytes. What is loaded down is one answer, and not cut.
    pub fn packet_bytes(&self) -> u32 {
        match (self.packet, self.way()) {
            (Some(size), _) => size.0 as u32,
            (None, Direction::Down) => u32::MAX,
            (None, Direction::Up) => PACKET_BYTES as u32,
        }
    }

    /// Whether the keys that are there are those of its kind: else the key at fault and the reason.
    ///
    /// # Errors
    /// The key, and what to write instead.
    pub fn takes(&self) -> Result<(), (&'static str, String)> {
        let there = self.there();
        let Some((_, word, needed, beside)) = TAKES.iter().find(|(kind, ..)| *kind == self.kind) else { return Ok(()) };
        let takes = |key: &str| needed.iter().any(|group| group.contains(&key)) || beside.contains(&key);
        if let Some(key) = there.iter().find(|key| !takes(key)) {
            let keys: Vec<String> =
                needed.iter().flat_map(|group| *group).chain(*beside).map(|key| format!("`{key}`")).collect();
            return Err((key, format!("`{word}` has no `{key}`; it takes {}", keys.join(", "))));
        }
        for group in *needed {
            let keys: Vec<String> = group.iter().map(|key| format!("`{key}`")).collect();
            let has: Vec<&&str> = there.iter().filter(|key| group.contains(key)).collect();
            match has[..] {
                [] => return Err(("kind", format!("`{word}` needs {}", keys.join(" or ")))),
                [_] => {}
                [_, second, ..] => return Err((second, format!("{} exclude each other", keys.join(" and ")))),
            }
        }
        if self.talk.is_some() != self.silence.is_some() {
            let key = if self.talk.is_some() { "talk" } else { "silence" };
            return Err((key, "`talk` and `silence` go together".to_owned()));
        }
        Ok(())
    }

    fn there(&self) -> Vec<&'static str> {
        let all = [
            ("lasts", self.lasts.is_some()),
            ("count", self.count.is_some()),
            ("every", self.every.is_some()),
            ("gaps", self.gaps.is_some()),
            ("jitter", self.jitter.is_some()),
            ("bytes", self.bytes.is_some()),
            ("sizes", self.sizes.is_some()),
            ("cycle", !self.cycle.is_empty()),
            ("packet", self.packet.is_some()),
            ("emission", self.emission.is_some()),
            ("codec", self.codec.is_some()),
            ("talk", self.talk.is_some()),
            ("silence", self.silence.is_some()),
            ("gop", self.gop.is_some()),
            ("i", self.i.is_some()),
            ("p", self.p.is_some()),
            ("b", self.b.is_some()),
            ("bits", !self.bits.is_empty()),
            ("file", self.file.is_some()),
            ("direction", self.direction.is_some()),
            ("request", self.request.is_some()),
            ("main", self.main.is_some()),
            ("embedded", self.embedded.is_some()),
            ("objects", self.objects.is_some()),
            ("less", self.less.is_some()),
            ("parsing", self.parsing.is_some()),
            ("ladder", !self.ladder.is_empty()),
            ("segment", self.segment.is_some()),
            ("buffer", self.buffer.is_some()),
            ("cv", self.cv.is_some()),
            ("correlation", self.correlation.is_some()),
            ("parallel", self.parallel.is_some()),
        ];
        all.iter().filter(|(_, is)| *is).map(|(key, _)| *key).collect()
    }
}
