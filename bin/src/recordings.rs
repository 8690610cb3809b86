//! Templates for a run: the library of templates and captures behind the core's [`RecordedPackets`], read once and handed to
//! either engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use bytes::BytesMut;
use clap::Parser as _;
use rehearsal_core::assembly::RecordedPackets;
use rehearsal_core::dialogue::Casting;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::recording::{FramePlace, PACKETS_MAX, Pace, Recorded, Side, TemplateRequest};
use rehearsal_core::{BuildError, Recipe, Span};
use rehearsal_models::source::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN};
use rehearsal_replay::capture::{self, CaptureError};
use rehearsal_replay::edit::Laps;
use rehearsal_replay::frame::{Content, ETHERNET};
use rehearsal_replay::port::{content_key_of_arrival, content_keys};
use rehearsal_replay::template::TemplateError;
use rehearsal_replay::timing::{Cursor, Pacing, Rules, Schedule, TimingError};
use rehearsal_replay::{Direction, Editor, Packet, Template};

use crate::cli::{Edits, Place};
use crate::connection::Connection;
use crate::report::chain;
use crate::template::{self, edits};

mod cast;

pub use cast::cast;

/// Captures and templates that are kept open for what comes next. Assumed: more than one experiment names.
const KEPT_MAX: usize = 32;
/// Longest frame without its tag, bytes: what an Ethernet takes. Source: IEEE 802.3 §3.2.7.
const FRAME_MAX: usize = 1514;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// The packets of a template as `request` wants them; a file is looked for below `base`.
///
/// # Errors
/// When it cannot be found or read, or its packets do not fit what is asked for.
pub fn read(base: &Path, request: &TemplateRequest) -> Result<RecordedPackets, BuildError> {
    let of = |key| move |why: String| BuildError::of(key, why);
    let template = open(base, &request.template).map_err(of("template"))?;
    let editor = editor(request, &template, None).map_err(of("edit"))?;
    let schedule = schedule(request, &template).map_err(of("template"))?;
    let wanted = match request.side {
        Side::Both => None,
        Side::Client => Some(Direction::Forward),
        Side::Server => Some(Direction::Backward),
    };
    let (mut packets, mut rows) = (Vec::new(), Vec::new());
    let mut streams = vec![0_u32; template.streams().len()];
    let mut copy = Vec::new();
    for due in Cursor::new(&template, &schedule).take(template.len() as usize) {
        let packet = due.packet;
        if wanted.is_some_and(|side| side != packet.direction) {
            continue;
        }
        let bytes = length(request, &packet, editor.as_ref(), &mut copy).map_err(of("template"))?;
        let place = &mut streams[packet.stream as usize];
        packets.push(Recorded { at: Span::from_nanos(due.at), bytes, stream: packet.stream, place: *place });
        *place += 1;
        rows.push(packet.index);
    }
    if packets.is_empty() {
        let reason = format!("`{}` has no packet of that side; write another `side`", request.template);
        return Err(BuildError::of("side", reason));
    }
    let (packets, streams): (Arc<[Recorded]>, Arc<[u32]>) = (packets.into(), streams.into());
    // all packets of the template in their order need no table
    let rows = wanted.map(|_| rows);
    let recipe = Arc::new(Replayed {
        template,
        editor,
        frames: request.frames,
        rows,
        packets: Arc::clone(&packets),
        streams: Arc::clone(&streams),
        index: OnceLock::new(),
    });
    Ok(RecordedPackets { recipe, packets, streams, period: Span::from_nanos(schedule.period) })
}

/// Packets per second and bytes of a packet in the mean, and packets of one loop or of one side of conversations.
///
/// # Errors
/// As of [`read`].
pub fn offered(
    base: &Path,
    request: &TemplateRequest,
    casting: Option<&Casting>,
) -> Result<(Option<f64>, f64, u64), BuildError> {
    if let Some(casting) = casting {
        return cast::offered(base, request, casting).map(|(bytes, packets)| (None, bytes, packets));
    }
    let RecordedPackets { packets, period, .. } = read(base, request)?;
    let count = packets.len() as f64;
    let bytes = packets.iter().map(|packet| f64::from(packet.bytes)).sum::<f64>() / count;
    Ok(((!period.is_zero()).then(|| count / period.as_secs_f64()), bytes, packets.len() as u64))
}

