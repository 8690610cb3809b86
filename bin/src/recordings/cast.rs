//! Conversations of a template for a run: what each side says, and how its packets are made and known again.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use rehearsal_core::assembly::CastPackets;
use rehearsal_core::dialogue::{Casting, Direction, Repertoire};
use rehearsal_core::payload::RenderContext;
use rehearsal_core::recording::{FramePlace, PACKETS_MAX, Side, TemplateRequest};
use rehearsal_core::{BuildError, Recipe};
use rehearsal_replay::Editor;
use rehearsal_replay::converse::{Cast, Held, Nets};
use rehearsal_replay::edit::Laps;
use rehearsal_replay::frame::Content;
use rehearsal_replay::port::{content_key_of_arrival, content_keys};

use super::{editor, length, open};
use crate::report::chain;

/// What one side of a template's conversations says.
///
/// # Errors
/// When the template cannot be found or read, holds no conversations, or its packets do not fit what is asked for.
pub fn cast(base: &Path, request: &TemplateRequest, casting: &Casting) -> Result<CastPackets, BuildError> {
    let of = |key| move |why: String| BuildError::of(key, why);
    let template = open(base, &request.template).map_err(of("template"))?;
    if template.len() > PACKETS_MAX {
        let reason = format!("`{}` has {} packets, at most {PACKETS_MAX} are played", request.template, template.len());
        return Err(BuildError::of("template", reason));
    }
    let laps = casting.conversations.map(|_| Laps::Unique);
    let editor = editor(request, &template, laps).map_err(of("edit"))?.map(Arc::new);
    let side = if request.side == Side::Server { Direction::Backward } else { Direction::Forward };
    let held = || editor.clone().map(Held::Shared);
    // whole copies, so that each instance begins with the first conversation of the template
    let found = Cast::new(Arc::clone(&template), held(), casting.split, None, &Nets::default());
    let wrong = |why: rehearsal_replay::converse::CastError| {
        let text = chain(&why).replace("--clients", "`clients`").replace("--servers", "`servers`");
        let text = text.replace("without --interactive", "without `interactive`");
        BuildError::of(if text.starts_with("the template") { "template" } else { "interactive" }, text)
    };
    let one = found.map_err(wrong)?;
    let dialogues = one.scripts().all.len() as u64;
    let count = casting.conversations.unwrap_or(dialogues);
    let repertoire = one.scripts().repertoire();
    let all = count.next_multiple_of(dialogues).saturating_mul(u64::from(casting.instances));
    let cast = match request.frames {
        // nobody sees addresses: there each copy is a stream
        false => one,
        true => {
            let nets = Nets { clients: casting.clients.clone(), servers: casting.servers.clone() };
            Cast::new(Arc::clone(&template), held(), casting.split, Some(all), &nets).map_err(wrong)?
        }
    };
    let count = u32::try_from(count).ok().filter(|_| all <= u64::from(u32::MAX)).ok_or_else(|| {
        BuildError::of("interactive", format!("{all} conversations of all instances are too many; write fewer"))
    })?;
    let bytes = lengths(request, &cast, editor.as_deref(), side, &template).map_err(of("template"))?;
    let bytes: Arc<[Vec<u32>]> = bytes.into();
    let stride = count.next_multiple_of(dialogues as u32);
    let frames = request.frames;
    let recipe = Conversing {
        cast,
        repertoire: Arc::clone(&repertoire),
        side,
        stride,
        frames,
        bytes: Arc::clone(&bytes),
        silent: OnceLock::new(),
    };
    Ok(CastPackets { recipe: Arc::new(recipe), repertoire, bytes, count })
}

/// Bytes of a packet in the mean, and packets of one side of one instance.
///
/// # Errors
/// As of [`cast`].
pub fn offered(base: &Path, request: &TemplateRequest, casting: &Casting) -> Result<(f64, u64), BuildError> {
    let CastPackets { bytes, count, .. } = cast(base, request, casting)?;
    let (mut packets, mut sum) = (0, 0);
    for conversation in 0..count as usize {
        let row = &bytes[conversation % bytes.len()];
        packets += row.len() as u64;
        sum += row.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
    }
    Ok((sum as f64 / packets.max(1) as f64, packets))
}

