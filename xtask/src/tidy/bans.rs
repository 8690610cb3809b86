//! What the crates that both engines share may not call: `now` is an argument, and order can be seen.

use super::finding::Finding;
use super::lexer;
use super::source::Source;

/// The folders whose code must give the same result in virtual time and in real time.
const SHARED: [&str; 4] = ["framework/core/", "framework/models/", "framework/sim/", "actors/"];
/// The file in which the simulator may start threads: whole runs side by side, never parts of one.
const PARALLEL: &str = "framework/sim/src/parallel.rs";

/// Paths that are banned with everything below them, each with what to write instead.
const PATHS: [(&str, &str); 4] = [
    ("std::fs", "leave files to `media`, `export` and `bin`; take the content as an argument"),
    ("std::net", "leave sockets to `emu`; take plain addresses from `core::net`"),
    ("std::thread", "leave threads to the engine; answer with a command in the outbox"),
    ("rand::rng", "draw from the stream's own seeded generator"),
];
/// Names that are banned wherever they come from, each with what to write instead.
const NAMES: [(&str, &str); 5] = [
    ("Instant", "take `now: Time` as an argument"),
    ("SystemTime", "take `now: Time` as an argument"),
    ("HashMap", "use a `BTreeMap`: the order can be seen"),
    ("HashSet", "use a `BTreeSet`: the order can be seen"),
    ("thread_rng", "draw from the stream's own seeded generator"),
];

/// Every banned path and name outside the tests of the shared crates.
pub fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if SHARED.iter().any(|folder| source.path.starts_with(folder)) {
        findings.extend(paths(source));
        findings.extend(names(source));
    }
    findings
}

fn names(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, instead) in NAMES {
        let found = lexer::find(&source.live, name);
        findings.extend(found.map(|at| source.at(at, format!("`{name}` in a shared crate"), instead)));
    }
    findings
}

fn paths(source: &Source<'_>) -> Vec<Finding> {
    let imports = imports(&source.live);
    let mut findings = Vec::new();
    for (path, instead) in PATHS {
        if path == "std::thread" && source.path == PARALLEL {
            continue;
        }
        let imported = imports.iter().filter(|(_, import)| is_below(import, path));
        let offsets = imported.map(|(at, _)| *at).chain(lexer::find(&source.live, path));
        findings.extend(offsets.map(|at| source.at(at, format!("`{path}` in a shared crate"), instead)));
    }
    findings.sort();
    findings.dedup();
    findings
}

fn is_below(import: &str, path: &str) -> bool {
    import.strip_prefix(path).is_some_and(|rest| !rest.bytes().next().is_some_and(lexer::is_word))
}

/// Every path that a `use` item of `code` brings in, groups written out, with the offset of its last part.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for start in lexer::find(code, "use") {
        let start = start + "use".len();
        let end = code[start..].find(';').map_or(code.len(), |len| start + len);
        expand(code, start, end, &mut found);
    }
    found
}

fn expand(code: &str, start: usize, end: usize, found: &mut Vec<(usize, String)>) {
    let (mut path, mut groups, mut at_part) = (String::new(), vec![0], start);
    let close = |path: &mut String, len: usize, at: usize, found: &mut Vec<(usize, String)>| {
        if path.len() > len {
            found.push((at, path.trim_end().to_owned()));
        }
        path.truncate(len);
    };
    for (at, c) in code[start..end].char_indices().map(|(at, c)| (start + at, c)) {
        let open = groups.last().copied().unwrap_or(0);
        match c {
            '{' => groups.push(path.len()),
            ',' => close(&mut path, open, at_part, found),
            '}' => {
                close(&mut path, open, at_part, found);
                groups.pop();
                path.truncate(groups.last().copied().unwrap_or(0));
            }
            c if c.is_whitespace() && path.len() == open => {}
            c => {
                if path.len() == open {
                    at_part = at;
                }
                path.push(c);
            }
        }
    }
    close(&mut path, 0, at_part, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn groups_are_written_out() {
        let code = "use std::{\n    fs as files,\n    io::{self, Write},\n};\nuse a::b;";
        let paths: Vec<String> = imports(code).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["std::fs as files", "std::io::self", "std::io::Write", "a::b"]);
    }

    #[test]
    fn hidden_inputs_are_found_in_shared_crates() {
        for (text, expected) in [
            ("use std::fs;", "1: `std::fs` in a shared crate"),
            ("use std::{\n    fmt, net,\n};", "2: `std::net` in a shared crate"),
            ("fn a() { std::thread::sleep(b) }", "1: `std::thread` in a shared crate"),
            ("use rand::rng;", "1: `rand::rng` in a shared crate"),
            ("use std::time::Instant;", "1: `Instant` in a shared crate"),
            ("fn a() -> B { SystemTime::now() }", "1: `SystemTime` in a shared crate"),
            ("use std::collections::HashMap;", "1: `HashMap` in a shared crate"),
            ("use std::collections::{BTreeMap, HashSet};", "1: `HashSet` in a shared crate"),
            ("fn a() { rand::thread_rng() }", "1: `thread_rng` in a shared crate"),
        ] {
            for path in
                ["framework/core/src/a.rs", "framework/models/src/a.rs", "framework/sim/src/a.rs", "actors/src/a.rs"]
            {
                assert_eq!(said(path, text), [expected], "{path}: {text}");
            }
            assert!(said("framework/emu/src/a.rs", text).is_empty());
        }
    }

    #[test]
    fn tests_comments_and_neighbours_are_free() {
        let text = "//! HashMap.\nuse std::{fmt, io};\nuse rand::rngs::A;\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(said("actors/src/a.rs", text).is_empty());
    }

    #[test]
    fn runs_side_by_side_may_use_threads() {
        let text = "use std::thread;";
        assert!(said("framework/sim/src/parallel.rs", text).is_empty());
        assert_eq!(said("framework/core/src/parallel.rs", text).len(), 1);
    }
}
