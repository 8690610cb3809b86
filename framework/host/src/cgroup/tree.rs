//! Which hierarchies are mounted, and where this process stands in them (proc_pid_mountinfo(5), cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

/// The hierarchies of a host as one process sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    mounts: Vec<Mount>,
    own: Vec<Own>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The part of the hierarchy that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// Controllers of a version 1 hierarchy; `None` for version 2.
    controllers: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    /// Empty for version 2.
    controllers: Vec<String>,
    path: PathBuf,
}

/// A way down a hierarchy: folders from its top to the group of this process.
pub(super) type Way = Vec<PathBuf>;

impl Tree {
    /// That of this process.
    pub fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Tree::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"))
    }

    pub fn parse(mountinfo: &str, own: &str) -> Self {
        Tree {
            mounts: mountinfo.lines().filter_map(mount).collect(),
            own: own.lines().filter_map(membership).collect(),
        }
    }

    /// The way to our group in the version 1 hierarchy with `controller`.
    pub fn first(&self, controller: &str) -> Option<Way> {
        let has = |list: &[String]| list.iter().any(|c| c == controller);
        let mount = self.mounts.iter().find(|m| m.controllers.as_deref().is_some_and(has))?;
        Some(way(mount, self.own.iter().find(|o| has(&o.controllers))))
    }

    /// The way to our group in the version 2 hierarchy.
    pub fn second(&self) -> Option<Way> {
        let mount = self.mounts.iter().find(|m| m.controllers.is_none())?;
        Some(way(mount, self.own.iter().find(|o| o.controllers.is_empty())))
    }
}

/// Folders from the mount point to our group; the mount point alone where our group lies outside of what is mounted.
fn way(mount: &Mount, own: Option<&Own>) -> Way {
    let below = own.and_then(|own| own.path.strip_prefix(&mount.root).ok()).unwrap_or(Path::new(""));
    let mut folders = vec![mount.point.clone()];
    for part in below.components() {
        let next = folders.last().map(|folder| folder.join(part)).unwrap_or_default();
        folders.push(next);
    }
    folders
}

/// `31 23 0:28 / /sys/fs/cgroup/cpu rw shared:7 - cgroup cgroup rw,cpu`
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (PathBuf::from(place.next()?), PathBuf::from(place.next()?));
    let mut kind = kind.split(' ');
    let controllers = match kind.next()? {
        "cgroup2" => None,
        "cgroup" => Some(kind.nth(1)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Mount { root, point, controllers })
}

/// `4:cpu,cpuacct:/a/b`, or `0::/a/b` of version 2.
fn membership(line: &str) -> Option<Own> {
    let mut parts = line.splitn(3, ':').skip(1);
    let controllers = parts.next()?.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
    Some(Own { controllers, path: PathBuf::from(parts.next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(way: Option<Way>) -> Vec<String> {
        way.unwrap_or_default().iter().map(|f| f.display().to_string()).collect()
    }

    #[test]
    fn both_versions_at_once() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::parse(mounts, "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/x\n");
        assert_eq!(folders(tree.first("cpuacct")), ["/sys/fs/cgroup/cpu,cpuacct"]);
        let memory = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory/a/b"];
        assert_eq!(folders(tree.first("memory")), memory);
        assert_eq!(folders(tree.second()), ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/x"]);
        assert_eq!(tree.first("blkio"), None);
    }

    #[test]
    fn version_2_alone_as_under_systemd() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let tree = Tree::parse(mounts, "0::/user.slice/user-1000.slice/session-1.scope\n");
        assert_eq!(folders(tree.second()).len(), 4);
        assert_eq!(tree.first("cpu"), None);
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_hierarchy() {
        let mounts = "30 23 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let inside = Tree::parse(mounts, "4:memory:/docker/abc/job\n");
        assert_eq!(folders(inside.first("memory")), ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/job"]);
        let outside = Tree::parse(mounts, "4:memory:/elsewhere\n");
        assert_eq!(folders(outside.first("memory")), ["/sys/fs/cgroup/memory"]);
    }
}
