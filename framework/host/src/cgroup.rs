//! Control groups: each node of a host is held to its vCPU and memory by the kernel, and what it used is read back.
//!
//! Three arrangements are known: version 1 (a hierarchy per controller), version 2 (one for all), and both at once, where
//! each controller is taken from the version that has it. Groups are made as far up as we may write, so that what a killed
//! run left behind is found by the next one whoever starts it, and a session's own limits do not add to a node's.
//!
//! ```no_run
//! use rehearsal_host::cgroup::{Cgroups, Limits};
//!
//! let groups = Cgroups::open()?;
//! let limits = Limits { vcpu: Some(0.5), memory_bytes: Some(64 << 20) };
//! let group = groups.create("run-1", "camera-1", limits)?;
//! // … `rehearsal child --group …` enters group.folders() and becomes the node …
//! println!("{:?}", group.meter().usage());
//! # Ok::<(), rehearsal_host::cgroup::CgroupError>(())
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::owner::Owner;

mod files;
mod meter;
mod place;
mod tree;

pub use meter::{Meter, Quotas, Usage};
pub use place::enter;

use place::{Parent, Parents};

/// How every group's name begins.
const PREFIX: &str = "rehearsal-";
/// How long a group may take to become empty once its processes are dead.
const EMPTY: Duration = Duration::from_secs(2);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// What a node may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Cores, enforced in periods of 100 ms; at least 0.01. `None`: all of them.
    pub vcpu: Option<f64>,
    /// Memory, bytes, page cache included; without swap. `None`: all of it.
    pub memory_bytes: Option<u64>,
}

/// Why limits cannot be enforced, or a group cannot be made.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// The kernel or the container has none.
    #[error("no control group hierarchy with the {0} controller is mounted; start it where /sys/fs/cgroup is")]
    Missing(&'static str),
    /// We may not make groups.
    #[error(
        "control groups cannot be made in {}; run as root, or where systemd delegates: \
         `systemd-run --user --scope -p Delegate=yes rehearsal …`", folder.display()
    )]
    NotPermitted {
        /// The last folder that was tried.
        folder: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Version 2 wants groups without processes above ours, and there are some.
    #[error(
        "{} holds other processes, so its controllers cannot be handed on; give this program a control group of its own: \
         `systemd-run --scope -p Delegate=yes rehearsal …`, or make it the only process of its container", folder.display()
    )]
    Inhabited {
        /// The group that holds them.
        folder: PathBuf,
    },
    /// A limit was refused.
    #[error("{} does not take `{value}`", file.display())]
    Refused {
        /// The kernel's file.
        file: PathBuf,
        /// What was written.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Where this host's groups are made.
#[derive(Clone, Debug)]
pub struct Cgroups {
    parents: Parents,
    owner: Owner,
}

impl Cgroups {
    /// Finds out where groups can be made, and removes those whose owner is gone.
    ///
    /// # Errors
    /// [`CgroupError`] says why limits cannot be enforced here, and what helps.
    pub fn open() -> Result<Cgroups, CgroupError> {
        let cgroups = Cgroups { parents: Parents::find(&tree::Tree::read())?, owner: Owner::this() };
        cgroups.sweep();
        Ok(cgroups)
    }

    /// Makes a group for a node of a run, with its limits in force.
    ///
    /// # Errors
    /// [`CgroupError`]; then nothing is left behind.
    pub fn create(&self, run: &str, node: &str, limits: Limits) -> Result<Group, CgroupError> {
        let name = format!("{PREFIX}{run}-{node}.{}", self.owner);
        let mut group = Group { folders: Vec::new(), meter: self.parents.meter(&name, limits) };
        for parent in self.parents.all() {
            let folder = parent.folder.join(&name);
            // one of the same process and node is of a run before, or of a process before in this run
            remove(&folder);
            fs::create_dir(&folder)
                .map_err(|source| CgroupError::NotPermitted { folder: parent.folder.clone(), source })?;
            group.folders.push(folder.clone());
            parent.limit(&folder, limits)?;
        }
        Ok(group)
    }

    /// Removes groups whose owner is gone; how many there were. A group that still holds processes is left alone.
    pub fn sweep(&self) -> usize {
        let stale = |parent: &Parent| {
            let entries = fs::read_dir(&parent.folder).into_iter().flatten().flatten();
            let gone = entries.filter(|entry| {
                let name = entry.file_name();
                let tag = name.to_str().filter(|n| n.starts_with(PREFIX)).and_then(|n| n.rsplit_once('.'));
                tag.and_then(|(_, tag)| Owner::parse(tag)).is_some_and(|owner| !owner.lives())
            });
            gone.filter(|entry| fs::remove_dir(entry.path()).is_ok()).count()
        };
        self.parents.all().map(stale).sum()
    }
}

/// A group for one node. It is removed when this is dropped, and whatever still runs in it is killed.
#[derive(Debug)]
pub struct Group {
    folders: Vec<PathBuf>,
    meter: Meter,
}

impl Group {
    /// Its folder in each hierarchy: what a process must [`enter`].
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// What reads its use, for any process of this host.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        for folder in &self.folders {
            while !remove(folder) && begun.elapsed() < EMPTY {
                files::kill_all(folder);
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Whether the group is gone.
fn remove(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(why) => why.kind() == io::ErrorKind::NotFound,
    }
}
