//! Whose a control group or a network namespace is: its name ends with a tag of the process that made it, so what a
//! killed process left behind can be told from what a living one uses.

use std::fmt;
use std::fs;

/// A process for good: its id, and when it was started, since ids come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// Clock ticks since the machine was started (proc_pid_stat(5), `starttime`), modulo [`START_MODULUS`].
    start: u64,
}

impl Owner {
    /// This process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Owner { pid, start: started(pid).unwrap_or_default() }
    }

    /// A process that runs.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Owner { pid, start: started(pid)? })
    }

    /// The owner that a tag names.
    pub fn parse(tag: &str) -> Option<Self> {
        let (pid, start) = tag.split_once('-')?;
        Some(Owner { pid: u32::from_str_radix(pid, RADIX).ok()?, start: u64::from_str_radix(start, RADIX).ok()? })
    }

    /// Whether it still runs.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.start)
    }
}

/// A tag fits the name of a network interface: at most 5 digits each.
const RADIX: u32 = 36;
/// Starts are told apart within so many ticks, a week where there are 100 a second: an id does not come again by chance at
/// the very tick.
const START_MODULUS: u64 = (RADIX as u64).pow(5);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", digits(self.pid.into()), digits(self.start))
    }
}

fn digits(mut number: u64) -> String {
    let mut text = Vec::new();
    while text.is_empty() || number > 0 {
        text.push(char::from_digit((number % u64::from(RADIX)) as u32, RADIX).expect("a remainder is below the radix"));
        number /= u64::from(RADIX);
    }
    text.iter().rev().collect()
}

fn started(pid: u32) -> Option<u64> {
    start_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field; the second is a name in parentheses that may hold anything.
fn start_of(stat: &str) -> Option<u64> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse::<u64>().ok()? % START_MODULUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_owner() {
        for owner in [Owner::this(), Owner { pid: 1, start: 0 }, Owner { pid: 4_194_304, start: START_MODULUS - 1 }] {
            let tag = owner.to_string();
            assert_eq!(Owner::parse(&tag), Some(owner), "{tag}");
            assert!(tag.len() <= 11, "{tag} fits an interface's name with four letters around it");
        }
        for bad in ["", "-", "1", "1-", "x!-1", "1-2-3"] {
            assert_eq!(Owner::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_living_are_told_from_the_dead() {
        let this = Owner::this();
        assert!(this.lives());
        assert!(!Owner { start: this.start + 1, ..this }.lives(), "the id came again");
        let mut child = std::process::Command::new("true").spawn().expect("true(1)");
        let other = Owner { pid: child.id(), start: started(child.id()).expect("it was not waited for") };
        child.wait().expect("it ends");
        assert!(!other.lives());
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        assert_eq!(start_of(stat), Some(12345));
    }
}
