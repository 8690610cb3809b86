//! Rules for text: pages whose links lead somewhere, and no words of the place where it was written.

use super::finding::Finding;
use super::tree::Tree;

/// Words of a workplace; split, so that this file does not hold them.
const WORKPLACE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("sub", "agent")];

/// Lines of `text` that speak of the machine or the circumstances they were written in.
pub fn workplace(path: &str, text: &str) -> Vec<Finding> {
    let instead = "speak of the project only, with paths below its top folder";
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.to_ascii_lowercase();
        let found = WORKPLACE.iter().find(|word| line.contains(**word));
        let finding = |word| Finding::new(path, at + 1, format!("`{word}` speaks of a workplace"), instead);
        findings.extend(found.map(finding));
    }
    findings
}

/// Links of the page at `path` to files that the repository does not hold.
pub fn links(path: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let line = without_code(line);
        for target in targets(&line).filter(|target| leads_nowhere(folder, target, tree)) {
            let what = format!("the link to `{target}` leads nowhere");
            let instead = "name a file of the repository, relative to this page";
            findings.push(Finding::new(path, at + 1, what, instead));
        }
    }
    findings
}

/// `line` with what stands between backticks left out.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The targets of inline links and images, and of a reference's definition, without title.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = definition.and_then(|(_, rest)| rest.split_whitespace().next());
    inline.chain(defined)
}

fn leads_nowhere(folder: &str, target: &str, tree: &Tree) -> bool {
    let file = target.split('#').next().unwrap_or(target).trim_matches(['<', '>']);
    let elsewhere = file.contains("://") || file.starts_with("mailto:");
    !elsewhere && !resolve(folder, file).is_some_and(|path| tree.has(&path))
}

/// `file` as seen from `folder`, below the top folder; `None` when it leaves the repository.
fn resolve(folder: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    let start = if file.starts_with('/') { "" } else { folder };
    if file.is_empty() {
        return Some(String::new());
    }
    for part in start.split('/').chain(file.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_workplace_are_found() {
        let text = format!("fine\nsee {}main/a\nA {} wrote this\n", WORKPLACE[0], WORKPLACE[2].to_uppercase());
        let lines: Vec<usize> = workplace("a.md", &text).iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3]);
        assert!(workplace("a.md", "framework/core, work in hand, network/x").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let tree = Tree::of(&[("README.md", ""), ("configs/a.toml", ""), ("framework/core/README.md", "")]);
        let page = "[a](configs/a.toml) ![b](gone.png \"t\") [c](https://d.example/e) [f](#g)\n\
                    ```text\n[h](gone)\n```\n\
                    `[i](gone)` [j](configs/#k) [l](../out)\n\
                    [m]: gone.md\n";
        let found: Vec<_> = links("README.md", page, &tree).into_iter().map(|f| (f.line, f.what)).collect();
        let expected = [(1, "gone.png"), (5, "../out"), (6, "gone.md")];
        assert_eq!(found, expected.map(|(line, to)| (line, format!("the link to `{to}` leads nowhere"))));
        assert!(links("framework/core/README.md", "[a](../../README.md#b)", &tree).is_empty());
        assert_eq!(links("framework/core/README.md", "[a](README.mdx)", &tree).len(), 1);
    }
}