fn schedule(request: &TemplateRequest, template: &Template) -> Result<Schedule, String> {
    let shown = &request.template;
    if template.len() > PACKETS_MAX {
        return Err(format!(
            "`{shown}` has {} packets, at most {PACKETS_MAX} are replayed in an experiment: import a part of it by \
             `rehearsal template import --limit`",
            template.len()
        ));
    }
    let pace = match request.pace {
        Pace::Speed(factor) => rehearsal_replay::timing::Pace::Original { factor },
        Pace::Packets(per_second) => rehearsal_replay::timing::Pace::Packets { per_second },
        Pace::Bits(per_second) => rehearsal_replay::timing::Pace::Bits { per_second },
    };
    // one packet has no gap that could tell when the next loop begins
    let loops = (template.len() == 1 && request.loop_gap.is_none()).then_some(1);
    let rules = Rules {
        pace,
        pacing: Pacing::Absolute,
        loops,
        loop_gap: request.loop_gap.map(Span::as_nanos),
        gap_max: request.gap_max.map(Span::as_nanos),
    };
    Schedule::new(template, rules).map_err(|why| match why {
        TimingError::Empty => format!("`{shown}` has no packet"),
        why => format!("`{shown}`: {why}"),
    })
}

fn editor(request: &TemplateRequest, template: &Template, laps: Option<Laps>) -> Result<Option<Editor>, String> {
    let written = Edits { edit: request.edit.clone(), edit_file: None };
    let mut edit = edits::read(&written).map_err(|why| {
        // the key is named by who tells of it
        let text = why.to_string();
        text.strip_prefix("--edit").unwrap_or(&text).trim_start_matches([':', ' ']).to_owned()
    })?;
    edit.laps = laps.filter(|_| !edit.random_hosts.is_empty()).unwrap_or(edit.laps);
    let editor = (!edit.is_empty()).then(|| Editor::new(&edit, template)).transpose();
    editor.map_err(|why| chain(&why))
}

/// The length of a packet as it is sent.
fn length(
    request: &TemplateRequest,
    packet: &Packet<'_>,
    editor: Option<&Editor>,
    copy: &mut Vec<u8>,
) -> Result<u32, String> {
    let (frame, original) = match editor {
        None => (packet.bytes, packet.original),
        Some(editor) => {
            let original = editor.apply(packet, 0, copy);
            (&copy[..], original)
        }
    };
    if !request.frames {
        let bytes = Content::of(frame, original as usize).bytes as u64;
        return Ok(bytes.clamp(DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX) as u32);
    }
    let most = FRAME_MAX + if frame.get(12..14) == Some(&[0x81, 0x00]) { TAG } else { 0 };
    if !(ETHERNET..=most).contains(&frame.len()) {
        let (name, number, bytes) = (&request.template, packet.index, frame.len());
        return Err(format!(
            "packet {number} of `{name}` is a frame of {bytes} bytes, an Ethernet takes {ETHERNET} to {most}: write `edit = \
             [\"payload_bytes_max=1400\"]`, or replay it over `udp`"
        ));
    }
    Ok(frame.len() as u32)
}

/// The file that a key `template` names: below `base`, or in the library of templates.
///
/// # Errors
/// When there is none.
pub fn file(base: &Path, wanted: &str) -> Result<PathBuf, String> {
    let path = base.join(wanted);
    if path.is_file() {
        return Ok(path);
    }
    let found = template::open(&library(), wanted);
    found.map(|(kept, _)| kept.path).map_err(|why| nowhere(&path, &why))
}

fn nowhere(path: &Path, why: &anyhow::Error) -> String {
    let text = format!("there is no file {}, and {why:#}", path.display());
    let has_server = library().nats.nats.is_some();
    if has_server {
        text
    } else {
        text + "; with a server (--nats of `emulate`, or REHEARSAL_NATS) a lab's library is asked too"
    }
}

/// The lab's server that a run was given.
static LAB: OnceLock<Connection> = OnceLock::new();

/// Templates that this host does not have come from the library of a lab, if a server is named.
pub fn fetch_from(nats: &Connection) {
    if nats.nats.is_some() {
        // the first one counts: a process runs one experiment
        let _ = LAB.set(nats.clone());
    }
}

/// The library of this host, and of the lab whose server a run was given or variables name, as other verbs have it.
fn library() -> Place {
    #[derive(clap::Parser)]
    struct Variables {
        #[command(flatten)]
        place: Place,
    }
    let place = Variables::try_parse_from(["rehearsal"]).map(|variables| variables.place).unwrap_or_default();
    match LAB.get() {
        Some(nats) => Place { nats: nats.clone(), ..place },
        None => place,
    }
}

