//! What a machine does: its cores, their clock, its memory, its open files. From proc(5) and the kernel's cpufreq.

use std::fs;

use rehearsal_core::messages::ClockSource;

/// Cores whose clock is read; a machine with more is judged by these.
const CORES_MAX: usize = 1024;

/// Ticks of all cores of the machine since it was started. Guests are counted as user (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// All of them.
    pub all: u64,
    /// In which nothing ran, or a disk was waited for.
    pub idle: u64,
    /// That the hypervisor gave to others.
    pub stolen: u64,
    /// Context switches.
    pub switches: Option<u64>,
    /// Cores that are online.
    pub cores: u32,
}

/// Shares of the cores' time between two looks, per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// In which something ran.
    pub busy_percent: f64,
    /// That the hypervisor gave to others.
    pub stolen_percent: f64,
}

impl Ticks {
    /// Now.
    pub fn read() -> Option<Ticks> {
        Ticks::parse(&text("/proc/stat")?)
    }

    /// The lines `cpu`, `cpuN` and `ctxt`; the first has user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Option<Ticks> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
        let [_, _, _, idle, waits, _, _, stolen] = ticks[..] else { return None };
        let cores = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        let switches = text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok());
        Some(Ticks { all: ticks.iter().sum(), idle: idle + waits, stolen, switches, cores: cores as u32 })
    }

    /// Shares of the time since `last`; `None` if no tick passed.
    pub fn since(&self, last: &Ticks) -> Option<Shares> {
        let all = self.all.saturating_sub(last.all);
        let percent = |ticks: u64| ticks.min(all) as f64 * 100.0 / all as f64;
        // the kernel may take back some of what it counted as idle
        let (idle, stolen) = (self.idle.saturating_sub(last.idle), self.stolen.saturating_sub(last.stolen));
        (all > 0).then(|| Shares {
            busy_percent: percent(all.saturating_sub(idle).saturating_sub(stolen)),
            stolen_percent: percent(stolen),
        })
    }
}

/// Mean clock of the cores, GHz, and where it is from: cpufreq where the kernel has it, else what it says of each processor.
pub fn clock_ghz() -> Option<(f64, ClockSource)> {
    let path = |core: usize| format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz: Vec<f64> = (0..CORES_MAX).map_while(|core| text(&path(core))?.trim().parse().ok()).collect();
    match khz.is_empty() {
        true => Some((cpuinfo_ghz(&text("/proc/cpuinfo")?)?, ClockSource::Cpuinfo)),
        false => Some((khz.iter().sum::<f64>() / khz.len() as f64 / 1e6, ClockSource::Cpufreq)),
    }
}

fn cpuinfo_ghz(text: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.starts_with("cpu MHz"));
    let mhz: Vec<f64> = lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect();
    (!mhz.is_empty()).then(|| mhz.iter().sum::<f64>() / mhz.len() as f64 / 1e3)
}

/// A machine's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What new programs could have without swapping; unknown to old kernels.
    pub available: Option<u64>,
}

impl Memory {
    /// Now.
    pub fn read() -> Option<Memory> {
        Memory::parse(&text("/proc/meminfo")?)
    }

    fn parse(text: &str) -> Option<Memory> {
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
        };
        Some(Memory { total: of("MemTotal")?, available: of("MemAvailable") })
    }

    /// What is in use.
    pub fn used(&self) -> Option<u64> {
        Some(self.total.saturating_sub(self.available?))
    }
}

/// Open files of the machine, and how many there may be.
pub fn open_files() -> Option<(u64, u64)> {
    files(&text("/proc/sys/fs/file-nr")?)
}

/// Allocated, free among them, and the limit.
fn files(text: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = text.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let [allocated, free, limit] = numbers[..] else { return None };
    Some((allocated.saturating_sub(free), limit))
}

/// The machine's name as part of a subject or a table: lower-case letters, digits and `-`.
pub fn name() -> String {
    token(&rustix::system::uname().nodename().to_string_lossy())
}

fn token(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(fits).collect();
    let name: String = name.trim_start_matches(|c: char| !c.is_ascii_lowercase()).chars().take(32).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "machine".to_owned() } else { name.to_owned() }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  168453 27028 24867 234940 1201 5 387 79 900 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 1\nctxt 77\n";

    #[test]
    fn ticks_are_understood() {
        let ticks = Ticks { all: 456_960, idle: 236_141, stolen: 79, switches: Some(77), cores: 2 };
        assert_eq!(Ticks::parse(STAT), Some(ticks));
        assert_eq!(Ticks::parse("cpu  1 2 3\n"), None);
        let later = Ticks { all: 457_160, idle: 236_191, stolen: 99, ..ticks };
        assert_eq!(later.since(&ticks), Some(Shares { busy_percent: 65.0, stolen_percent: 10.0 }));
        assert_eq!(ticks.since(&ticks), None, "no tick passed");
        let back = Ticks { all: 457_060, idle: 236_100, ..ticks };
        assert_eq!(back.since(&ticks), Some(Shares { busy_percent: 100.0, stolen_percent: 0.0 }), "idle went back");
    }

    #[test]
    fn memory_clock_and_files_are_understood() {
        let memory =
            Memory::parse("MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:  4096 kB\n").expect("memory");
        assert_eq!((memory.total, memory.used()), (16 << 20, Some(12 << 20)));
        assert_eq!(Memory::parse("MemTotal: 1 kB\n").expect("an old kernel's").used(), None);
        let ghz = cpuinfo_ghz("processor : 0\ncpu MHz\t\t: 2000.000\nprocessor : 1\ncpu MHz\t\t: 3000.0\n");
        assert!((ghz.expect("two cores") - 2.5).abs() < 1e-9);
        assert_eq!(cpuinfo_ghz("processor : 0\n"), None);
        assert_eq!((files("1120\t20\t9223\n"), files("1 2")), (Some((1100, 9223)), None));
    }

    #[test]
    fn names_of_machines_become_tokens() {
        let all = ["Lab-1.example", "10-0-0-7", "7.9", "--", "ab_c-"].map(token);
        assert_eq!(all, ["lab-1-example", "machine", "machine", "machine", "ab-c"]);
    }

    #[test]
    fn this_machine_is_read() {
        let (ticks, memory) = (Ticks::read().expect("/proc/stat"), Memory::read().expect("/proc/meminfo"));
        assert!(ticks.cores > 0 && ticks.all > ticks.idle && ticks.switches > Some(0), "{ticks:?}");
        assert!(memory.used().is_some_and(|used| used > 0 && used < memory.total), "{memory:?}");
        let (open, limit) = open_files().expect("file-nr");
        assert!(open > 0 && open < limit, "{open} of {limit}");
        assert_eq!(rehearsal_core::subject::check_token(&name()), Ok(()));
    }
}
