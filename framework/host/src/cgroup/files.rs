//! The kernel's files of a group, as far as both versions share them: short texts that are written and read whole.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::CgroupError;

/// Writes `value` to a group's file.
pub(super) fn write(file: &Path, value: &str) -> Result<(), CgroupError> {
    let refused = |source| CgroupError::Refused { file: file.to_owned(), value: value.to_owned(), source };
    fs::write(file, value).map_err(refused)
}

/// The number in `file`, if it is there and is one.
pub(super) fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number behind `key` in a file of lines `key number`.
pub(super) fn value(file: &Path, key: &str) -> Option<u64> {
    value_in(&fs::read_to_string(file).ok()?, key)
}

pub(super) fn value_in(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Processes in a group.
pub(super) fn processes(folder: &Path) -> Vec<i32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Kills what runs in a group of ours.
pub(super) fn kill_all(folder: &Path) {
    for pid in processes(folder).into_iter().filter_map(Pid::from_raw) {
        // one that ends by itself at this moment is as good
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_whole_word() {
        let text = "oom 1\noom_kill 3\nusage_usec 17\n";
        assert_eq!(value_in(text, "oom_kill"), Some(3));
        assert_eq!(value_in(text, "oom"), Some(1));
        assert_eq!(value_in(text, "usage"), None);
    }
}
