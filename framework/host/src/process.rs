//! What this process uses: memory, file descriptors, sockets, context switches. From proc(5).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Descriptors that are looked at one by one to tell sockets from files.
const LOOKED_AT_MAX: u64 = 4096;
/// Threads whose context switches are read.
const THREADS_MAX: usize = 1024;

/// Resident memory, bytes.
pub fn resident_bytes() -> Option<u64> {
    resident(&fs::read_to_string("/proc/self/statm").ok()?)
}

/// The second number, in pages.
fn resident(text: &str) -> Option<u64> {
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Open file descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// How many there are.
    pub open: Option<u64>,
    /// How many there may be; `None` if as many as the kernel can hold.
    pub limit: Option<u64>,
    /// Sockets among them; `None` where there are more than 4096 descriptors, which it would take too long to look at.
    pub sockets: Option<u64>,
}

impl Descriptors {
    /// Now.
    pub fn read() -> Descriptors {
        let folder = Path::new("/proc/self/fd");
        let open = count(folder);
        let sockets = open.filter(|open| *open <= LOOKED_AT_MAX).and_then(|_| sockets(folder));
        Descriptors { open, limit: getrlimit(Resource::Nofile).current, sockets }
    }
}

/// The kernel tells their number as the folder's size since Linux 6.2; before, they are counted.
fn count(folder: &Path) -> Option<u64> {
    match fs::metadata(folder).ok()?.len() {
        // the folder is open while it is read
        0 => Some((fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1)),
        open => Some(open),
    }
}

fn sockets(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder).ok()?.flatten().take(LOOKED_AT_MAX as usize);
    let is_socket =
        |path: &Path| fs::read_link(path).is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
    Some(entries.filter(|entry| is_socket(&entry.path())).count() as u64)
}

/// Context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switched {
    /// A thread waited.
    pub voluntary: u64,
    /// A thread had run for long enough, or another was more urgent.
    pub involuntary: u64,
}

/// Counts the context switches of this process. The kernel tells them for each thread, so those of a thread that ended are
/// lost since the last look.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    threads: BTreeMap<u32, Switched>,
}

impl Switches {
    /// Begins to count now.
    pub fn now() -> Switches {
        Switches { threads: read_threads().unwrap_or_default() }
    }

    /// Those since the last look; `None` where the kernel does not tell, or there are too many threads.
    pub fn since_last(&mut self) -> Option<Switched> {
        let now = read_threads()?;
        let switched = grown(&self.threads, &now);
        self.threads = now;
        Some(switched)
    }
}

fn read_threads() -> Option<BTreeMap<u32, Switched>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        if threads.len() == THREADS_MAX {
            return None;
        }
        // it may have ended
        if let Some(switched) = fs::read_to_string(entry.path().join("status")).ok().and_then(|text| switched(&text)) {
            threads.insert(id, switched);
        }
    }
    (!threads.is_empty()).then_some(threads)
}

fn switched(text: &str) -> Option<Switched> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Switched { voluntary: of("voluntary_ctxt_switches:")?, involuntary: of("nonvoluntary_ctxt_switches:")? })
}

/// A thread that is new counts from zero; so does one that has the number of an ended one.
fn grown(last: &BTreeMap<u32, Switched>, now: &BTreeMap<u32, Switched>) -> Switched {
    let mut sum = Switched::default();
    for (id, now) in now {
        let before = last.get(id).filter(|b| b.voluntary <= now.voluntary && b.involuntary <= now.involuntary);
        let before = before.copied().unwrap_or_default();
        sum.voluntary += now.voluntary - before.voluntary;
        sum.involuntary += now.involuntary - before.involuntary;
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        assert_eq!(resident("7650 384 300 1 0 100 0"), Some(384 * rustix::param::page_size() as u64));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(switched(status), Some(Switched { voluntary: 150, involuntary: 545 }));
        assert_eq!(switched("Name: x\n"), None);
    }

    #[test]
    fn threads_come_and_go() {
        let of = |voluntary, involuntary| Switched { voluntary, involuntary };
        let last = BTreeMap::from([(1, of(10, 1)), (2, of(500, 50)), (4, of(9, 9))]);
        let now = BTreeMap::from([(1, of(13, 1)), (3, of(7, 2)), (4, of(1, 0))]);
        assert_eq!(grown(&last, &now), of(3 + 7 + 1, 2));
    }

    #[test]
    fn sockets_of_this_process_are_counted() {
        let before = Descriptors::read();
        let sockets: Vec<UdpSocket> = (0..40).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket")).collect();
        let after = Descriptors::read();
        // other tests of this process open and close a few
        let grown = |of: fn(&Descriptors) -> Option<u64>| {
            of(&after).expect("known") as i64 - of(&before).expect("known") as i64
        };
        assert!((30..=50).contains(&grown(|d| d.sockets)), "{before:?} {after:?}");
        assert!((30..=50).contains(&grown(|d| d.open)), "{before:?} {after:?}");
        assert!(after.limit.is_none_or(|limit| limit > after.open.unwrap_or(u64::MAX)), "{after:?}");
        assert!(resident_bytes() > Some(0));
        drop(sockets);
    }

    #[test]
    fn who_sleeps_switches() {
        let mut switches = Switches::now();
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        assert!(switches.since_last().expect("known").voluntary >= 20);
    }
}
