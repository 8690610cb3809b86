//! The bench's place: the release build it measures, a folder for what it writes, and pinned programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::machine::Machine;
use super::process::Running;

/// Longest time that something is built for. Assumed: five times what a quiet machine of two cores takes for the largest.
const BUILD_MAX: Duration = Duration::from_secs(40 * 60);
/// The core of a receiver.
pub const RECEIVER_CORE: usize = 0;
/// The core of a sender.
pub const SENDER_CORE: usize = 1;

/// Everything a benchmark needs to start programs.
pub struct Lab {
    /// The top of the repository.
    pub root: PathBuf,
    /// What a benchmark writes.
    pub folder: PathBuf,
    /// Build products, below which the folder and Python's packages lie.
    pub target: PathBuf,
    /// The machine.
    pub machine: Machine,
    /// The command line of each program, as it was first started.
    pub commands: BTreeMap<String, String>,
}

impl Lab {
    /// Builds what is measured. The first time takes minutes.
    pub fn open() -> Result<Self> {
        let mut lab = Lab::bare()?;
        // in one command, so that dependencies are built once, with the features of all
        let peers = ["-p", "rehearsal-emu", "--example", "bare_hyper", "--example", "tokio_timer"];
        let root = lab.root.clone();
        lab.cargo("build-release", &root, &[&["-p", "rehearsal", "--bin", "rehearsal"], &peers[..]].concat())?;
        Ok(lab)
    }

    /// A place where nothing is built yet.
    pub fn bare() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = target.join("bench");
        fs::create_dir_all(&folder)?;
        Ok(Lab { root, folder, target, machine: Machine::read(), commands: BTreeMap::new() })
    }

    /// Builds something for release, within [`BUILD_MAX`].
    pub fn cargo(&mut self, name: &str, folder: &Path, args: &[&str]) -> Result<()> {
        eprintln!("{name}: cargo build --release {}", args.join(" "));
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(folder).args(["build", "--quiet", "--release"]).args(args);
        self.prepare(name, &mut cargo)
    }

    /// Lets a command prepare something, within [`BUILD_MAX`]; it is not one of those that are measured.
    pub fn prepare(&self, name: &str, command: &mut Command) -> Result<()> {
        Running::start(name, command, &self.folder.join(name))?.finish(BUILD_MAX, &[0])?;
        Ok(())
    }

    /// The program under test.
    pub fn rehearsal(&self) -> PathBuf {
        self.target.join("release/rehearsal")
    }

    /// A peer among the examples.
    pub fn example(&self, name: &str) -> PathBuf {
        self.target.join("release/examples").join(name)
    }

    /// A command on one core, or wherever the kernel likes.
    pub fn command(&self, program: impl AsRef<Path>, core: Option<usize>) -> Command {
        let program = program.as_ref();
        let Some(core) = core.filter(|_| self.machine.pinned) else { return Command::new(program) };
        let mut command = Command::new("taskset");
        command.arg("-c").arg(core.to_string()).arg(program);
        command
    }

    /// Starts a command under a name, which its output files and the report have too.
    pub fn start(&mut self, name: &str, command: &mut Command) -> Result<Running> {
        self.commands.entry(name.to_owned()).or_insert_with(|| line(command, &self.root));
        Running::start(name, command, &self.folder.join(name))
    }
}

/// A command as it is typed at the top of the repository; none of ours holds a space.
fn line(command: &Command, root: &Path) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words
        .map(|word| Path::new(word).strip_prefix(root).map_or_else(|_| word.into(), Path::to_owned))
        .map(|word| word.display().to_string())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_the_top_of_the_repository() {
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "/repository/target/release/x", "load"]);
        assert_eq!(line(&command, Path::new("/repository")), "taskset -c 1 target/release/x load");
    }
}
