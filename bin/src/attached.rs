//! Files that go into the bundle, so that its `experiment.toml` runs again without them: rows of steps, up to a bound.
//!
//! A file keeps the path that the experiment calls it, relative to the bundle. What lies elsewhere (`/…`, `../…`), or would make
//! the bundle too large, stays where it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use rehearsal_scenario::Experiment;

/// Bytes of all files that go along with a bundle. Assumed: a hundred thousand users with a token each.
const BYTES_MAX: u64 = 16 << 20;

/// Path in the bundle, and where the file lies.
pub fn of(experiment: &Experiment) -> BTreeMap<String, PathBuf> {
    let actors = experiment.nodes.iter().flat_map(|node| &node.actors);
    let diagrams = actors.filter_map(|actor| actor.own.get("diagram")?.get("states")?.as_table());
    let states = diagrams.flat_map(|states| states.values());
    let names = states.filter_map(|state| state.get("step")?.get("rows")?.as_str());
    chosen(names, &experiment.base)
}

fn chosen<'a>(names: impl Iterator<Item = &'a str>, base: &Path) -> BTreeMap<String, PathBuf> {
    let mut all = BTreeMap::new();
    let mut left = BYTES_MAX;
    for name in names.filter(|name| lies_below(name)) {
        let path = base.join(name);
        let Some(bytes) = fs::metadata(&path).ok().filter(fs::Metadata::is_file).map(|about| about.len()) else {
            continue;
        };
        if bytes <= left && !all.contains_key(name) {
            left -= bytes;
            all.insert(name.to_owned(), path);
        }
    }
    all
}

/// Whether a path stays below where it begins, and could be none of the bundle's own files.
fn lies_below(name: &str) -> bool {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let own =
        path.components().count() == 1 && path.extension().is_none_or(|ending| ending == "json" || ending == "toml");
    plain && !own && name != "series.csv"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_elsewhere_or_is_too_large_stays() {
        let folder = std::env::temp_dir().join(format!("rehearsal-attached-{}", std::process::id()));
        fs::create_dir_all(folder.join("data")).expect("a folder in it");
        for name in ["users.csv", "data/carts.csv", "summary.json"] {
            fs::write(folder.join(name), "name\nada\n").expect("a file");
        }
        let large = fs::File::create(folder.join("large.csv")).expect("a file");
        large.set_len(BYTES_MAX).expect("a sparse file");
        let outside = format!("../{}/users.csv", folder.file_name().expect("a name").to_string_lossy());
        let names = [
            "users.csv",
            "users.csv",
            "data/carts.csv",
            "summary.json",
            "none.csv",
            "large.csv",
            &outside,
            "/etc/passwd",
        ];
        let all = chosen(names.into_iter(), &folder);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["data/carts.csv", "users.csv"]);
        assert_eq!(all["users.csv"], folder.join("users.csv"));
        fs::remove_dir_all(&folder).expect("it goes");
    }
}
