//! The arrows between crates, read from `cargo metadata`, and what every manifest must say.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::finding::Finding;

/// Which of our crates each crate may see: its folder, then theirs. The simulator and the emulator never meet.
const ARROWS: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("models", &["core"]),
    ("sim", &["core", "models"]),
    ("bus", &["core"]),
    ("host", &["core"]),
    ("emu", &["core", "bus", "models", "host"]),
    ("media", &[]),
    ("export", &["core"]),
    ("stats", &["core"]),
    ("replay", &["core"]),
    ("scenario", &["core", "models"]),
    ("actors", &["core", "models"]),
];
/// What sees everything: the place where all is put together.
const TOP: &str = "bin";
/// The project's own chores, which see none of the crates.
const CHORES: &str = "xtask";

/// What `cargo metadata` says of the workspace, as far as it matters here.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
}

/// Asks cargo for the workspace below `root`.
///
/// # Errors
/// When cargo cannot be started, fails, or answers something else than expected.
pub fn read(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata cannot be read")
}

/// Every dependency that is not an allowed arrow, and every crate in an unexpected folder.
pub fn check(metadata: &Metadata, root: &Path) -> Vec<Finding> {
    metadata.packages.iter().flat_map(|package| of_package(package, root)).collect()
}

/// The only crate with lints of its own: the workspace's, but `unsafe` is denied instead of forbidden, so that its one folder can
/// lift that, and every `unsafe` block has to say why it is sound.
const DENIES: &str = "framework/replay/Cargo.toml";

/// Each crate must take the workspace's lints, `missing_docs` among them. `workspace` is the top manifest.
pub fn lints(path: &str, text: &str, workspace: &str) -> Vec<Finding> {
    if path == DENIES {
        return own_lints(text, workspace);
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_crate = text.lines().any(|line| line.trim() == "[package]");
    let taken = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
    if taken || !is_crate {
        return Vec::new();
    }
    let instead = "write `[lints]` and below it `workspace = true`";
    vec![Finding::new(path, 1, "the workspace's lints are not taken", instead)]
}

fn own_lints(text: &str, workspace: &str) -> Vec<Finding> {
    let mut expected = section(workspace, "[workspace.lints.rust]");
    expected.retain(|line| !line.starts_with("unsafe_code"));
    expected.extend(["unsafe_code = \"deny\""]);
    let mut clippy = section(workspace, "[workspace.lints.clippy]");
    clippy.extend(["undocumented_unsafe_blocks = \"warn\""]);
    let tables = [("[lints.rust]", expected), ("[lints.clippy]", clippy)];
    let wrong = tables.into_iter().find_map(|(heading, mut expected)| {
        let mut own = section(text, heading);
        own.sort_unstable();
        expected.sort_unstable();
        (own != expected).then(|| (heading, expected.join(", ")))
    });
    let finding = |(heading, lines): (&str, String)| {
        let line = text.lines().position(|line| line.trim() == heading).map_or(1, |at| at + 1);
        Finding::new(
            DENIES,
            line,
            "its lints are not those of the workspace with `unsafe` denied",
            format!("write {heading} {lines}"),
        )
    };
    wrong.map(finding).into_iter().collect()
}

/// The lines of a table, without comments.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn of_package(package: &Package, root: &Path) -> Vec<Finding> {
    let manifest = Path::new(&package.manifest_path);
    let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
    let below = manifest.strip_prefix(root).unwrap_or(manifest);
    let file = below.to_string_lossy().replace('\\', "/");
    let name = short(&package.name).unwrap_or(&package.name);
    let mut findings = Vec::new();
    if folder != name {
        let what = format!("crate `{}` does not have the name of its folder", package.name);
        let instead = "name it `rehearsal-` and the folder's name";
        findings.push(Finding::new(&file, 1, what, instead));
    }
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    for dependency in &package.dependencies {
        let Some((what, instead)) = refuse(name, &dependency.name) else {
            continue;
        };
        findings.push(Finding::new(&file, line_naming(&text, &dependency.name), what, instead));
    }
    findings
}