type Known = BTreeMap<(PathBuf, Option<SystemTime>, u64), Arc<Template>>;

/// A file if there is one of that name, otherwise a template of the library. What is open already is not read again.
fn open(base: &Path, wanted: &str) -> Result<Arc<Template>, String> {
    static KNOWN: Mutex<Known> = Mutex::new(Known::new());
    let path = base.join(wanted);
    let Some(meta) = path.metadata().ok().filter(std::fs::Metadata::is_file) else {
        let found = template::open(&library(), wanted).map(|(_, template)| Arc::new(template));
        return found.map_err(|why| nowhere(&path, &why));
    };
    let key = (path.clone(), meta.modified().ok(), meta.len());
    // held while a capture is read: others most likely want the same one
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(template) = known.get(&key) {
        return Ok(Arc::clone(template));
    }
    let template = match Template::open(&path) {
        Err(TemplateError::Foreign { .. }) => converted(&path)?,
        opened => opened.map_err(|why| chain(&why))?,
    };
    let template = Arc::new(template);
    if known.len() >= KEPT_MAX {
        known.clear();
    }
    known.insert(key, Arc::clone(&template));
    Ok(template)
}

/// A capture as a template that has no name any more: it goes with this process.
fn converted(path: &Path) -> Result<Template, String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let draft = std::env::temp_dir().join(format!("rehearsal-recording-{}-{number}.template", std::process::id()));
    let made = capture::import(path, &draft, &capture::Options::default());
    // what is mapped stays, and it may never have been made
    let _ = std::fs::remove_file(&draft);
    made.map_err(|why: CaptureError| chain(&why))
}

/// The packets of a template as a recipe.
struct Replayed {
    template: Arc<Template>,
    editor: Option<Editor>,
    frames: bool,
    /// The template's packet of each row of `packets`, where these are not all.
    rows: Option<Vec<u32>>,
    packets: Arc<[Recorded]>,
    streams: Arc<[u32]>,
    /// Of each frame its keys and row, in order; made when the first one comes in.
    index: OnceLock<Vec<(u64, u32)>>,
}

impl Replayed {
    fn row(&self, number: u64) -> u32 {
        // a row is one of at most PACKETS_MAX
        (number % self.packets.len() as u64) as u32
    }

    /// Hands over the frame of a row, edited.
    fn with_frame<T>(&self, row: u32, take: impl FnOnce(&[u8]) -> T) -> T {
        thread_local!(static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        let packet = self.template.packet(self.rows.as_ref().map_or(row, |rows| rows[row as usize]));
        match &self.editor {
            None => take(packet.bytes),
            Some(editor) => COPY.with_borrow_mut(|copy| {
                // loops are alike, so that a receiver knows a frame again whichever it is of
                editor.apply(&packet, 0, copy);
                take(copy)
            }),
        }
    }

    fn index(&self) -> &[(u64, u32)] {
        self.index.get_or_init(|| {
            let mut keys = Vec::with_capacity(self.packets.len());
            for row in 0..self.packets.len() as u32 {
                self.with_frame(row, |frame| keys.extend(content_keys(frame).map(|key| (key, row))));
            }
            keys.sort_unstable();
            keys
        })
    }
}

impl std::fmt::Debug for Replayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replayed({} packets)", self.packets.len())
    }
}

impl Recipe for Replayed {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        let end = out.len() + cx.bytes as usize;
        self.with_frame(self.row(cx.seq), |frame| {
            let held = if self.frames { frame } else { Content::of(frame, frame.len()).held(frame) };
            out.extend_from_slice(&held[..held.len().min(cx.bytes as usize)]);
        });
        // what a capture cut off, or a header needs room for
        out.resize(end, 0);
    }

    fn frame_place(&self, frame: &[u8], tag: Option<u16>, next: u64) -> Option<FramePlace> {
        let key = content_key_of_arrival(frame, tag);
        let index = self.index();
        let from = index.partition_point(|(known, _)| *known < key);
        let alike = &index[from..];
        let alike = &alike[..alike.partition_point(|(known, _)| *known == key)];
        let number = nearest(alike, self.packets.len() as u64, next)?;
        let Recorded { stream, place, bytes, .. } = self.packets[self.row(number) as usize];
        let round = number / self.packets.len() as u64;
        let seq = round * u64::from(self.streams[stream as usize]) + u64::from(place);
        Some(FramePlace { number, stream, seq, bytes, repeats: false })
    }
}

