//! Makes all frames before a run: from the cache if it has them, else on all cores.
//!
//! ```text
//!  decode (one thread) ──jobs──> convert + encode (a thread per core) ──results──> caller's thread
//! ```
//!
//! Frames are decoded in order and encoded in any order; the outcome is the same, also when it
//! is an error: the one of the earliest frame is reported.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rust_h264::decoder::Frame;

use crate::cache::{Cache, Found};
use crate::clip::{Clip, Track};
use crate::decode::Decoder;
use crate::digest::sha256;
use crate::encode::{EncodeError, Encoded, QUALITY_GUESS, encode_to};
use crate::error::{MediaError, Note};
use crate::frames::{FrameTable, PreparedFrames};
use crate::picture::{Colour, Picture};
use crate::spec::FrameSpec;
use crate::{FRAMES_MAX, PREPARED_BYTES_MAX};

/// Decoded frames that wait per encoding thread; each has 1.4 MB at 1280 × 720.
const WAITING_PER_THREAD: usize = 2;

/// Encodes every frame of a clip once, to a size within the bounds, and keeps the result in
/// `cache_dir`; a second call with the same clip and bounds reads that file instead.
///
/// `progress` is called on the caller's thread with the frames done and the frames of the clip.
/// A cache that cannot be written is a note in the result ([`FrameTable::notes`]), not an error.
///
/// # Errors
///
/// [`MediaError`]: the clip cannot be read or decoded, or a bound cannot be met.
pub fn prepare(
    spec: &FrameSpec,
    cache_dir: &Path,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<PreparedFrames, MediaError> {
    let (clip, cache) = open(spec, cache_dir)?;
    match cache.frames() {
        Found::Yes(frames) => {
            progress(frames.frames(), frames.frames());
            Ok(frames)
        }
        Found::No => make(spec, clip, &cache, None, progress),
        Found::Damaged(note) => make(spec, clip, &cache, Some(note), progress),
    }
}

/// The sizes that [`prepare`] gives, without loading the frames. What the cache does not have is
/// prepared, so the sizes of a later run are the same ones.
///
/// # Errors
///
/// As [`prepare`].
pub fn prepare_sizes(
    spec: &FrameSpec,
    cache_dir: &Path,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<FrameTable, MediaError> {
    let (clip, cache) = open(spec, cache_dir)?;
    match cache.table() {
        Found::Yes(table) => {
            progress(table.frames(), table.frames());
            Ok(table)
        }
        Found::No => Ok(make(spec, clip, &cache, None, progress)?.table().clone()),
        Found::Damaged(note) => Ok(make(spec, clip, &cache, Some(note), progress)?.table().clone()),
    }
}

fn open(spec: &FrameSpec, cache_dir: &Path) -> Result<(Arc<Clip>, Cache), MediaError> {
    spec.check()?;
    let clip = Arc::new(Clip::read(&spec.path)?);
    let cache = Cache::new(cache_dir, spec, &clip.sha);
    Ok((clip, cache))
}

/// Prepares all frames and stores them.
fn make(
    spec: &FrameSpec,
    clip: Arc<Clip>,
    cache: &Cache,
    note: Option<Note>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<PreparedFrames, MediaError> {
    let track = Arc::new(Track::open(clip)?);
    let total = u32::try_from(track.samples.len()).expect("bounded by FRAMES_MAX");
    if u64::from(total) * u64::from(spec.bytes_max) > PREPARED_BYTES_MAX {
        return Err(MediaError::TableTooLarge {
            frames: total,
            bytes_max: spec.bytes_max,
            total_max: PREPARED_BYTES_MAX,
        });
    }
    let done = encode_all(spec, &track, &mut |done| progress(done.min(total), total))?;

    let sizes = done.iter().map(|made| made.encoded.jpeg.len() as u32);
    let sizes: Arc<[u32]> = sizes.collect();
    let mut payload = Vec::with_capacity(sizes.iter().map(|&bytes| bytes as usize).sum());
    for made in &done {
        payload.extend_from_slice(&made.encoded.jpeg);
    }
    let first = done.first().expect("a track without pictures is an error");
    let mut table = FrameTable {
        sizes,
        width: first.width,
        height: first.height,
        rate: track.rate,
        padded: done.iter().map(|made| u32::from(made.encoded.padded)).sum(),
        payload: sha256(&[&payload]),
        notes: Vec::from_iter(note),
    };
    table.notes.extend(cache.store(&table, &payload).err());
    Ok(PreparedFrames::new(table, Bytes::from(payload)))
}

/// A decoded frame on its way to an encoding thread.
struct Job {
    index: u32,
    frame: Frame,
    colour: Colour,
}

/// A frame that is done.
struct Made {
    width: u32,
    height: u32,
    encoded: Encoded,
}

type Outcome = (u32, Result<Made, MediaError>);

/// Decodes and encodes everything; `progress` gets the number of frames done.
fn encode_all(spec: &FrameSpec, track: &Arc<Track>, progress: &mut dyn FnMut(u32)) -> Result<Vec<Made>, MediaError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (job_tx, job_rx) = sync_channel(threads * WAITING_PER_THREAD);
    let (done_tx, done_rx) = sync_channel(threads);
    // Shared by the encoding threads alone: when they are gone, so is the receiver, and decoding ends.
    let job_rx = Arc::new(Mutex::new(job_rx));
    let stop = AtomicBool::new(false);

    std::thread::scope(|scope| {
        for _ in 0..threads {
            let done = done_tx.clone();
            let jobs = Arc::clone(&job_rx);
            scope.spawn(move || encode_jobs(spec, track, &jobs, &done));
        }
        drop(job_rx);
        let stop = &stop;
        scope.spawn(move || decode_jobs(track, stop, &job_tx, &done_tx));

        let mut made = BTreeMap::new();
        let mut failed: Option<(u32, MediaError)> = None;
        for (index, outcome) in done_rx {
            match outcome {
                Ok(frame) => {
                    made.insert(index, frame);
                    progress(made.len() as u32);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                        failed = Some((index, error));
                    }
                }
            }
        }
        match failed {
            Some((_, error)) => Err(error),
            None => Ok(made.into_values().collect()),
        }
    })
}

/// Decodes until the end, an error, or until nobody wants more.
fn decode_jobs(track: &Arc<Track>, stop: &AtomicBool, jobs: &SyncSender<Job>, done: &SyncSender<Outcome>) {
    let run = || {
        let mut decoder = Decoder::new(Arc::clone(track)).map_err(|error| (0, error))?;
        for index in 0..=FRAMES_MAX {
            let next = decoder.next().map_err(|error| (index, error))?;
            let Some((frame, colour)) = next else { break };
            let job = Job { index, frame, colour };
            if stop.load(Ordering::Relaxed) || jobs.send(job).is_err() {
                break;
            }
        }
        Ok(())
    };
    if let Err((index, error)) = run() {
        // The receiver outlives this thread; if it were gone, nobody would ask.
        let _ = done.send((index, Err(error)));
    }
}

/// Encodes jobs until there are no more.
fn encode_jobs(spec: &FrameSpec, track: &Track, jobs: &Mutex<Receiver<Job>>, done: &SyncSender<Outcome>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let outcome = encode_frame(spec, &track.clip, job.index, &job.frame, job.colour, QUALITY_GUESS);
        let outcome = outcome.map(|encoded| Made { width: job.frame.width, height: job.frame.height, encoded });
        if done.send((job.index, outcome)).is_err() {
            return;
        }
    }
}

/// Converts and encodes one frame to the size that its index draws.
pub(crate) fn encode_frame(
    spec: &FrameSpec,
    clip: &Clip,
    index: u32,
    frame: &Frame,
    colour: Colour,
    guess: u8,
) -> Result<Encoded, MediaError> {
    let refused = |reason: &str| MediaError::Encode { frame: index, reason: reason.to_owned() };
    let target = spec.target(&clip.sha, index);
    let run = AssertUnwindSafe(|| {
        let picture = Picture::new(frame, colour)
            .ok_or_else(|| EncodeError::Refused("planes do not fit the picture's size".into()))?;
        encode_to(&picture, target, guess)
    });
    let outcome = catch_unwind(run).map_err(|_| refused("the encoder panicked"))?;
    outcome.map_err(|error| match error {
        EncodeError::Refused(reason) => refused(&reason),
        EncodeError::Unreachable { bytes_smallest } => {
            MediaError::Unreachable { path: clip.path.clone(), frame: index, bytes_smallest, bytes_max: spec.bytes_max }
        }
    })
}
