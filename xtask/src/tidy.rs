//! The house rules as a test: what `CONTRIBUTING.md` asks of a change and a machine can check.
//!
//! Every rule is a small function from text to findings, and each has a test that shows it a bad sample.
//! A finding names the file and line, says what is wrong and what to write instead.

mod bans;
mod finding;
mod functions;
mod layers;
mod layout;
mod lexer;
mod pages;
mod source;
mod tree;

use std::path::Path;

use anyhow::{Context, Result, bail};

use finding::Finding;
use source::Source;
use tree::Tree;

/// Checks the whole repository and prints every finding.
///
/// # Errors
/// When the tree cannot be read, when `cargo metadata` fails, and when anything was found.
pub fn run() -> Result<()> {
    let findings = check(root())?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy found {}", findings.len());
    }
    Ok(())
}

/// The folder of the workspace, two steps above this file's crate manifest.
fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// All findings, in the order of the files.
fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root).context("the source tree cannot be listed")?;
    let mut findings = layers::check(&layers::read(root)?, root);
    findings.extend(layout::check(&tree));
    let workspace = tree.texts().find(|(path, _)| *path == "Cargo.toml").map_or("", |(_, text)| text);
    for (path, text) in tree.texts() {
        findings.extend(pages::workplace(path, text));
        if path.ends_with(".rs") {
            let source = Source::new(path, text);
            findings.extend(source::check(&source));
            findings.extend(bans::check(&source));
        }
        if path.ends_with(".md") {
            findings.extend(pages::links(path, text, &tree));
        }
        if path.ends_with("Cargo.toml") {
            findings.extend(layers::lints(path, text, workspace));
        }
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_follows_its_own_rules() {
        let findings = check(root()).expect("the repository can be read");
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