/// Why crate `from` may not depend on the package called `dependency`, and what to do instead.
fn refuse(from: &str, dependency: &str) -> Option<(String, String)> {
    if dependency == "anyhow" {
        let fine = from == TOP || from == CHORES;
        let what = format!("`{from}` depends on `anyhow`");
        return (!fine).then(|| (what, "give each operation an error enum with `thiserror`".to_owned()));
    }
    let to = short(dependency)?;
    if from == TOP && to != CHORES {
        return None;
    }
    let (_, allowed) = ARROWS.into_iter().find(|(folder, _)| *folder == from).unwrap_or((from, &[]));
    if allowed.contains(&to) {
        return None;
    }
    let what = format!("`{from}` depends on `{to}`, against the layering");
    let list =
        if allowed.is_empty() { "none of our crates".to_owned() } else { format!("only {}", allowed.join(", ")) };
    Some((what, format!("let it see {list}, or argue the arrow in xtask/src/tidy/layers.rs")))
}

/// The folder of one of our crates, `None` for everybody else's.
fn short(name: &str) -> Option<&str> {
    match name {
        "rehearsal" => Some(TOP),
        CHORES => Some(CHORES),
        _ => name.strip_prefix("rehearsal-"),
    }
}

fn line_naming(text: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(names).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(json: &str) -> Vec<String> {
        let metadata: Metadata = serde_json::from_str(json).expect("a fixture");
        check(&metadata, Path::new("/r")).into_iter().map(|f| format!("{}: {}", f.file, f.what)).collect()
    }

    #[test]
    fn the_allowed_arrows_pass() {
        for (from, to) in [
            ("models", "rehearsal-core"),
            ("emu", "rehearsal-bus"),
            ("scenario", "rehearsal-models"),
            ("bin", "rehearsal-emu"),
            ("bin", "anyhow"),
            ("xtask", "anyhow"),
            ("core", "serde"),
        ] {
            assert_eq!(refuse(from, to), None, "{from} → {to}");
        }
    }

    #[test]
    fn every_other_arrow_is_refused() {
        for (from, to) in [
            ("core", "rehearsal-models"),
            ("sim", "rehearsal-emu"),
            ("emu", "rehearsal-sim"),
            ("actors", "rehearsal-scenario"),
            ("media", "rehearsal-core"),
            ("scenario", "rehearsal"),
            ("xtask", "rehearsal-core"),
            ("bin", "xtask"),
            ("unheard-of", "rehearsal-core"),
            ("core", "anyhow"),
        ] {
            assert!(refuse(from, to).is_some(), "{from} → {to}");
        }
    }

    #[test]
    fn metadata_becomes_findings() {
        let json = r#"{"packages": [
            {"name": "rehearsal-sim", "manifest_path": "/r/framework/sim/Cargo.toml", "dependencies": [{"name": "rehearsal-emu"}]},
            {"name": "rehearsal-bus", "manifest_path": "/r/framework/buses/Cargo.toml", "dependencies": []}
        ]}"#;
        assert_eq!(
            said(json),
            [
                "framework/sim/Cargo.toml: `sim` depends on `emu`, against the layering",
                "framework/buses/Cargo.toml: crate `rehearsal-bus` does not have the name of its folder",
            ]
        );
    }

    #[test]
    fn the_line_of_a_dependency_is_found() {
        let text = "[dependencies]\nanyhow-like = \"1\"\nanyhow.workspace = true\n";
        assert_eq!(line_naming(text, "anyhow"), 3);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let bad = "[package]\nname = \"a\"\n\n[lints]\n\n[dependencies]\n";
        assert_eq!(lints("a/Cargo.toml", bad, "").len(), 1);
        assert!(lints("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n", "").is_empty());
        assert!(lints("Cargo.toml", "[workspace]\n", "").is_empty());
    }

    #[test]
    fn one_crate_may_deny_what_others_forbid_and_nothing_else() {
        let top = "[workspace.lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"forbid\"\n\n[workspace.lints.clippy]\ntodo = \"warn\"\n";
        let good = "[package]\n\n# why\n[lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n\n[lints.clippy]\n\
                    todo = \"warn\"\nundocumented_unsafe_blocks = \"warn\"\n\n[dependencies]\n";
        assert!(lints(DENIES, good, top).is_empty());
        for (from, to) in [
            ("deny", "warn"),
            ("missing_docs = \"warn\"\n", ""),
            ("undocumented_unsafe_blocks", "other"),
            ("[lints.rust]", "[a]"),
        ] {
            assert_eq!(lints(DENIES, &good.replace(from, to), top).len(), 1, "{from} → {to}");
        }
        assert_eq!(lints("framework/sim/Cargo.toml", good, top).len(), 1, "only there");
    }
}
