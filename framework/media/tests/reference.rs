//! The reference clip, from the file to the cache and back: sizes, pictures, digests.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rehearsal_media::{FrameSpec, LiveEncoder, Note, PreparedFrames, jpeg, prepare, prepare_sizes};

fn spec() -> FrameSpec {
    FrameSpec {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/media/reference.mp4"),
        bytes_min: 100_000,
        bytes_max: 200_000,
    }
}

fn tiny() -> FrameSpec {
    FrameSpec {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny.mp4"),
        bytes_min: 2_000,
        bytes_max: 4_000,
    }
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("the folder is this test's own");
    }
    dir
}

fn make(spec: &FrameSpec, dir: &Path) -> PreparedFrames {
    prepare(spec, dir, &mut |_, _| {}).expect("the clip is good")
}

static REFERENCE: LazyLock<PreparedFrames> = LazyLock::new(|| make(&spec(), &folder("reference")));

#[test]
fn sizes_are_spread_over_the_bounds_without_padding() {
    let frames = &*REFERENCE;
    assert_eq!(frames.frames(), 90);
    assert_eq!((frames.width(), frames.height()), (1280, 720));
    assert_eq!(frames.frame_rate().unwrap().per_second(), 30.0);
    assert_eq!((frames.padded(), frames.notes()), (0, &[][..]));
    let mut fifths = [0; 5];
    for &bytes in frames.sizes().iter() {
        assert!((100_000..=200_000).contains(&bytes), "{bytes}");
        fifths[((bytes - 100_000) / 20_000).min(4) as usize] += 1;
    }
    assert!(fifths.iter().all(|&n| n >= 9), "of 18 each: {fifths:?}");
}

#[test]
fn frames_are_pictures_of_the_clips_size() {
    for index in 0..90 {
        let frame = REFERENCE.frame(index);
        let (head, tail) = (&frame[..jpeg::HEAD_BYTES], &frame[frame.len() - jpeg::TAIL_BYTES..]);
        let info = jpeg::check_header(head, tail).unwrap();
        assert_eq!((info.width, info.height), (1280, 720));
        if index % 30 == 0 {
            assert_eq!(jpeg::decode(&frame), Ok(info));
        }
    }
}

/// Every host must send the same bytes. A change here changes every experiment's traffic: raise
/// `ENCODER_VERSION` and say so in the change log.
#[test]
fn the_reference_frames_have_their_fingerprint() {
    assert_eq!(REFERENCE.digest(), "940015b80734b1abd17e596a4649b3d11dbc0f3fe0cb6214ec025cc83a7af768");
}

#[test]
fn the_live_encoder_gives_the_prepared_frames_and_starts_again() {
    let frames = make(&tiny(), &folder("live"));
    let mut live = LiveEncoder::open(&tiny()).unwrap();
    for index in 0..u64::from(frames.frames()) * 2 + 1 {
        assert_eq!(live.encode_next().unwrap(), frames.frame(index), "frame {index}");
    }
    let mut live = LiveEncoder::open(&spec()).unwrap();
    for index in 0..5 {
        assert_eq!(live.encode_next().unwrap(), REFERENCE.frame(index), "frame {index}");
    }
}

#[test]
fn the_cache_gives_back_what_was_prepared() {
    let dir = folder("cached");
    let mut steps = Vec::new();
    let first = prepare(&tiny(), &dir, &mut |done, total| steps.push((done, total))).unwrap();
    let counted: Vec<_> = (1..=12).map(|done| (done, 12)).collect();
    assert_eq!(steps, counted);

    steps.clear();
    let second = prepare(&tiny(), &dir, &mut |done, total| steps.push((done, total))).unwrap();
    assert_eq!(steps, [(12, 12)]);
    assert_eq!(first.digest(), second.digest());
    assert_eq!(first.padded(), second.padded());
    assert!((0..12).all(|index| first.frame(index) == second.frame(index)));

    let table = prepare_sizes(&tiny(), &dir, &mut |_, _| {}).unwrap();
    assert_eq!((table.sizes(), table.digest()), (first.sizes(), first.digest()));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "one file, nothing left behind");
}

#[test]
fn sizes_alone_prepare_for_a_later_run() {
    let dir = folder("sizes");
    let table = prepare_sizes(&tiny(), &dir, &mut |_, _| {}).unwrap();
    let mut calls = 0;
    let frames = prepare(&tiny(), &dir, &mut |_, _| calls += 1).unwrap();
    assert_eq!((frames.sizes(), calls), (table.sizes(), 1));
}

#[test]
fn a_damaged_cache_file_is_noticed_and_made_anew() {
    let dir = folder("damaged");
    let good = make(&tiny(), &dir);
    let entry = std::fs::read_dir(&dir).unwrap().next().unwrap();
    let file = entry.unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    let last = whole.len() - 1;
    let mut damage: Vec<Vec<u8>> = [0, last / 2, last].map(|at| whole[..at].to_vec()).into();
    for at in [0, 9, 40, 150, last / 2, last] {
        damage.push(whole.clone());
        damage.last_mut().unwrap()[at] ^= 0x10;
    }
    for bytes in damage {
        std::fs::write(&file, bytes).unwrap();
        let again = make(&tiny(), &dir);
        assert!(matches!(again.notes(), [Note::CacheRemade { .. }]), "{:?}", again.notes());
        assert_eq!(again.digest(), good.digest());
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_a_note() {
    let blocked = folder("blocked");
    std::fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    let file = blocked.with_extension("file");
    std::fs::write(&file, "not a folder").unwrap();
    let frames = make(&tiny(), &file.join("cache"));
    assert_eq!(frames.frames(), 12);
    let text = frames.notes().first().map(ToString::to_string).unwrap();
    assert!(text.contains("not writable"), "{text}");
}

#[test]
fn processes_that_prepare_at_once_agree() {
    let dir = folder("at-once");
    let digests: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| make(&tiny(), &dir).digest())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_panic_in_the_progress_callback_ends_the_work() {
    let dir = folder("panic");
    let run = || prepare(&tiny(), &dir, &mut |done, _| assert!(done < 3, "as told"));
    assert!(std::panic::catch_unwind(run).is_err());
}
