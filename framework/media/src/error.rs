//! What can go wrong between a path and a table of frames, in the user's words.

use std::path::PathBuf;

/// Why frames could not be made from a clip.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The file is missing, is no regular file, or may not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The clip.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// The file is larger than [`crate::CLIP_BYTES_MAX`].
    #[error("{} has {bytes} bytes, more than the {bytes_max} that are read", path.display())]
    ClipTooLarge {
        /// The clip.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },

    /// The clip has more frames than [`crate::FRAMES_MAX`].
    #[error("{} has {frames} frames, more than the {frames_max} that are used", path.display())]
    TooManyFrames {
        /// The clip.
        path: PathBuf,
        /// Frames it has, or at least has.
        frames: u64,
        /// The bound.
        frames_max: u32,
    },

    /// All frames together would pass [`crate::PREPARED_BYTES_MAX`].
    #[error(
        "{frames} frames of up to {bytes_max} bytes pass the {total_max} bytes kept in memory: \
         use a shorter clip, or encode = \"live\""
    )]
    TableTooLarge {
        /// Frames in the clip.
        frames: u32,
        /// Upper bound of one frame.
        bytes_max: u32,
        /// Bound of the table.
        total_max: u64,
    },

    /// The file is not an MP4, or its boxes are damaged.
    #[error("{} is not a readable MP4: {reason}", path.display())]
    NotMp4 {
        /// The clip.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },

    /// The MP4 holds no video track with at least one frame.
    #[error("{} has no video track", path.display())]
    NoVideoTrack {
        /// The clip.
        path: PathBuf,
    },

    /// The video track is not H.264 (AVC).
    #[error("the video in {} is {codec}, not H.264: convert it with `ffmpeg -c:v libx264`", path.display())]
    NotH264 {
        /// The clip.
        path: PathBuf,
        /// The codec that was found.
        codec: String,
    },

    /// H.264, but in a form that the decoder does not know (4:4:4, lossless, huge pictures).
    #[error("the H.264 stream in {} is not supported: {reason}", path.display())]
    Unsupported {
        /// The clip.
        path: PathBuf,
        /// Which feature it uses.
        reason: String,
    },

    /// The file ends before its boxes say that it does.
    #[error(
        "{} is truncated: it ends at byte {bytes} of {bytes_expected}, \
         {frames_readable} of {frames} frames are readable", path.display()
    )]
    Truncated {
        /// The clip.
        path: PathBuf,
        /// Length of the file.
        bytes: u64,
        /// Length that its boxes ask for.
        bytes_expected: u64,
        /// Frames whose data is complete; 0 when the index itself is missing.
        frames_readable: u32,
        /// Frames in the index; 0 when the index itself is missing.
        frames: u32,
    },

    /// The H.264 data cannot be decoded.
    #[error("{} is damaged: decoding stopped after {frames} frames: {reason}", path.display())]
    Damaged {
        /// The clip.
        path: PathBuf,
        /// Frames that came out before.
        frames: u32,
        /// What the decoder said.
        reason: String,
    },

    /// The bounds are empty or cannot hold any JPEG.
    #[error("frame bounds {bytes_min}..{bytes_max} bytes are not a range of at least {smallest} bytes")]
    BadBounds {
        /// Lower bound.
        bytes_min: u32,
        /// Upper bound.
        bytes_max: u32,
        /// Smallest upper bound that is accepted.
        smallest: u32,
    },

    /// Even the lowest quality is larger than the upper bound.
    #[error(
        "frame {frame} of {} has {bytes_smallest} bytes at the lowest JPEG quality: \
         raise the upper bound of {bytes_max} bytes", path.display()
    )]
    Unreachable {
        /// The clip.
        path: PathBuf,
        /// The frame, counted from 0.
        frame: u32,
        /// Its size at quality 1.
        bytes_smallest: u32,
        /// The upper bound that it misses.
        bytes_max: u32,
    },

    /// The JPEG encoder refused a picture.
    #[error("cannot encode frame {frame} as JPEG: {reason}")]
    Encode {
        /// The frame, counted from 0.
        frame: u32,
        /// What the encoder said.
        reason: String,
    },
}

/// Something worth telling that did not stop the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The frames are in memory only, so the next run prepares them again.
    CacheUnwritable {
        /// The cache directory.
        dir: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// A cache file was damaged and has been made anew.
    CacheRemade {
        /// The file.
        file: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CacheUnwritable { dir, reason } => {
                write!(f, "frames are not kept: the cache directory {} is not writable ({reason})", dir.display())
            }
            Self::CacheRemade { file, reason } => {
                write!(f, "cache file {} was made anew: {reason}", file.display())
            }
        }
    }
}
