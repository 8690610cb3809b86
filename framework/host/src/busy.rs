//! How busy a thread is, and what a run's own processes use together. From proc(5).
//!
//! A thread that ran, or was ready to and waited for a core, had no time left for that long: on a crowded machine the
//! second part is the larger.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, getpid, getppid};
use rustix::thread::gettid;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Processes of a run that are looked at. Assumed: a machine has room for some hundreds.
const MEMBERS_MAX: usize = 4096;

/// One thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(Pid);

impl Thread {
    /// The present one.
    pub fn current() -> Thread {
        Thread(gettid())
    }

    /// Time since its start in which it ran or waited for a core, ns; `None` where the kernel does not count it
    /// (`CONFIG_SCHED_INFO`), or it has ended.
    pub fn busy_ns(self) -> Option<u64> {
        busy(&fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.0.as_raw_nonzero())).ok()?)
    }
}

/// Time on a core, time of waiting for one, and how often it was given one.
fn busy(text: &str) -> Option<u64> {
    let numbers: Vec<u64> = text.split_whitespace().take(2).map_while(|n| n.parse().ok()).collect();
    let [ran, waited] = numbers[..] else { return None };
    Some(ran.saturating_add(waited))
}

/// A process and those that it started, servers among them; not what these started in turn.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// `None`: there is nobody to look at.
    root: Option<u32>,
    /// CPU time, ns, by id and start.
    known: BTreeMap<(u32, u64), u64>,
}

impl Family {
    /// Of this process.
    pub fn own() -> Family {
        Family::of(Some(getpid()))
    }

    /// Of the process that started this one; of nobody if that is the system's first process, which adopts orphans.
    pub fn of_parent() -> Family {
        Family::of(getppid().filter(|parent| parent.as_raw_nonzero().get() > 1))
    }

    fn of(root: Option<Pid>) -> Family {
        Family { root: root.map(|root| root.as_raw_nonzero().get().cast_unsigned()), known: BTreeMap::new() }
    }

    /// Begins to count now.
    pub fn begin(&mut self) {
        self.known = self.look().unwrap_or_default();
    }

    /// CPU time of all of them since the last look, ns; `None` where the kernel does not tell of children
    /// (`CONFIG_PROC_CHILDREN`), or there are too many. What a process used that ended meanwhile is lost.
    pub fn since_last(&mut self) -> Option<u64> {
        let now = self.look()?;
        let used = grown(&self.known, &now);
        self.known = now;
        Some(used)
    }

    fn look(&self) -> Option<BTreeMap<(u32, u64), u64>> {
        let root = self.root?;
        let all = children(root)?.into_iter().chain([root]);
        // one may have ended
        Some(all.filter_map(|id| of_stat(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)).collect())
    }
}

/// One that is new counts from its start.
fn grown(last: &BTreeMap<(u32, u64), u64>, now: &BTreeMap<(u32, u64), u64>) -> u64 {
    let of = |(key, ns): (&(u32, u64), &u64)| ns.saturating_sub(last.get(key).copied().unwrap_or(0));
    now.iter().map(of).fold(0, u64::saturating_add)
}

/// The kernel tells them by the thread that started them.
fn children(parent: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten() {
        let text = match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => text,
            // the thread may have ended, the kernel may not tell
            Err(_) if thread.path().exists() => return None,
            Err(_) => continue,
        };
        all.extend(text.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        if all.len() > MEMBERS_MAX {
            return None;
        }
    }
    Some(all)
}

/// Id and start, and CPU time: `utime`, `stime` and `starttime` are the 14th, 15th and 22nd field of proc_pid_stat(5). The
/// name before them may hold anything.
fn of_stat(id: u32, text: &str) -> Option<((u32, u64), u64)> {
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (ticks, start) = (field(14)?.saturating_add(field(15)?), field(22)?);
    Some(((id, start), ticks.saturating_mul(NANOS_PER_SECOND / rustix::param::clock_ticks_per_second().max(1))))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        assert_eq!((busy("587244 55292 1\n"), busy("7\n"), busy("")), (Some(642_536), None, None));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 991 0 0\n";
        let tick = NANOS_PER_SECOND / rustix::param::clock_ticks_per_second();
        assert_eq!(of_stat(7, stat), Some(((7, 991), 42 * tick)));
        assert_eq!(of_stat(7, "7 (a) S 1\n"), None);
        let (one, other) = (BTreeMap::from([((7, 1), 5), ((8, 1), 9)]), BTreeMap::from([((7, 1), 25), ((8, 2), 3)]));
        assert_eq!(grown(&one, &other), 23, "8 is another process by the same number");
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_thread_that_computes_is_busy_and_one_that_sleeps_is_not() {
        let me = Thread::current();
        let Some(begun) = me.busy_ns() else { return eprintln!("skipped: this kernel has no schedstat") };
        let clock = Instant::now();
        while me.busy_ns() < Some(begun + 50_000_000) {
            assert!(clock.elapsed() < Duration::from_secs(30), "it is never busy");
        }
        let (told, asks) = std::sync::mpsc::sync_channel(1);
        let sleeper = std::thread::spawn(move || {
            told.send(Thread::current()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            Thread::current().busy_ns()
        });
        assert_ne!(asks.recv().unwrap(), me);
        let slept = sleeper.join().unwrap().unwrap();
        assert!(slept < 290_000_000, "{slept} ns of 300 ms of sleep");
    }

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }

    #[test]
    fn a_child_belongs_to_the_family_and_its_time_counts() {
        let mut family = Family::own();
        family.begin();
        if family.known.is_empty() {
            return eprintln!("skipped: this kernel does not tell of children");
        }
        let child = Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"));
        let of_child = |family: &Family| family.look().unwrap().into_iter().find(|((id, _), _)| *id == child.0.id());
        until("the child works", || of_child(&family).is_some_and(|(_, ns)| ns >= 50_000_000));
        assert!(family.since_last() >= Some(50_000_000));
        assert!(!Family::of_parent().known.contains_key(&(child.0.id(), 0)));
        assert_eq!(Family::of(None).since_last(), None);
    }
}
