//! What the integration tests share: a folder that removes itself, the program under test, and readers of its bundles.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub mod family;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_rehearsal");
/// The experiments that the project ships.
pub const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs");
/// Prepared clips are kept here, so that no test touches the user's cache.
pub const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");
/// Doubts that a busy machine raises.
const LATE: [&str; 8] = [
    "generator_late",
    "generator_saturated",
    "target_saturated",
    "rate_missed",
    "skipped",
    "stolen",
    "contended",
    "warmup_included",
];
/// No run of a test takes this long; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Held by tests that time the machine itself: nothing else runs meanwhile.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Held by tests that keep the machine busy or wait for something, and do not mind others that do: a busy machine may
/// make what they look at late, but not different.
pub fn beside() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

static MACHINE: RwLock<()> = RwLock::new(());

/// Runs a test for each of its cases, all at once: what mostly waits need not wait in a row.
pub fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let test = &test;
            scope.spawn(move || test(case));
        }
    });
}

/// A port of this machine that was free a moment ago.
pub fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.local_addr().expect("its address").port()
}

/// Waits until `holds`.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A folder of one test, in which its programs run; it goes with the test.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("rehearsal-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Scratch(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file in the temporary folder");
        path
    }

    /// Everything in it, folders and what they hold, in order.
    pub fn listing(&self) -> Vec<String> {
        files(&self.0).keys().cloned().collect()
    }

    /// A call of `program` in this folder, with nothing of the caller's settings.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("REHEARSAL_")) {
            command.env_remove(name);
        }
        // help is wrapped to COLUMNS where there is no terminal
        command.env_remove("COLUMNS").env("REHEARSAL_CACHE", CACHE).env("NO_COLOR", "1");
        // sockets of runs that are killed go with the test
        command.env("XDG_RUNTIME_DIR", &self.0);
        command.args(args).current_dir(&self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program under test to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        self.start(args).wait()
    }

    /// Starts the program under test.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::spawn(self.command(PROGRAM, args))
    }

    /// A dry run to a bundle named `name`, which must come about without doubts.
    pub fn simulate(&self, file: &str, name: &str, more: &[&str]) -> Bundle {
        let bundle = self.bundle("simulate", file, name, more, &[0]);
        assert_eq!(bundle.doubts(), Vec::<&str>::new());
        bundle
    }

    /// A real run to a bundle named `name`. On a busy machine the verdict may doubt its times, but nothing else.
    pub fn emulate(&self, file: &str, name: &str, more: &[&str]) -> Bundle {
        let bundle = self.bundle("emulate", file, name, more, &[0, 20]);
        bundle.doubted(&[]);
        bundle
    }

    /// Both, one after the other: `NAME-simulate` and `NAME-emulate`.
    pub fn both(&self, file: &str, name: &str, more: &[&str]) -> [Bundle; 2] {
        let simulated = self.simulate(file, &format!("{name}-simulate"), more);
        [simulated, self.emulate(file, &format!("{name}-emulate"), more)]
    }

    pub fn bundle(&self, verb: &str, file: &str, name: &str, more: &[&str], codes: &[i32]) -> Bundle {
        let done = self.run(&[&[verb, file, "--out", name, "--quiet"], more].concat());
        let wanted = done.code.is_some_and(|c| codes.contains(&c));
        assert!(wanted, "{verb} {file} {more:?}: {:?}\n{}\n{}", done.code, done.stdout, done.stderr);
        Bundle::read(&self.path(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files and folders below `root` by their path, with the files' bytes.
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("it lies below").to_string_lossy().into_owned();
            let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path).expect("a file that can be read") };
            found.insert(name, bytes);
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// What a program left behind.
#[derive(Debug)]
pub struct Done {
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {}", self.stdout))
    }
}

/// A program that runs; it is killed if the test gives up on it.
pub struct Running {
    child: Child,
    readers: [Option<JoinHandle<String>>; 2],
}

