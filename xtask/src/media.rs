//! Makes the clips that the project ships, with ffmpeg: the reference clip of the experiments
//! and a tiny one for tests. Only maintainers need this; the results are committed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// A clip of our own making.
struct Clip {
    /// Where it goes, from the top of the repository.
    path: &'static str,
    /// What it shows and what it is for.
    about: &'static str,
    /// The inputs, for ffmpeg's `lavfi` device.
    inputs: &'static [&'static str],
    /// The filter graph; its output is `[v]`.
    graph: &'static str,
    frames: u32,
    /// x264's constant rate factor and keyframe distance.
    crf: u32,
    keyframes: u32,
    /// Upper bound of the file's size, in bytes.
    bytes_max: u64,
}

/// A still fractal with fine detail and light grain, over which the camera pans while a test
/// card moves across. The detail makes large JPEGs; as it moves by whole pixels, the video
/// stays small.
const REFERENCE: Clip = Clip {
    path: "configs/media/reference.mp4",
    about: "A camera pans over a fractal while a test card crosses: the reference clip of the experiments.",
    inputs: &[
        "mandelbrot=size=1920x1080:rate=30:start_x=-0.743643887037158704752:start_y=-0.131825904205311970493:\
         start_scale=0.002:end_scale=0.002:maxiter=800",
        "testsrc2=size=320x180:rate=30",
    ],
    graph: "[0:v]trim=end_frame=1,loop=loop=-1:size=1,setpts=N/30/TB,noise=alls=4:all_seed=7,\
            crop=1280:720:x='320+280*sin(n/24)':y='180+150*cos(n/31)'[back];\
            [1:v]setpts=N/30/TB[card];\
            [back][card]overlay=x='40+n*8':y='480-n*4',format=yuv420p[v]",
    frames: 90,
    crf: 26,
    keyframes: 30,
    bytes_max: 1_200_000,
};

/// Small enough to damage in every byte.
const TINY: Clip = Clip {
    path: "framework/media/tests/data/tiny.mp4",
    about: "A test card of 96 x 64 pixels, for the tests of `rehearsal-media`.",
    inputs: &["testsrc2=size=96x64:rate=25"],
    graph: "[0:v]format=yuv420p[v]",
    frames: 12,
    crf: 32,
    keyframes: 6,
    bytes_max: 8_000,
};

/// Makes all clips and writes their provenance to `configs/media/README.md`.
///
/// # Errors
///
/// `ffmpeg`, `ffprobe` or `sha256sum` is missing or fails, or a clip is not what it should be.
pub fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().context("xtask lies in the repository")?;
    let version = output(Command::new("ffmpeg").arg("-version"))?;
    let version = version.lines().next().unwrap_or_default();
    let version = version.split(" Copyright").next().unwrap_or_default();

    let mut page = format!("{INTRODUCTION}\nMade with `{version}`.\n");
    for clip in [&REFERENCE, &TINY] {
        let path = root.join(clip.path);
        make(clip, &path)?;
        page += &describe(clip, &path)?;
        eprintln!("{} made", clip.path);
    }
    let readme = root.join("configs/media/README.md");
    std::fs::write(&readme, page).with_context(|| format!("writing {}", readme.display()))
}

const INTRODUCTION: &str = "\
# Clips

What the cameras of the experiments film. Everything here is generated from ffmpeg's own test
sources by `cargo xtask media`; no recording, no third party's material. The clips are released
under [CC0 1.0](https://creativecommons.org/publicdomain/zero/1.0/): use them for anything.

An experiment names a clip with `media = \"…\"`; any MP4 file with an H.264 video track will do.
Making the clips again with another version of ffmpeg or x264 changes their bytes, and with them
the sizes of all frames: the fingerprints in the tests of `framework/media` then change too.
";

/// The arguments after `ffmpeg`, without the output file.
fn arguments(clip: &Clip) -> Vec<String> {
    let mut arguments = Vec::new();
    for input in clip.inputs {
        arguments.extend(["-f", "lavfi", "-i", input].map(String::from));
    }
    let (frames, crf, keyframes) = (clip.frames, clip.crf, clip.keyframes);
    let graph = ["-filter_complex", clip.graph, "-map", "[v]"].map(String::from);
    arguments.extend(graph);
    let coding = format!(
        "-frames:v {frames} -c:v libx264 -profile:v high -preset veryslow -crf {crf} -bf 2 -g {keyframes} \
         -threads 1 -colorspace bt709 -color_primaries bt709 -color_trc bt709 \
         -color_range tv -flags +bitexact -fflags +bitexact -map_metadata -1 -movflags +faststart"
    );
    arguments.extend(coding.split_whitespace().map(String::from));
    arguments
}

fn make(clip: &Clip, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    output(ffmpeg.args(arguments(clip)).arg(path))?;
    let bytes = std::fs::metadata(path)?.len();
    ensure!(bytes <= clip.bytes_max, "{} has {bytes} bytes, more than {}: raise its crf", clip.path, clip.bytes_max);
    Ok(())
}

/// A section about one clip, from what the file itself says.
fn describe(clip: &Clip, path: &Path) -> Result<String> {
    let entries = "stream=codec_name,profile,width,height,r_frame_rate,nb_read_frames";
    let mut ffprobe = Command::new("ffprobe");
    ffprobe.args(["-v", "error", "-count_frames", "-show_entries", entries, "-of", "json"]);
    let facts: serde_json::Value = serde_json::from_str(&output(ffprobe.arg(path))?)?;
    let fact = |name: &str| match &facts["streams"][0][name] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ensure!(fact("nb_read_frames") == clip.frames.to_string(), "{} lost frames", clip.path);

    let mut planes = Command::new("ffmpeg");
    planes.args(["-loglevel", "error", "-nostdin", "-i"]).arg(path);
    let planes = output(planes.args("-pix_fmt yuv420p -f hash -hash sha256 -".split(' ')))?;
    let planes = planes.trim().trim_start_matches("SHA256=").to_owned();
    let command: Vec<_> = arguments(clip).iter().map(|argument| quoted(argument)).collect();
    Ok(format!(
        "\n## {path}\n\n{about}\n\n\
         | | |\n|---|---|\n\
         | video | {codec} {profile}, {width} x {height}, {rate} frames per second |\n\
         | frames | {frames} |\n\
         | size | {bytes} bytes |\n\
         | SHA-256 of the file | `{file}` |\n\
         | SHA-256 of the decoded planes (yuv420p) | `{planes}` |\n\n\
         ```sh\nffmpeg {command} {path}\n```\n",
        path = clip.path,
        about = clip.about,
        codec = fact("codec_name"),
        profile = fact("profile"),
        width = fact("width"),
        height = fact("height"),
        rate = fact("r_frame_rate").trim_end_matches("/1"),
        frames = clip.frames,
        bytes = std::fs::metadata(path)?.len(),
        file = file_digest(path.to_owned())?,
        command = command.join(" "),
    ))
}

fn file_digest(path: PathBuf) -> Result<String> {
    let line = output(Command::new("sha256sum").arg(path))?;
    let digest = line.split_whitespace().next();
    Ok(digest.context("sha256sum printed nothing")?.to_owned())
}

/// Quotes an argument for a shell where it needs quotes; none of ours holds a double quote.
fn quoted(argument: &str) -> String {
    match argument.contains(['[', '\'', '*', '(', ';', ' ']) {
        true => format!("\"{argument}\""),
        false => argument.to_owned(),
    }
}

/// Runs a program and returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("running {program}: is it installed?"))?;
    if !done.status.success() {
        bail!("{program}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8(done.stdout)?)
}
