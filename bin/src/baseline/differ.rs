//! What makes two resolved experiments different measurements.

use std::collections::BTreeMap;

/// Keys that do not change what is measured: words, how often it is run, where draws begin, and what is wanted of it.
const PASSED_OVER: [&str; 4] = ["experiment.description", "experiment.repetitions", "experiment.seed", "thresholds"];

/// Each value that is not the same in both, with its path; what cannot be read differs as a whole.
pub fn differences(there: &str, here: &str) -> Vec<String> {
    let (Ok(there), Ok(here)) = (there.parse::<toml::Table>(), here.parse::<toml::Table>()) else {
        return vec!["the resolved files cannot both be read".to_owned()];
    };
    let (there, here) = (leaves(&there), leaves(&here));
    let mut paths: Vec<&String> = there.keys().chain(here.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let told = |value: Option<&String>| value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"));
    let differs = |path: &&String| there.get(*path) != here.get(*path);
    let differing = paths.into_iter().filter(differs);
    differing.map(|path| format!("{path}: {} there, {} here", told(there.get(path)), told(here.get(path)))).collect()
}

fn leaves(table: &toml::Table) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &toml::Table)> = vec![(String::new(), table)];
    while let Some((above, table)) = open.pop() {
        for (key, value) in table {
            let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            if PASSED_OVER.contains(&path.as_str()) {
                continue;
            }
            match value {
                toml::Value::Table(table) => open.push((path, table)),
                toml::Value::String(text) => _ = found.insert(path, text.clone()),
                other => _ = found.insert(path, other.to_string()),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_differs_and_what_is_wanted_of_it_does_not() {
        let there =
            "[experiment]\nseed = 1\nduration = \"5s\"\n[nodes.a]\ncount = 2\n[thresholds]\n\"lost.ratio\" = \"<1%\"";
        let here = "[experiment]\nseed = 2\nduration = \"6s\"\nrepetitions = 3\n[nodes.a]\ncount = 2\nvcpu = 1";
        assert_eq!(
            differences(there, here),
            ["experiment.duration: `5s` there, `6s` here", "nodes.a.vcpu: nothing there, `1` here"]
        );
        assert_eq!(differences(there, there), Vec::<String>::new());
        assert_eq!(differences("[", here).len(), 1);
    }
}
