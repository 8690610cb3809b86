//! Camera frames for experiments: a real H.264 clip in, JPEG pictures of a chosen size out.
//!
//! ```text
//!  clip.mp4 ──> clip (MP4 samples) ──> decode (H.264) ──> picture (BT.601, full range)
//!                                                            │
//!            cache (one file per clip × bounds) <── encode (JPEG to a drawn size)
//! ```
//!
//! A camera sends what a camera would send: pictures that a receiver can open, whose sizes are
//! spread evenly over the experiment's bounds. [`prepare`] does the work once, before a run, and
//! keeps the result in a cache file; [`prepare_sizes`] gives a simulator the same sizes without
//! the pictures; [`LiveEncoder`] decodes and encodes while the run goes on, for experiments in
//! which that work is part of what is measured. [`jpeg`] is the receiver's side.
//!
//! Everything here blocks and nothing here knows about clocks, sockets or actors: call it from a
//! thread that may wait.
//!
//! ```no_run
//! use rehearsal_media::{FrameSpec, default_cache_dir, prepare};
//!
//! let spec = FrameSpec {
//!     path: "configs/media/reference.mp4".into(),
//!     bytes_min: 100_000,
//!     bytes_max: 200_000,
//! };
//! let frames = prepare(&spec, &default_cache_dir(), &mut |done, total| {
//!     eprint!("\r{done}/{total} frames");
//! })?;
//! assert!(frames.sizes().iter().all(|&bytes| (100_000..=200_000).contains(&bytes)));
//! # Ok::<(), rehearsal_media::MediaError>(())
//! ```

mod cache;
mod clip;
mod decode;
mod digest;
mod encode;
mod error;
mod frames;
pub mod jpeg;
mod live;
mod picture;
mod prepare;
mod spec;

pub use cache::default_cache_dir;
pub use clip::FrameRate;
pub use error::{MediaError, Note};
pub use frames::{FrameTable, PreparedFrames};
pub use live::LiveEncoder;
pub use prepare::{prepare, prepare_sizes};
pub use spec::FrameSpec;

/// Largest clip that is read, in bytes. A reference clip has a few megabytes; the bound keeps a
/// mistyped path from filling the memory.
pub const CLIP_BYTES_MAX: u64 = 512 << 20;

/// Most frames that one clip may have: more than five minutes at 30 frames per second.
pub const FRAMES_MAX: u32 = 10_000;

/// Most bytes that one prepared frame table may hold in memory (and in its cache file).
pub const PREPARED_BYTES_MAX: u64 = 2 << 30;

/// Largest picture side that is decoded, in samples. Source: H.264 Table A-1, level 6.2 allows
/// sides of up to √(8 · 139 264) = 1055 macroblocks; half of that serves every camera.
pub const SIDE_MAX: u32 = 8_192;
