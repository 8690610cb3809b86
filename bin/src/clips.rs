//! Clips for a run: the media library behind the core's [`MediaSource`].

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use rehearsal_core::assembly::{CastPackets, ClipFrames, FILE_BYTES_MAX, LiveMedia, MediaSource, RecordedPackets};
use rehearsal_core::dialogue::Casting;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::recording::TemplateRequest;
use rehearsal_core::units::ByteRange;
use rehearsal_core::{BuildError, Recipe};
use rehearsal_media::{FrameSpec, LiveEncoder, PreparedFrames, default_cache_dir, prepare, prepare_sizes};

use crate::recordings;
use crate::report::chain;

/// Frames that a live camera keeps for sending and sending again; older ones are gone.
const LIVE_FRAMES_KEPT: usize = 256;

/// Which engine the frames are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Lengths alone.
    Simulation,
    /// Bytes too.
    Emulation,
}

/// Prepares clips, each one once, and tells about it.
pub struct Clips<'a> {
    purpose: Use,
    cache: PathBuf,
    ready: BTreeMap<(PathBuf, ByteRangeKey, Use), Arc<FrameRecipe>>,
    progress: &'a mut dyn FnMut(&Path, u32, u32),
    notes: Vec<String>,
}

type ByteRangeKey = (u64, u64);

impl<'a> Clips<'a> {
    /// Clips for `purpose`; `progress` hears of frames done and in all while a clip is prepared.
    pub fn new(purpose: Use, progress: &'a mut dyn FnMut(&Path, u32, u32)) -> Self {
        Clips { purpose, cache: default_cache_dir(), ready: BTreeMap::new(), progress, notes: Vec::new() }
    }

    /// What the media library noted, such as a cache folder that cannot be written.
    pub fn into_notes(self) -> Vec<String> {
        self.notes
    }

    fn prepared(&mut self, path: &Path, bytes: ByteRange, purpose: Use) -> Result<Arc<FrameRecipe>, String> {
        let key = (path.to_owned(), (bytes.min.0, bytes.max.0), purpose);
        if let Some(recipe) = self.ready.get(&key) {
            return Ok(recipe.clone());
        }
        let spec = frame_spec(path, bytes)?;
        let mut tell = |done, total| (self.progress)(path, done, total);
        let recipe = match purpose {
            Use::Simulation => {
                let table = prepare_sizes(&spec, &self.cache, &mut tell).map_err(|why| chain(&why))?;
                self.notes.extend(table.notes().iter().map(ToString::to_string));
                FrameRecipe { sizes: table.sizes(), frames: None }
            }
            Use::Emulation => {
                let frames = prepare(&spec, &self.cache, &mut tell).map_err(|why| chain(&why))?;
                self.notes.extend(frames.table().notes().iter().map(ToString::to_string));
                FrameRecipe { sizes: frames.table().sizes(), frames: Some(frames) }
            }
        };
        let recipe = Arc::new(recipe);
        self.ready.insert(key, recipe.clone());
        Ok(recipe)
    }
}

impl MediaSource for Clips<'_> {
    fn clip(&mut self, path: &Path, bytes: ByteRange, live: bool) -> Result<ClipFrames, String> {
        let prepared = self.prepared(path, bytes, self.purpose)?;
        let sizes = prepared.sizes.clone();
        if !live || self.purpose == Use::Simulation {
            return Ok(ClipFrames { recipe: prepared, sizes, live: None });
        }
        let encoder = LiveEncoder::open(&frame_spec(path, bytes)?).map_err(|why| chain(&why))?;
        let clip = Arc::new(LiveClip { state: Mutex::new(LiveState { encoder, kept: VecDeque::new() }) });
        Ok(ClipFrames { recipe: clip.clone(), sizes, live: Some(clip) })
    }

    fn clip_elsewhere(&mut self, path: &Path, bytes: ByteRange) -> Result<ClipFrames, String> {
        let prepared = self.prepared(path, bytes, Use::Simulation)?;
        Ok(ClipFrames { sizes: prepared.sizes.clone(), recipe: prepared, live: None })
    }

    fn file(&mut self, path: &Path) -> Result<Bytes, String> {
        let told = |why: std::io::Error| format!("{}: {why}", path.display());
        let file = File::open(path).map_err(told)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{} is larger than {FILE_BYTES_MAX} bytes", path.display()));
        }
        Ok(Bytes::from(bytes))
    }

    fn recording(&mut self, base: &Path, request: &TemplateRequest) -> Result<RecordedPackets, BuildError> {
        recordings::read(base, request)
    }

    fn conversations(
        &mut self,
        base: &Path,
        request: &TemplateRequest,
        casting: &Casting,
    ) -> Result<CastPackets, BuildError> {
        recordings::cast(base, request, casting)
    }
}

fn frame_spec(path: &Path, bytes: ByteRange) -> Result<FrameSpec, String> {
    let bound = |n: u64| u32::try_from(n).map_err(|_| format!("a frame of {n} bytes is too large; at most 4 GB"));
    Ok(FrameSpec { path: path.to_owned(), bytes_min: bound(bytes.min.0)?, bytes_max: bound(bytes.max.0)? })
}

/// Prepared frames as a recipe.
#[derive(Debug)]
struct FrameRecipe {
    sizes: Arc<[u32]>,
    frames: Option<PreparedFrames>,
}

impl Recipe for FrameRecipe {
    fn content_type(&self) -> &'static str {
        "image/jpeg"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        if let Some(frame) = self.shared(cx.seq) {
            out.extend_from_slice(&frame);
        }
    }

    fn shared(&self, seq: u64) -> Option<Bytes> {
        self.frames.as_ref().map(|f| f.frame(seq))
    }
}

/// One camera's clip, encoded while the run goes on.
struct LiveClip {
    state: Mutex<LiveState>,
}

struct LiveState {
    encoder: LiveEncoder,
    /// Frame number and bytes, oldest first.
    kept: VecDeque<(u64, Bytes)>,
}

impl std::fmt::Debug for LiveClip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveClip")
    }
}

impl LiveMedia for LiveClip {
    fn encode(&self, frame: u64) -> Result<u32, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let jpeg = state.encoder.encode_next().map_err(|why| chain(&why))?;
        let bytes = jpeg.len() as u32;
        if state.kept.len() == LIVE_FRAMES_KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back((frame, jpeg));
        Ok(bytes)
    }
}

impl Recipe for LiveClip {
    fn content_type(&self) -> &'static str {
        "image/jpeg"
    }

    fn render(&self, cx: RenderContext, out: &mut BytesMut) {
        // a frame that is no longer kept goes out as zeros: the receiver refuses it, and it shows
        match self.shared(cx.seq) {
            Some(frame) => out.extend_from_slice(&frame),
            None => out.resize(out.len() + cx.bytes as usize, 0),
        }
    }

    fn shared(&self, seq: u64) -> Option<Bytes> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.iter().rev().find(|(frame, _)| *frame == seq).map(|(_, jpeg)| jpeg.clone())
    }
}