/// Lengths of a side's packets as they are sent.
fn lengths(
    request: &TemplateRequest,
    cast: &Cast<'_>,
    editor: Option<&Editor>,
    side: Direction,
    template: &rehearsal_replay::Template,
) -> Result<Vec<Vec<u32>>, String> {
    let mut copy = Vec::new();
    let mut of = |packet| length(request, &template.packet(packet), editor, &mut copy);
    let scripts = cast.scripts().all.iter();
    scripts.map(|script| script.own(side).iter().map(|at| of(script.step(*at).packet)).collect()).collect()
}

/// What a side says, as a recipe: item `conversation << 32 | number`, conversations of all instances counted on, numbers among
/// the side's own packets.
struct Conversing {
    cast: Cast<'static>,
    repertoire: Repertoire,
    side: Direction,
    /// Conversations of each instance, up to the next whole copy of the template.
    stride: u32,
    frames: bool,
    bytes: Arc<[Vec<u32>]>,
    /// Of frames that nothing tells but all their bytes, the keys, and which they are; in order. Made when the first one comes in.
    silent: OnceLock<Vec<(u64, u32, u32)>>,
}

impl Conversing {
    /// Keys of what pieces of packets and quoted addresses are.
    fn silent(&self) -> &[(u64, u32, u32)] {
        self.silent.get_or_init(|| {
            let (mut found, mut copy) = (Vec::new(), Vec::new());
            for conversation in 0..self.cast.conversations() {
                let dialogue = &self.repertoire[conversation as usize % self.repertoire.len()];
                for (own, at) in (0_u32..).zip(dialogue.own(self.side)) {
                    let step = dialogue.step(*at);
                    if step.key.is_none() {
                        self.cast.frame(conversation, step.packet, &mut copy);
                        found.extend(content_keys(&copy).map(|key| (key, conversation, own)));
                    }
                }
            }
            found.sort_unstable();
            found
        })
    }

    /// Whose a frame is, and which of its side's packets.
    fn which(&self, frame: &[u8], tag: Option<u16>) -> Option<(u32, u32)> {
        if let Some(known) = self.cast.know(frame) {
            let dialogue = &self.repertoire[known.conversation as usize % self.repertoire.len()];
            // of equal ones any will do: whoever hears it knows which one can come
            let own = dialogue.find(self.side, known.key).filter(|_| known.side == self.side)?;
            return Some((known.conversation, own));
        }
        let key = content_key_of_arrival(frame, tag);
        let silent = self.silent();
        let (known, conversation, own) = *silent.get(silent.partition_point(|(known, ..)| *known < key))?;
        (known == key).then_some((conversation, own))
    }
}

impl std::fmt::Debug for Conversing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Conversing({:?}, {} conversations)", self.side, self.cast.conversations())
    }
}

impl Recipe for Conversing {
    fn content_type(&self) -> &'static str {
        "application/octet-stream"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        thread_local!(static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        let end = out.len() + cx.bytes as usize;
        let (conversation, own) = ((cx.seq >> 32) as u32, cx.seq as u32);
        let dialogue = &self.repertoire[conversation as usize % self.repertoire.len()];
        let step = dialogue.step(dialogue.own(self.side)[own as usize]);
        COPY.with_borrow_mut(|copy| {
            self.cast.frame(conversation, step.packet, copy);
            let held = if self.frames { &copy[..] } else { Content::of(copy, copy.len()).held(copy) };
            out.extend_from_slice(&held[..held.len().min(cx.bytes as usize)]);
        });
        // what a capture cut off, or a header needs room for
        out.resize(end, 0);
    }

    fn frame_place(&self, frame: &[u8], tag: Option<u16>, _next: u64) -> Option<FramePlace> {
        let (conversation, own) = self.which(frame, tag)?;
        let bytes = self.bytes[conversation as usize % self.bytes.len()][own as usize];
        let number = u64::from(conversation) << 32 | u64::from(own);
        Some(FramePlace { number, stream: conversation % self.stride, seq: u64::from(own), bytes, repeats: true })
    }
}
