//! libFuzzer over the targets of `framework/replay/fuzz`. Coverage is the compiler's own (SanitizerCoverage), which stable Rust
//! has too; what only a nightly compiler can do, looking after memory, has little to find where there is no `unsafe`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// The targets, each a binary.
pub const TARGETS: [&str; 5] = ["capture", "edit", "filter", "frame", "template"];
/// Where they are, below the top folder.
const FOLDER: &str = "framework/replay/fuzz";
/// What makes the compiler count edges, and tell libFuzzer what is compared. Source: LLVM, SanitizerCoverage; the options that
/// `cargo fuzz` passes.
const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "-Clto=off",
    "--cfg=fuzzing",
];
/// How long one input may take, seconds, and how much memory, MiB.
const INPUT_MAX: &str = "-timeout=20";
const MEMORY_MAX: &str = "-rss_limit_mb=2048";

/// Builds the targets and runs each for its share of the time.
pub fn run(minutes: u32, targets: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?;
    let built = build(root)?;
    let seconds = (u64::from(minutes) * 60 / targets.len().max(1) as u64).max(1);
    let mut found = Vec::new();
    for target in targets {
        eprintln!("{target}: {seconds} s");
        let grown = built.join("corpus").join(target);
        let kept = built.join("found").join(target);
        [&grown, &kept].into_iter().try_for_each(fs::create_dir_all)?;
        let mut command = Command::new(built.join("bin").join(target));
        // what is new goes into the first folder
        command.arg(&grown).arg(root.join(FOLDER).join("corpus").join(target));
        command.arg(format!("-artifact_prefix={}/", kept.display())).arg(format!("-max_total_time={seconds}"));
        let status = command.args([INPUT_MAX, MEMORY_MAX, "-print_final_stats=1", "-verbosity=0"]).status();
        if !status.with_context(|| format!("{target} cannot be started"))?.success() {
            found.push(kept.display().to_string());
        }
    }
    let folders = found.join(", ");
    ensure!(
        found.is_empty(),
        "something was found; {folders} has the inputs: they belong into the corpus, beside the fix"
    );
    println!(
        "{} targets found nothing in {minutes} minutes; what was new to them is in {}/corpus",
        targets.len(),
        built.display()
    );
    Ok(())
}

/// Builds all targets; returns the folder that has them below `bin`.
fn build(root: &Path) -> Result<PathBuf> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let there = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        let name = compiler.display();
        bail!(
            "libFuzzer needs a C++ compiler, and `{name}` is none (apt-get install g++, or CXX=…); without --guided none is needed"
        );
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("fuzz");
    let host = host()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // with a target that is named, build scripts are not counted
    cargo
        .current_dir(root.join(FOLDER))
        .args(["build", "--release", "--bins", "--target", &host, "--target-dir"])
        .arg(&target);
    let status = cargo.env("RUSTFLAGS", FLAGS.join(" ")).status().context("cargo cannot be started")?;
    if !status.success() {
        bail!("the targets cannot be built; the first time cargo needs libfuzzer-sys from crates.io");
    }
    let bin = target.join("bin");
    fs::create_dir_all(&bin)?;
    for name in TARGETS {
        fs::copy(target.join(&host).join("release").join(name), bin.join(name))
            .with_context(|| format!("taking {name}"))?;
    }
    Ok(target)
}

/// The triple of this machine, as the compiler calls it.
fn host() -> Result<String> {
    let said = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV").output();
    let said = String::from_utf8(said.context("rustc cannot be started")?.stdout)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc tells no host")?;
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_file_and_a_corpus() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let manifest = fs::read_to_string(root.join(FOLDER).join("Cargo.toml")).expect("a manifest");
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(root.join(FOLDER).join("targets").join(target).with_extension("rs").is_file(), "{target}");
            let corpus = fs::read_dir(root.join(FOLDER).join("corpus").join(target)).expect("a corpus");
            assert!(corpus.count() > 0, "{target}");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        assert!(host().is_ok_and(|host| host.contains('-')));
    }
}