impl Running {
    /// Starts `command` and reads along.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        let readers = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
        Running { child, readers }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program runs");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Done {
        let begun = Instant::now();
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let [_, err] = self.texts();
                panic!("it hangs after {PATIENCE:?}:\n{err}");
            }
            thread::sleep(Duration::from_millis(5));
        };
        let [stdout, stderr] = self.texts();
        Done { code: status.code(), stdout, stderr }
    }

    fn texts(&mut self) -> [String; 2] {
        self.readers.each_mut().map(|r| r.take().map_or_else(String::new, |r| r.join().expect("its output")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A bundle, read back.
pub struct Bundle {
    pub folder: PathBuf,
    pub summary: Value,
    pub verdict: Value,
    pub manifest: Value,
}

impl Bundle {
    /// Reads the bundle in `folder`.
    pub fn read(folder: &Path) -> Self {
        let json = |name: &str| {
            let path = folder.join(name);
            let text = fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            serde_json::from_slice(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
        };
        let (summary, verdict, manifest) = (json("summary.json"), json("verdict.json"), json("manifest.json"));
        let bundle = Bundle { folder: folder.to_owned(), summary, verdict, manifest };
        bundle.must_be_consistent();
        bundle
    }

    /// `VALID`, `DEGRADED` or `INVALID`.
    pub fn status(&self) -> &str {
        self.verdict["status"].as_str().expect("a status")
    }

    /// The codes of the verdict's reasons that are more than notes.
    pub fn doubts(&self) -> Vec<&str> {
        let reasons = self.verdict["reasons"].as_array().expect("reasons").iter();
        reasons.filter(|r| r["severity"] != "note").filter_map(|r| r["code"].as_str()).collect()
    }

    /// Reasons with this code.
    fn doubts_of(&self, code: &str) -> impl Iterator<Item = &Value> {
        self.verdict["reasons"].as_array().expect("reasons").iter().filter(move |r| r["code"] == code)
    }

    /// Panics unless these are its doubts. On a busy machine its times may be doubted too, but nothing else.
    pub fn doubted(&self, expected: &[&str]) {
        let doubts = self.doubts();
        assert!(expected.iter().all(|code| doubts.contains(code)), "{expected:?}: {:#}", self.verdict);
        // queues of the machine are everybody's: other tests may have filled them
        let everybodys =
            self.doubts_of("buffers_exhausted").all(|r| r["node"].as_str().is_some_and(|n| n.starts_with("machine")));
        let known = |code: &&str| {
            expected.contains(code) || LATE.contains(code) || (*code == "buffers_exhausted" && everybodys)
        };
        assert!(doubts.iter().all(known), "{:#}", self.verdict);
    }

    /// A counter of the whole run, over all groups.
    pub fn total(&self, counter: &str) -> u64 {
        number(&self.summary["total"]["totals"][counter], counter)
    }

    /// A counter of the whole run, over the groups of one template.
    pub fn total_of(&self, template: &str, counter: &str) -> u64 {
        let rows = self.summary["templates"].as_array().expect("templates").iter();
        let row = rows.clone().find(|t| t["template"] == template).unwrap_or_else(|| panic!("no {template}"));
        number(&row["totals"][counter], counter)
    }

    /// A percentile of a metric over all groups, ns.
    pub fn ns(&self, metric: &str, percentile: &str) -> u64 {
        number(&self.summary["total"]["metrics"][metric][format!("{percentile}_ns")], metric)
    }

    /// Digest of what the schedules generated.
    pub fn schedule(&self) -> &str {
        self.summary["schedule_digest"].as_str().expect("a schedule digest")
    }

    /// `series.csv`, row by row.
    pub fn rows(&self) -> Vec<BTreeMap<String, String>> {
        let text = fs::read_to_string(self.folder.join("series.csv")).expect("series.csv, asked for with --csv");
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let row = |line: &str| {
            let cells: Vec<String> = line.split(',').map(str::to_owned).collect();
            assert_eq!(cells.len(), names.len(), "{line}");
            names.iter().map(|n| (*n).to_owned()).zip(cells).collect()
        };
        lines.map(row).collect()
    }

    /// The identities hold, in all and in every group, and at the end nothing is open.
    fn must_be_consistent(&self) {
        let groups = self.summary["groups"].as_array().expect("groups");
        for part in groups.iter().chain([&self.summary["total"]]) {
            let t = |name: &str| number(&part["totals"][name], name);
            let settled = t("success") + t("invalid") + t("failed") + t("lost") + t("aborted");
            assert_eq!(t("generated"), settled + number(&part["open"], "open"), "{part:#}");
            let over = t("success") + t("invalid") + t("failed") + t("rejected") + t("unacknowledged");
            let open = number(&part["open_attempts"], "open_attempts");
            assert_eq!(t("attempts"), over + t("aborted_attempts") + open, "{part:#}");
            assert_eq!(number(&part["open"], "open"), 0, "{part:#}");
        }
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{name} is {value}"))
}

/// An experiment of senders and one receiver, put together from its parts.
#[derive(Clone)]
pub struct Scenario {
    /// Lines of `[experiment]`.
    pub experiment: String,
    /// Nodes of one sender each.
    pub senders: u32,
    /// Lines of the sender beside `to`.
    pub sender: String,
    /// Lines of the receiver beside its kind.
    pub receiver: String,
    /// Lines of the default link.
    pub link: String,
}

impl Default for Scenario {
    /// One sensor that says nothing of its load.
    fn default() -> Self {
        Scenario {
            experiment: "stop = \"all-requests-done\"".to_owned(),
            senders: 1,
            sender: "kind = \"sensor\"".to_owned(),
            receiver: String::new(),
            link: String::new(),
        }
    }
}

impl Scenario {
    /// A sensor with further lines.
    pub fn sensor(lines: &str) -> Self {
        Scenario { sender: format!("kind = \"sensor\"\n{lines}"), ..Scenario::default() }
    }

    /// A sensor with further lines that sends for a while.
    pub fn sensor_for(duration: &str, lines: &str) -> Self {
        Scenario { experiment: format!("duration = \"{duration}\""), ..Scenario::sensor(lines) }
    }

    /// The experiment file.
    pub fn toml(&self) -> String {
        let Scenario { experiment, senders, sender, receiver, link } = self;
        format!(
            "[experiment]\nname = \"trial\"\n{experiment}\n\n[nodes.sender]\ncount = {senders}\n\n\
             [nodes.sender.actors.main]\nto = \"receiver/main\"\n{sender}\n\n\
             [nodes.receiver.actors.main]\nkind = \"receiver\"\n{receiver}\n\n[links.default]\n{link}\n"
        )
    }
}
