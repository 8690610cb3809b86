//! What figures belong to: the machine, its load, and the versions of what was measured.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// A machine and the programs on it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's name.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Load average of the last minute before the benchmark (proc(5)): more than 0.2 means company.
    pub load_before: f64,
    /// The compiler.
    pub rustc: String,
    /// The commit, with `-dirty` when files differ from it.
    pub commit: String,
    /// Whether programs can be pinned to cores (`taskset` is there, and more than one core).
    pub pinned: bool,
}

impl Machine {
    /// This machine, now.
    pub fn read() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory_kib: u64 = field(&text("/proc/meminfo"), "MemTotal").parse().unwrap_or(0);
        Machine {
            cores,
            cpu: field(&text("/proc/cpuinfo"), "model name"),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: memory_kib * 1024,
            load_before: text("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            rustc: said("rustc", &["--version"]).unwrap_or_default(),
            commit: commit(),
            pinned: cores > 1 && said("taskset", &["--version"]).is_some(),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let Machine { cores, cpu, kernel, load_before, .. } = self;
        format!("{cores} cores, {cpu}, Linux {kernel}, load before {load_before}")
    }
}

fn commit() -> String {
    let commit = said("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let changed = said("git", &["--no-optional-locks", "status", "--porcelain"]).is_some_and(|line| !line.is_empty());
    if changed { format!("{commit}-dirty") } else { commit }
}

/// The value of a line `name : value unit`.
fn field(text: &str, name: &str) -> String {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    let value = values.into_iter().find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value);
    value.trim().trim_end_matches(" kB").to_owned()
}

/// The first line that a program prints, if it is there and succeeds.
pub fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 207\nmodel name\t: Some CPU @ 2 GHz\nMemTotal:       8000 kB\n";
        assert_eq!(field(text, "model name"), "Some CPU @ 2 GHz");
        assert_eq!(field(text, "MemTotal"), "8000");
        assert_eq!(field(text, "absent"), "");
    }
}
