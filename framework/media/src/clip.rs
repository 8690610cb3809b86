//! The clip on disk: its bytes, and where each coded frame lies in them.

mod boxes;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use re_mp4::{Mp4, Sample, StsdBoxContent};

use crate::digest::{Sha, sha256};
use crate::error::MediaError;
use crate::{CLIP_BYTES_MAX, FRAMES_MAX};

/// A clip's bytes, whatever they are.
#[derive(Debug)]
pub(crate) struct Clip {
    /// Where it was read from.
    pub path: PathBuf,
    /// All of it.
    pub data: Vec<u8>,
    /// SHA-256 of `data`.
    pub sha: Sha,
}

impl Clip {
    /// Reads a regular file of at most [`CLIP_BYTES_MAX`] bytes.
    pub(crate) fn read(path: &Path) -> Result<Self, MediaError> {
        let unreadable = |source| MediaError::Unreadable { path: path.to_owned(), source };
        // Asked before opening: opening a pipe would wait for its other end.
        let meta = std::fs::metadata(path).map_err(unreadable)?;
        if !meta.is_file() {
            return Err(unreadable(io::Error::other("not a regular file")));
        }
        let mut data = Vec::with_capacity(meta.len().min(CLIP_BYTES_MAX) as usize);
        File::open(path).and_then(|file| file.take(CLIP_BYTES_MAX + 1).read_to_end(&mut data)).map_err(unreadable)?;
        if data.len() as u64 > CLIP_BYTES_MAX {
            return Err(MediaError::ClipTooLarge {
                path: path.to_owned(),
                bytes: meta.len().max(data.len() as u64),
                bytes_max: CLIP_BYTES_MAX,
            });
        }
        let sha = sha256(&[&data]);
        Ok(Self { path: path.to_owned(), data, sha })
    }
}

/// Frames per second of a clip, as the fraction that its container states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRate {
    /// Frames in `seconds`.
    pub frames: u32,
    /// The time that `frames` take, in seconds.
    pub seconds: u32,
}

impl FrameRate {
    /// Reduces `frames` in `ticks / ticks_per_second` seconds to lowest terms. `None` where the
    /// container leaves it open, or says something that fits no camera.
    fn new(frames: u64, ticks_per_second: u64, ticks: u64) -> Option<Self> {
        let scaled = frames.checked_mul(ticks_per_second)?;
        let divisor = gcd(scaled, ticks);
        let frames = u32::try_from(scaled.checked_div(divisor)?).ok()?;
        let seconds = u32::try_from(ticks.checked_div(divisor)?).ok()?;
        (frames > 0 && seconds > 0).then_some(Self { frames, seconds })
    }

    /// Frames per second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The H.264 track of a clip: every coded frame lies inside `clip.data`.
#[derive(Debug)]
pub(crate) struct Track {
    /// The clip.
    pub clip: Arc<Clip>,
    /// Coded frames in decoding order, as byte ranges of the clip.
    pub samples: Vec<Range<usize>>,
    /// The `avcC` record: parameter sets and the size of length prefixes.
    pub config: Vec<u8>,
    /// Frame rate, where the container states one.
    pub rate: Option<FrameRate>,
}

impl Track {
    /// Finds the first H.264 track and checks that all of its frames are there.
    pub(crate) fn open(clip: Arc<Clip>) -> Result<Self, MediaError> {
        let extent = boxes::check(&clip.data).map_err(|reason| not_mp4(&clip, reason))?;
        if !extent.has_index {
            return Err(match extent.bytes_expected > clip.data.len() as u64 {
                true => truncated(&clip, extent.bytes_expected, 0, 0),
                false => not_mp4(&clip, "it has no moov box, so no index of its frames".into()),
            });
        }
        let complete = &clip.data[..extent.bytes_complete];
        let mp4 = read_boxes(complete).map_err(|reason| not_mp4(&clip, reason))?;
        let (config, samples, rate) = pick(&clip, &mp4)?;

        let frames = samples.len();
        if frames as u64 > u64::from(FRAMES_MAX) {
            return Err(MediaError::TooManyFrames {
                path: clip.path.clone(),
                frames: frames as u64,
                frames_max: FRAMES_MAX,
            });
        }
        let bytes = clip.data.len() as u64;
        let inside: Vec<_> = samples.iter().map_while(|s| range(s, bytes)).collect();
        if inside.len() < frames {
            let ends = samples.iter().map(|s| s.offset.saturating_add(s.size));
            let expected = ends.fold(extent.bytes_expected, u64::max);
            return Err(truncated(&clip, expected, inside.len(), frames));
        }
        Ok(Self { clip, samples: inside, config, rate })
    }
}

/// The sample's bytes, if the file has all of them.
fn range(sample: &Sample, bytes: u64) -> Option<Range<usize>> {
    let end = sample.offset.checked_add(sample.size)?;
    let start = usize::try_from(sample.offset).ok()?;
    (end <= bytes).then_some(start..usize::try_from(end).ok()?)
}

type Picked<'a> = (Vec<u8>, &'a [Sample], Option<FrameRate>);

