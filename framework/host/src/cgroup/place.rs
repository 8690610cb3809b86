//! Where groups are made: a parent in each hierarchy that is needed, as far up as we may write.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use super::meter::Meter;
use super::tree::{Tree, Way};
use super::{CgroupError, LOOK, Limits, PREFIX};
use crate::owner::Owner;

/// A quota is refilled so often, µs: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The smallest quota, µs. Source: kernel, `min_cfs_quota_period`, 1 ms.
const QUOTA_US_MIN: u64 = 1_000;
/// What version 2 must have for us.
const CONTROLLERS: [&str; 2] = ["cpu", "memory"];
/// The leaf that this process moves to where its own group becomes a parent.
const LEADER: &str = "rehearsal-leader";
/// Times a group is emptied into that leaf: a process may be started meanwhile.
const MOVES: u32 = 5;

/// Which interface a group's files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Version {
    /// A hierarchy per controller.
    V1,
    /// One for all.
    V2,
}

/// A folder in which groups can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parent {
    pub version: Version,
    pub folder: PathBuf,
}

impl Parent {
    /// Puts limits in force in a group below it, as far as its hierarchy knows them.
    pub fn limit(&self, folder: &Path, limits: Limits) -> Result<(), CgroupError> {
        let known = |file: &str| folder.join(file).exists();
        if let Some(vcpu) = limits.vcpu {
            let quota = quota_us(vcpu);
            match self.version {
                Version::V1 if known("cpu.cfs_quota_us") => {
                    files::write(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                    files::write(&folder.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                Version::V2 if known("cpu.max") => {
                    files::write(&folder.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
                }
                Version::V1 | Version::V2 => {}
            }
        }
        let Some(bytes) = limits.memory_bytes.map(|b| b.to_string()) else { return Ok(()) };
        // the limit itself must be taken; the one on swap is there only where the kernel counts swap
        let names = match self.version {
            Version::V1 => [("memory.limit_in_bytes", &*bytes), ("memory.memsw.limit_in_bytes", &*bytes)],
            Version::V2 => [("memory.max", &*bytes), ("memory.swap.max", "0")],
        };
        for (name, value) in names.into_iter().filter(|(name, _)| known(name)) {
            files::write(&folder.join(name), value)?;
        }
        Ok(())
    }
}

fn quota_us(vcpu: f64) -> u64 {
    ((vcpu * PERIOD_US as f64).round() as u64).max(QUOTA_US_MIN)
}

/// A parent for each controller; one and the same where they share a hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Parents {
    cpu: Parent,
    account: Option<Parent>,
    memory: Parent,
}

impl Parents {
    /// Finds them.
    pub fn find(tree: &Tree) -> Result<Parents, CgroupError> {
        let second = tree.second().filter(|way| has(&way[0].join("cgroup.controllers"), &CONTROLLERS));
        if let Some(way) = second {
            let parent = highest(Version::V2, &way)?;
            return Ok(Parents { cpu: parent.clone(), account: None, memory: parent });
        }
        let of = |controller| match tree.first(controller) {
            Some(way) => highest(Version::V1, &way),
            None => Err(CgroupError::Missing(controller)),
        };
        Ok(Parents { cpu: of("cpu")?, account: of("cpuacct").ok(), memory: of("memory")? })
    }

    /// Each one once.
    pub fn all(&self) -> impl Iterator<Item = &Parent> {
        let set: BTreeSet<&Parent> = [&self.cpu, &self.memory].into_iter().chain(&self.account).collect();
        set.into_iter()
    }

    /// What reads a group called `name`.
    pub fn meter(&self, name: &str, limits: Limits) -> Meter {
        Meter {
            version: self.cpu.version,
            cpu: self.cpu.folder.join(name),
            account: self.account.as_ref().map(|p| p.folder.join(name)),
            memory: self.memory.folder.join(name),
            limits,
        }
    }
}

/// The first folder on the way down in which a group can be made.
fn highest(version: Version, way: &Way) -> Result<Parent, CgroupError> {
    let mut why = None;
    for folder in way {
        let usable = match version {
            Version::V1 => probe(folder),
            Version::V2 => hand_on(folder, way.last() == Some(folder), &CONTROLLERS).and_then(|()| probe(folder)),
        };
        match usable {
            Ok(()) => return Ok(Parent { version, folder: folder.clone() }),
            Err(error) => why = Some(error),
        }
    }
    Err(why.unwrap_or(CgroupError::Missing("cpu")))
}

/// Makes a group and removes it again.
fn probe(folder: &Path) -> Result<(), CgroupError> {
    let refused = |source| CgroupError::NotPermitted { folder: folder.to_owned(), source };
    let group = folder.join(format!("{PREFIX}probe.{}", Owner::this()));
    fs::create_dir(&group).map_err(refused)?;
    // entering it is what counts: a group that others made for us may be ours to divide, but not to leave
    let enterable = fs::OpenOptions::new().write(true).open(group.join("cgroup.procs")).map(drop);
    let _ = fs::remove_dir(&group);
    enterable.map_err(refused)
}

/// Hands the controllers of a version 2 group on to the groups below it. Only a group without processes may, but for the
/// root; our own is emptied into a leaf if nobody else is in it.
fn hand_on(folder: &Path, own: bool, controllers: &[&str]) -> Result<(), CgroupError> {
    let file = folder.join("cgroup.subtree_control");
    if has(&file, controllers) {
        return Ok(());
    }
    let wish: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
    let enable = || fs::write(&file, wish.join(" "));
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::ResourceBusy => CgroupError::Inhabited { folder: folder.to_owned() },
        _ => CgroupError::NotPermitted { folder: folder.to_owned(), source },
    };
    match enable() {
        Err(why) if own && why.kind() == io::ErrorKind::ResourceBusy => {}
        done => return done.map_err(refused),
    }
    let this = std::process::id().cast_signed();
    if files::processes(folder).iter().any(|pid| *pid != this) {
        return Err(CgroupError::Inhabited { folder: folder.to_owned() });
    }
    let leaf = folder.join(LEADER);
    let _ = fs::create_dir(&leaf);
    let mut done = Ok(());
    for _ in 0..MOVES {
        done = fs::write(leaf.join("cgroup.procs"), "0").and_then(|()| enable());
        if done.is_ok() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    done.map_err(refused)
}

/// Whether a file of names holds all of these.
fn has(file: &Path, names: &[&str]) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    names.iter().all(|name| text.split_whitespace().any(|word| word == *name))
}

/// Moves this process to a group, by its folder in a hierarchy.
///
/// # Errors
/// What the kernel says.
pub fn enter(folder: &Path) -> io::Result<()> {
    // 0 is whoever writes it
    fs::write(folder.join("cgroup.procs"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("rehearsal-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary folder");
            Scratch(path)
        }

        fn write(&self, files: &[(&str, &str)]) {
            files.iter().for_each(|(name, text)| fs::write(self.0.join(name), text).expect("a file"));
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).expect(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let limits = Limits { vcpu: Some(0.5), memory_bytes: Some(67_108_864) };
        let folder = Scratch::new("limits");
        folder.write(&[("cpu.max", "max 100000"), ("memory.max", "max"), ("memory.swap.max", "max")]);
        Parent { version: Version::V2, folder: folder.0.clone() }.limit(&folder.0, limits).expect("version 2");
        assert_eq!(
            ["cpu.max", "memory.max", "memory.swap.max"].map(|f| folder.read(f)),
            ["50000 100000", "67108864", "0"]
        );
        folder.write(&[("cpu.cfs_period_us", ""), ("cpu.cfs_quota_us", "-1"), ("memory.limit_in_bytes", "")]);
        Parent { version: Version::V1, folder: folder.0.clone() }.limit(&folder.0, limits).expect("version 1");
        let files = ["cpu.cfs_period_us", "cpu.cfs_quota_us", "memory.limit_in_bytes"];
        assert_eq!(files.map(|f| folder.read(f)), ["100000", "50000", "67108864"]);
        assert_eq!((quota_us(0.001), quota_us(1.0), quota_us(2.5)), (1_000, 100_000, 250_000));
    }

    #[test]
    fn use_is_read_as_each_version_tells_it() {
        let folder = Scratch::new("usage");
        folder.write(&[
            ("cpu.stat", "usage_usec 1500\nnr_periods 7\nnr_throttled 3\nthrottled_usec 250\nthrottled_time 9\n"),
            ("memory.current", "9000\n"),
            ("memory.peak", "9999\n"),
            ("memory.stat", "anon 1\ninactive_file 1000\ntotal_inactive_file 500\n"),
            ("memory.events", "low 0\noom 2\noom_kill 1\n"),
            ("cpuacct.usage", "77\n"),
            ("memory.usage_in_bytes", "8000\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
        ]);
        let meter = |version| Meter {
            version,
            cpu: folder.0.clone(),
            account: Some(folder.0.clone()),
            memory: folder.0.clone(),
            limits: Limits::default(),
        };
        let second = meter(Version::V2).usage();
        assert_eq!((second.cpu_ns, second.throttled_ns), (Some(1_500_000), Some(250_000)));
        assert_eq!((second.periods, second.periods_throttled), (Some(7), Some(3)));
        assert_eq!(
            (second.memory_bytes, second.memory_peak_bytes, second.oom_kills),
            (Some(8000), Some(9999), Some(1))
        );
        let first = meter(Version::V1).usage();
        assert_eq!((first.cpu_ns, first.throttled_ns, first.memory_bytes), (Some(77), Some(9), Some(7500)));
        assert_eq!((first.memory_peak_bytes, first.oom_kills), (None, Some(4)), "what is not told is unknown");
    }

    /// The root of the version 2 hierarchy, a controller that it can hand on, and whether it did, if we may.
    fn hierarchy() -> Option<(PathBuf, String, bool)> {
        let root = Tree::read().second()?.into_iter().next()?;
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).ok()?;
        let controller = controllers.split_whitespace().next()?.to_owned();
        let before = has(&root.join("cgroup.subtree_control"), &[&controller]);
        hand_on(&root, false, &[&controller]).ok()?;
        probe(&root).ok()?;
        Some((root, controller, before))
    }

    /// In a process of its own: it moves to other groups, and whatever other tests start would move with it.
    #[test]
    fn a_group_of_version_2_hands_on_when_nobody_else_is_in_it() {
        let own = std::env::current_exe().expect("the tests' program");
        let mut command = std::process::Command::new(own);
        command.args(["--exact", "--ignored", "--nocapture", "cgroup::place::tests::hands_on_alone"]);
        let done = command.output().expect("it starts");
        let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(done.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "the test above runs it in a process of its own"]
    fn hands_on_alone() {
        let Some((root, controller, before)) = hierarchy() else {
            eprintln!("skipped: no version 2 hierarchy that we may divide");
            return;
        };
        let group = root.join(format!("{PREFIX}test.{}", Owner::this()));
        fs::create_dir(&group).expect("a group");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        fs::write(group.join("cgroup.procs"), other.id().to_string()).expect("it moves");
        let why = hand_on(&group, true, &[&controller]).expect_err("it is inhabited");
        assert!(matches!(why, CgroupError::Inhabited { .. }), "{why}");
        assert!(why.to_string().contains("Delegate=yes"), "{why}");
        other.kill().and_then(|()| other.wait()).expect("it ends");
        // now this process alone is in it
        enter(&group).expect("we move");
        let done = hand_on(&group, true, &[&controller]);
        let (inside, enabled) =
            (files::processes(&group.join(LEADER)), has(&group.join("cgroup.subtree_control"), &[&controller]));
        enter(&root).expect("we move back");
        [group.join(LEADER), group].iter().for_each(|folder| fs::remove_dir(folder).expect("it is empty"));
        if !before {
            fs::write(root.join("cgroup.subtree_control"), format!("-{controller}")).expect("as it was");
        }
        done.expect("nobody else was in it");
        assert_eq!(inside, [std::process::id().cast_signed()]);
        assert!(enabled);
    }
}
