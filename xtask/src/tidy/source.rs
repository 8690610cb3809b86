//! Rules for each Rust file: how it opens, how long it may be, what is never left behind.

use super::finding::Finding;
use super::functions::functions;
use super::lexer;

/// Longest file, in lines outside its tests. Assumed: the median of codebases worth copying is 130 to 250.
const FILE_LINES_MAX: usize = 500;
/// Longest function, in lines from its signature to its closing brace. Assumed: what fits on one screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Longest `main.rs` of the binary, in lines. Assumed: enough to call the library and map its outcome to an exit code.
const MAIN_LINES_MAX: usize = 60;
/// The only folder that may hold `unsafe`.
const UNSAFE_HOME: &str = "framework/replay/src/sys/";
/// The only file that may lift the lint against it, for that folder.
const UNSAFE_DOOR: &str = "framework/replay/src/sys.rs";
/// Lines above an `unsafe` among which its reason must stand. Assumed: a reason has four, a statement goes over three.
const REASON_LINES_MAX: usize = 7;

/// One Rust file, with views of equal length.
pub struct Source<'a> {
    /// Path below the top folder, with forward slashes.
    pub path: &'a str,
    /// As written.
    pub text: &'a str,
    /// Comments and literals blanked.
    pub code: String,
    /// Tests blanked too.
    pub live: String,
    /// Lines outside tests.
    pub live_lines: usize,
}

impl<'a> Source<'a> {
    /// Prepares the views of `text`.
    pub fn new(path: &'a str, text: &'a str) -> Self {
        let code = lexer::code(text);
        let tests = if is_test_file(path) { lexer::everything(&code) } else { lexer::test_items(&code) };
        let tested: usize = tests.iter().map(|t| text[t.clone()].lines().count()).sum();
        Self {
            path,
            text,
            live: lexer::without(&code, &tests),
            code,
            live_lines: text.lines().count().saturating_sub(tested),
        }
    }

    /// A finding at the line of the byte at `offset`.
    pub fn at(&self, offset: usize, what: impl Into<String>, instead: &str) -> Finding {
        Finding::new(self.path, lexer::line_of(self.text, offset), what, instead)
    }
}