/// Of packets that are alike, by their rows in order, the number nearest to `next` over all loops of `len` packets.
fn nearest(alike: &[(u64, u32)], len: u64, next: u64) -> Option<u64> {
    let (round, row) = (next / len, next % len);
    let (first, last) = (u64::from(alike.first()?.1), u64::from(alike.last()?.1));
    let after = alike.partition_point(|(_, known)| u64::from(*known) < row);
    let at = |place: Option<&(u64, u32)>| place.map(|(_, row)| round * len + u64::from(*row));
    let before = at(after.checked_sub(1).and_then(|place| alike.get(place)));
    let earlier = round.checked_sub(1).map(|round| round * len + last);
    let candidates = [at(alike.get(after)), before, Some((round + 1) * len + first), earlier];
    candidates.into_iter().flatten().min_by_key(|number| number.abs_diff(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(frames: bool, side: Side, edit: &[&str]) -> RecordedPackets {
        let request = TemplateRequest {
            template: "captures/cell.pcap".to_owned(),
            pace: Pace::Speed(1.0),
            gap_max: None,
            loop_gap: None,
            side,
            edit: edit.iter().map(|text| (*text).to_owned()).collect(),
            frames,
        };
        read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs")), &request).expect("it is shipped")
    }

    fn rendered(recipe: &dyn Recipe, number: u64, bytes: u32) -> BytesMut {
        let mut out = BytesMut::new();
        recipe.render(RenderContext { seq: number, member: 0, epoch_ns: 0, bytes }, &mut out);
        assert_eq!(out.len(), bytes as usize);
        out
    }

    /// Loops, losses, neighbours that changed places, and padding that a bridge took away.
    #[test]
    fn frames_that_come_in_are_known_again() {
        for edit in [&[][..], &["ttl=-1"]] {
            let found = cell(true, Side::Both, edit);
            let (len, mut next) = (found.packets.len() as u64, 0);
            let mut numbers: Vec<u64> = (0..3 * len).filter(|number| number % 7 != 3).collect();
            (0..numbers.len() - 1).step_by(11).for_each(|at| numbers.swap(at, at + 1));
            for number in numbers {
                let packet = found.packets[(number % len) as usize];
                let mut frame = rendered(&*found.recipe, number, packet.bytes);
                frame[..12].fill(6);
                if frame.len() == 60 && frame[12..14] == [8, 0] {
                    frame.truncate(14 + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
                }
                let place = found.recipe.frame_place(&frame, None, next).expect("one of ours");
                let seq = number / len * u64::from(found.streams[packet.stream as usize]) + u64::from(packet.place);
                assert_eq!((place.number, place.stream, place.seq), (number, packet.stream, seq));
                next = place.number + 1;
            }
            assert_eq!(found.recipe.frame_place(&[6; 60], None, 0), None);
        }
    }

    #[test]
    fn sides_add_up_and_payloads_are_those_of_the_packets() {
        let [both, client, server] = [Side::Both, Side::Client, Side::Server].map(|side| cell(false, side, &[]));
        assert_eq!((both.packets.len(), client.packets.len(), server.packets.len()), (115, 60, 55));
        assert_eq!(both.period, client.period, "the sides keep step");
        // the first question to a drive: 40 bytes, which no header of ours has touched yet
        let (row, asks) = both.packets.iter().enumerate().find(|(_, p)| p.bytes == 40).expect("a question");
        let whole = cell(true, Side::Both, &[]);
        let frame = rendered(&*whole.recipe, row as u64, whole.packets[row].bytes);
        assert_eq!(rendered(&*both.recipe, row as u64, asks.bytes)[..], frame[42..]);
    }

    #[test]
    fn of_equal_frames_it_is_the_nearest_over_loops() {
        let alike = [(7, 2), (7, 5)];
        let of = |next| nearest(&alike, 10, next);
        assert_eq!((of(0), of(3), of(4), of(9)), (Some(2), Some(2), Some(5), Some(12)));
        assert_eq!((of(32), of(38), of(30)), (Some(32), Some(35), Some(32)));
        assert_eq!(nearest(&[], 10, 3), None);
        assert_eq!(nearest(&[(1, 0)], 1, 41), Some(41), "one packet over and over");
    }
}
