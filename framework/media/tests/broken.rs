//! Damaged clips: always an error or pictures, never a panic and never a hang.

use std::path::{Path, PathBuf};

use rehearsal_media::{FrameSpec, LiveEncoder, MediaError, jpeg, prepare};

const CLIP: &[u8] = include_bytes!("data/tiny.mp4");

/// Frames of the clip.
const FRAMES: u32 = 12;

fn spec(name: &str, clip: &[u8]) -> FrameSpec {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("broken-{name}.mp4"));
    std::fs::write(&path, clip).expect("the folder is this build's own");
    FrameSpec { path, bytes_min: 0, bytes_max: 1_000_000 }
}

/// Decodes and encodes all frames once.
fn run(spec: &FrameSpec) -> Result<u32, MediaError> {
    let mut live = LiveEncoder::open(spec)?;
    for _ in 0..FRAMES {
        let frame = live.encode_next()?;
        jpeg::check_header(&frame, &frame).expect("what comes out is a JPEG");
    }
    Ok(FRAMES)
}

fn replaced(from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = CLIP.windows(from.len()).position(|window| window == from);
    let at = at.expect("the clip has these bytes");
    let mut clip = CLIP.to_vec();
    clip[at..at + to.len()].copy_from_slice(to);
    clip
}

#[test]
fn the_whole_clip_is_fine() {
    assert_eq!(run(&spec("whole", CLIP)).unwrap(), FRAMES);
}

#[test]
fn a_clip_cut_anywhere_is_an_error_that_says_so() {
    let mut readable = Vec::new();
    for bytes in 0..CLIP.len() {
        match run(&spec("cut", &CLIP[..bytes])) {
            Err(MediaError::Truncated { bytes: end, bytes_expected, frames_readable, .. }) => {
                assert!(end == bytes as u64 && bytes_expected > end);
                readable.push(frames_readable);
            }
            Err(MediaError::NotMp4 { .. }) => {}
            other => panic!("cut at {bytes}: {other:?}"),
        }
    }
    assert!(readable.is_sorted());
    assert_eq!(readable.last(), Some(&(FRAMES - 1)));
    assert!(readable.len() > CLIP.len() * 9 / 10);
}

#[test]
fn flipped_bytes_never_panic_or_hang() {
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut good, mut bad) = (0, 0);
    // Every byte of the boxes once, then up to eight bytes anywhere.
    let boxes = CLIP.windows(4).position(|window| window == b"mdat").unwrap();
    for round in 0..boxes + 400 {
        let mut clip = CLIP.to_vec();
        if round < boxes {
            clip[round] ^= 1 << random(8);
        } else {
            for _ in 0..=random(8) {
                clip[random(CLIP.len())] = random(256) as u8;
            }
        }
        match run(&spec("flipped", &clip)) {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(good > 0 && bad > 0, "{good} good, {bad} bad");
}

#[test]
fn zeroes_in_place_of_pictures_are_damage() {
    let mut clip = CLIP.to_vec();
    let data = CLIP.windows(4).position(|window| window == b"mdat").unwrap() + 4;
    clip[data..].fill(0);
    let error = run(&spec("zeroes", &clip)).unwrap_err();
    assert!(matches!(error, MediaError::Damaged { frames: 0, .. }), "{error}");
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let error = |name: &str, clip: &[u8]| run(&spec(name, clip)).unwrap_err();
    let not_mp4 = error("text", b"# not a film at all\n");
    assert!(matches!(not_mp4, MediaError::NotMp4 { .. }), "{not_mp4}");
    let audio = error("audio", &replaced(b"vide", b"soun"));
    assert!(matches!(audio, MediaError::NoVideoTrack { .. }), "{audio}");
    let codec = error("codec", &replaced(b"avc1\0\0\0\0", b"xvc1\0\0\0\0"));
    assert!(codec.to_string().contains("xvc1, not H.264"), "{codec}");
    let missing = run(&FrameSpec { path: PathBuf::from("/no/such/clip.mp4"), ..spec("missing", b"") });
    assert!(matches!(missing, Err(MediaError::Unreadable { .. })));
}

#[test]
fn preparing_reports_the_earliest_error() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-cache");
    let mut small = FrameSpec {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/media/reference.mp4"),
        bytes_min: 1_000,
        bytes_max: 5_000,
    };
    let error = prepare(&small, &dir, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, MediaError::Unreachable { frame: 0, .. }), "{error}");
    assert!(error.to_string().contains("raise the upper bound of 5000 bytes"), "{error}");
    (small.bytes_min, small.bytes_max) = (9, 8);
    let error = prepare(&small, &dir, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, MediaError::BadBounds { .. }), "{error}");
}