/// All rules of this module.
pub fn check(source: &Source<'_>) -> Vec<Finding> {
    let rules = [opening, file_length, function_length, leftovers, allows, unwraps, unsafe_code];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

/// Integration tests, benchmarks and test modules in files of their own.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

fn opening(source: &Source<'_>) -> Vec<Finding> {
    let first = source.text.lines().next().unwrap_or_default();
    match first.strip_prefix("//!") {
        Some(rest) if !rest.trim().is_empty() => Vec::new(),
        _ => vec![source.at(0, "the file does not introduce itself", "open with `//!` and say what this room is for")],
    }
}

fn file_length(source: &Source<'_>) -> Vec<Finding> {
    let max = match source.path {
        "bin/src/main.rs" => MAIN_LINES_MAX,
        _ => FILE_LINES_MAX,
    };
    if source.live_lines <= max {
        return Vec::new();
    }
    let what = format!("{} lines outside tests, at most {max}", source.live_lines);
    vec![source.at(0, what, "split it by what its parts are for")]
}

fn function_length(source: &Source<'_>) -> Vec<Finding> {
    functions(&source.live)
        .into_iter()
        .filter(|function| function.lines > FUNCTION_LINES_MAX)
        .map(|function| {
            let what = format!("`{}` has {} lines, at most {FUNCTION_LINES_MAX}", function.name, function.lines);
            let instead = "give its steps functions of their own";
            Finding::new(source.path, function.line, what, instead)
        })
        .collect()
}

fn leftovers(source: &Source<'_>) -> Vec<Finding> {
    let instead = "finish it, or take it out";
    ["todo!", "unimplemented!", "dbg!"]
        .into_iter()
        .flat_map(|name| lexer::find(&source.code, name).map(move |at| (at, name)))
        .map(|(at, name)| source.at(at, format!("`{name}` left behind"), instead))
        .collect()
}

fn allows(source: &Source<'_>) -> Vec<Finding> {
    let instead = "write `#[expect(…, reason = \"…\")]`";
    ["#[allow(", "#![allow("]
        .into_iter()
        .flat_map(|name| lexer::find(&source.code, name))
        .map(|at| source.at(at, "a lint is silenced without a reason", instead))
        .collect()
}

fn unwraps(source: &Source<'_>) -> Vec<Finding> {
    let instead = "return an error, or `expect` with why it cannot fail";
    lexer::find(&source.live, ".unwrap()").map(|at| source.at(at, "`unwrap` outside tests", instead)).collect()
}

fn unsafe_code(source: &Source<'_>) -> Vec<Finding> {
    if source.path.starts_with(UNSAFE_HOME) {
        return reasons(source);
    }
    let lifted = ["expect(unsafe_code", "allow(unsafe_code", "warn(unsafe_code"]
        .into_iter()
        .flat_map(|name| lexer::find(&source.code, name));
    let lifted = lifted.filter(|_| source.path != UNSAFE_DOOR);
    let lifts = lifted
        .map(|at| source.at(at, "the lint against `unsafe` is lifted", "leave it; one folder alone may"))
        .collect::<Vec<_>>();
    if !lifts.is_empty() {
        return lifts;
    }
    let instead = format!("use rustix, or move it below {UNSAFE_HOME}");
    lexer::find(&source.code, "unsafe").map(|at| source.at(at, "`unsafe` outside its one folder", &instead)).collect()
}

/// Every `unsafe` says why it is sound, or what its caller must see to.
fn reasons(source: &Source<'_>) -> Vec<Finding> {
    let lines: Vec<&str> = source.text.lines().collect();
    let said = |at: usize| {
        let line = lexer::line_of(source.text, at);
        let mark = if source.code[at..].starts_with("unsafe fn") { "# Safety" } else { "// SAFETY: " };
        lines[line.saturating_sub(1 + REASON_LINES_MAX)..line].iter().any(|line| line.contains(mark))
    };
    let silent = lexer::find(&source.code, "unsafe").filter(|at| !said(*at));
    silent.map(|at| source.at(at, "`unsafe` without a reason", "write `// SAFETY: …` above it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rules say of `text` at `path`, as `line: what`.
    fn said(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn a_good_file_passes() {
        let text = "//! Says what it is for. todo!\nfn a() { b.expect(\"`.unwrap()` and unsafe\") }\n";
        assert!(said("actors/src/a.rs", text).is_empty());
    }

    #[test]
    fn a_file_without_introduction_is_found() {
        for text in ["fn a() {}\n", "", "//!\n", "\n//! Late.\n"] {
            let expected = ["1: the file does not introduce itself"];
            assert_eq!(said("actors/src/a.rs", text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        let fits = format!("//! A.\n{}{tests}", "// a\n".repeat(499));
        assert!(said("actors/src/a.rs", &fits).is_empty());
        let long = format!("{tests}//! A.\n{}", "// a\n".repeat(500));
        assert!(said("actors/src/a.rs", &long).contains(&"1: 501 lines outside tests, at most 500".into()));
        let main = format!("//! A.\n{}", "// a\n".repeat(60));
        assert_eq!(said("bin/src/main.rs", &main), ["1: 61 lines outside tests, at most 60"]);
    }

    #[test]
    fn long_functions_are_found_outside_tests() {
        let long = format!("//! A.\nfn a() {{\n{}}}\n", "b();\n".repeat(69));
        assert_eq!(said("actors/src/a.rs", &long), ["2: `a` has 71 lines, at most 70"]);
        assert!(said("tests/a.rs", &long).is_empty());
        let fits = format!("//! A.\nfn a() {{\n{}}}\n", "b();\n".repeat(68));
        assert!(said("actors/src/a.rs", &fits).is_empty());
    }

    #[test]
    fn leftovers_are_found_in_tests_too() {
        let text = "//! A.\nfn a() { todo!() }\n#[cfg(test)]\nmod tests { fn b() { dbg!(1); unimplemented!() } }\n";
        let found = said("actors/src/a.rs", text);
        assert_eq!(found, ["2: `todo!` left behind", "4: `unimplemented!` left behind", "4: `dbg!` left behind"]);
    }

    #[test]
    fn silenced_lints_are_found() {
        let text = "//! A.\n#![allow(a)]\n#[allow(b)]\n#[expect(c, reason = \"d\")]\nfn e() {}\n";
        assert_eq!(
            said("actors/src/a.rs", text),
            ["3: a lint is silenced without a reason", "2: a lint is silenced without a reason"]
        );
    }

    #[test]
    fn unwraps_are_found_outside_tests() {
        let text =
            "//! A.\nfn a() { b.unwrap(); c.unwrap_or(1); }\n#[cfg(test)]\nmod tests { fn d() { e.unwrap() } }\n";
        assert_eq!(said("actors/src/a.rs", text), ["2: `unwrap` outside tests"]);
        assert!(said("bin/tests/a.rs", text).is_empty());
    }

    #[test]
    fn unsafe_has_one_home() {
        let text = "//! A.\n#![forbid(unsafe_code)]\nfn a() { unsafe { b() } }\n";
        assert_eq!(said("actors/src/a.rs", text), ["3: `unsafe` outside its one folder"]);
        let reasoned = text.replace("fn a()", "// SAFETY: nothing is touched.\nfn a()");
        assert!(said("framework/replay/src/sys/a.rs", &reasoned).is_empty());
        assert_eq!(said("framework/replay/src/sys/a.rs", text), ["3: `unsafe` without a reason"]);
        let door = "//! A.\n#![expect(unsafe_code, reason = \"b\")]\n";
        assert!(said("framework/replay/src/sys.rs", door).is_empty());
        assert_eq!(said("framework/replay/src/send.rs", door), ["2: the lint against `unsafe` is lifted"]);
    }
}