/// The first video track, if it is H.264 and has frames.
fn pick<'a>(clip: &Clip, mp4: &'a Mp4) -> Result<Picked<'a>, MediaError> {
    let is_video = |trak: &&re_mp4::TrakBox| &trak.mdia.hdlr.handler_type.value == b"vide";
    let no_track = || MediaError::NoVideoTrack { path: clip.path.clone() };
    let trak = mp4.moov.traks.iter().find(is_video).ok_or_else(no_track)?;
    let entry = &trak.mdia.minf.stbl.stsd.contents;
    let StsdBoxContent::Avc1(avc) = entry else {
        return Err(MediaError::NotH264 { path: clip.path.clone(), codec: codec_name(entry) });
    };
    let track = mp4.tracks().get(&trak.tkhd.track_id);
    let track = track.filter(|track| !track.samples.is_empty()).ok_or_else(no_track)?;
    let ticks = track.samples.iter().fold(0u64, |sum, sample| sum.saturating_add(sample.duration));
    let rate = FrameRate::new(track.samples.len() as u64, track.timescale, ticks);
    Ok((avc.avcc.raw.clone(), &track.samples, rate))
}

fn codec_name(entry: &StsdBoxContent) -> String {
    match entry {
        StsdBoxContent::Unknown(code) => String::from_utf8_lossy(&code.value).into_owned(),
        other => other.codec_string().unwrap_or_else(|| "unknown".into()),
    }
}

fn not_mp4(clip: &Clip, reason: String) -> MediaError {
    MediaError::NotMp4 { path: clip.path.clone(), reason }
}

fn truncated(clip: &Clip, bytes_expected: u64, readable: usize, frames: usize) -> MediaError {
    MediaError::Truncated {
        path: clip.path.clone(),
        bytes: clip.data.len() as u64,
        bytes_expected,
        frames_readable: u32::try_from(readable).unwrap_or(u32::MAX),
        frames: u32::try_from(frames).unwrap_or(u32::MAX),
    }
}

/// Parses the boxes. The parser may panic or walk in circles on damaged input; a panic becomes a
/// reason, and a bound on the number of reads ends the circle.
fn read_boxes(data: &[u8]) -> Result<Mp4, String> {
    let bytes = data.len() as u64;
    let reader = Metered { inner: Cursor::new(data), left: bytes.saturating_mul(4).clamp(1 << 16, 1 << 26) };
    catch_unwind(AssertUnwindSafe(|| Mp4::read(reader, bytes)))
        .map_err(|_| "its boxes contradict each other".to_owned())?
        .map_err(|error| error.to_string())
}

/// A reader that gives up after a number of operations.
struct Metered<'a> {
    inner: Cursor<&'a [u8]>,
    left: u64,
}

impl Metered<'_> {
    fn spend(&mut self) -> io::Result<()> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| io::Error::other("its boxes lead in a circle"))?;
        Ok(())
    }
}

impl Read for Metered<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.spend()?;
        self.inner.read(buf)
    }
}

impl Seek for Metered<'_> {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.spend()?;
        self.inner.seek(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_rates_are_reduced() {
        let rate = |frames, seconds| Some(FrameRate { frames, seconds });
        assert_eq!(FrameRate::new(90, 15_360, 46_080), rate(30, 1));
        assert_eq!(FrameRate::new(300, 30_000, 300_300), rate(30_000, 1_001));
        assert_eq!(FrameRate::new(90, 15_360, 0), None);
        assert_eq!(FrameRate::new(0, 0, 0), None);
        assert_eq!(FrameRate::new(u64::MAX, 2, 1), None);
    }

    #[test]
    fn a_directory_and_a_missing_file_are_unreadable() {
        for path in [Path::new("/"), Path::new("/does/not/exist.mp4")] {
            let error = Clip::read(path).expect_err("no clip there");
            assert!(matches!(error, MediaError::Unreadable { .. }), "{error}");
        }
    }
}
