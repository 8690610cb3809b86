//! A program under measurement: started with its output in files, bounded in time, its CPU time read from the kernel.
//!
//! CPU time is that of `/proc/<pid>/stat`, read once the process has ended and before it is waited for, so it is the
//! whole of it, with all threads and all children that were waited for (proc(5): fields 14 to 17).

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// `USER_HZ`, the unit of CPU time in `/proc`: 100 on every architecture that Linux has a Rust target with a standard
/// library for (time(7)).
const TICKS_PER_SECOND: f64 = 100.0;
/// Bounds on how often an end is looked for, which is after each fiftieth of the time that has passed: small beside a
/// measurement, large beside what looking costs.
const POLL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];
/// How long a server may take until it listens. Assumed: Python starts in a second, on a busy machine in a few.
const START_MAX: Duration = Duration::from_secs(20);
/// Lines of a failed program's output that are shown.
const TAIL_LINES: usize = 15;

/// A running program; it is killed when this is dropped.
pub struct Running {
    name: String,
    child: Child,
    out: PathBuf,
    log: PathBuf,
    begin: Instant,
}

/// What came of a program.
pub struct Finished {
    /// CPU time of all its threads and children, seconds, to 10 ms.
    pub cpu_seconds: f64,
    /// From start to end, seconds, to 2 %.
    pub wall_seconds: f64,
    /// Most memory that it had at once, bytes, as far as it was seen.
    pub peak_bytes: f64,
    /// What it printed.
    pub stdout: String,
}

impl Running {
    /// Starts a program; its output goes to `base.out` and `base.log`.
    pub fn start(name: &str, command: &mut Command, base: &std::path::Path) -> Result<Self> {
        let (out, log) = (base.with_extension("out"), base.with_extension("log"));
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("{name}: starting {:?}", command.get_program()))?;
        Ok(Running { name: name.to_owned(), child, out, log, begin: Instant::now() })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn ended(&self) -> Result<bool> {
        Ok(self.stat()?.ended)
    }

    /// CPU time so far, seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(self.stat()?.cpu_seconds)
    }

    /// Waits until somebody listens at `address`.
    pub fn listening(&self, address: SocketAddr) -> Result<()> {
        let end = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, START_MAX).is_err() {
            if self.stat()?.ended {
                bail!("{} ended before it listened\n{}", self.name, self.tail());
            }
            ensure!(Instant::now() < end, "{} does not listen at {address}\n{}", self.name, self.tail());
            sleep(self.pause());
        }
        Ok(())
    }

    /// Waits for its end, at most `within`; `codes` are the exit codes that are none of an error.
    pub fn finish(mut self, within: Duration, codes: &[i32]) -> Result<Finished> {
        let end = Instant::now() + within;
        let mut peak_bytes = 0.0;
        let stat = loop {
            peak_bytes = self.peak_bytes().unwrap_or(peak_bytes);
            let stat = self.stat()?;
            if stat.ended {
                break stat;
            }
            ensure!(Instant::now() < end, "{} takes longer than {within:?}\n{}", self.name, self.tail());
            sleep(self.pause());
        };
        let wall_seconds = self.begin.elapsed().as_secs_f64();
        let status = self.child.wait()?;
        let fine = status.code().is_some_and(|code| codes.contains(&code));
        ensure!(fine, "{} ended with {status}\n{}", self.name, self.tail());
        let stdout = fs::read_to_string(&self.out)?;
        Ok(Finished { cpu_seconds: stat.cpu_seconds, wall_seconds, peak_bytes, stdout })
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) -> Result<()> {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status()?;
        ensure!(status.success(), "{} could not be interrupted", self.name);
        Ok(())
    }

    /// Most memory that it has had at once; none of one that has ended.
    fn peak_bytes(&self) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
    }

    fn pause(&self) -> Duration {
        (self.begin.elapsed() / 50).clamp(POLL[0], POLL[1])
    }

    fn stat(&self) -> Result<Stat> {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = fs::read_to_string(&path).with_context(|| format!("{}: {path}", self.name))?;
        Stat::read(&text).with_context(|| format!("{path} is not as proc(5) says: {text}"))
    }

    fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended by itself, which is as good
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine that nobody listens at.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// A process as the kernel describes it.
#[derive(Debug, PartialEq)]
struct Stat {
    ended: bool,
    cpu_seconds: f64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // the name in parentheses may hold anything, parentheses too
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        // field 3 is the first after the name
        let all = ticks(11)? + ticks(12)? + ticks(13)? + ticks(14)?;
        Some(Stat { ended: matches!(*fields.first()?, "Z" | "X"), cpu_seconds: all / TICKS_PER_SECOND })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 9 9 9";
        assert_eq!(Stat::read(stat), Some(Stat { ended: false, cpu_seconds: 2.5 }));
        let ended = stat.replace(" R ", " Z ");
        assert!(Stat::read(&ended).expect("the same fields").ended);
        assert_eq!(Stat::read("7 (a) R 1"), None);
    }

    #[test]
    fn a_program_is_measured_and_its_failure_told() {
        let folder = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let shell = |script: &str| {
            let base = folder.join("shell");
            Running::start("shell", Command::new("sh").args(["-c", script]), &base).expect("a shell is everywhere")
        };
        let within = Duration::from_secs(60);
        let done = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done").finish(within, &[0]);
        let done = done.expect("it ends");
        assert_eq!(done.stdout, "done\n");
        assert!(done.cpu_seconds > 0.0 && done.cpu_seconds <= done.wall_seconds + 0.1, "{}", done.cpu_seconds);
        let failure = shell("echo why >&2; exit 3").finish(within, &[0]).map(|_| ()).expect_err("it fails");
        assert!(failure.to_string().contains("exit status: 3") && failure.to_string().contains("why"), "{failure}");
        assert!(shell("exit 3").finish(within, &[0, 3]).is_ok());
        assert!(shell("sleep 60").finish(Duration::ZERO, &[0]).is_err(), "it is bounded");
        fs::remove_dir_all(&folder).expect("the temporary folder is ours");
    }
}
