//! All tests of the workspace. Some hold a real machine to real times, and a shared one may stand still while they look:
//! what failed is run once more, with nothing beside it. What fails again has failed; what passed only then is named.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// More than this is no accident of a busy machine.
const AGAIN_MAX: usize = 4;

/// A test binary in which something failed.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    /// What `cargo test` takes to run this binary only.
    target: String,
    /// The tests that failed; none, if it ended in another way.
    names: Vec<String>,
}

/// Runs everything, `threads` tests at a time.
///
/// # Errors
/// When a test failed twice, when more than [`AGAIN_MAX`] failed, or when something else than a test did.
pub fn run(threads: u32) -> Result<()> {
    let threads = threads.to_string();
    let (passed, output) = cargo(&["--workspace", "--no-fail-fast"], &threads)?;
    if passed {
        return Ok(());
    }
    let failed = failures(&output);
    let count: usize = failed.iter().map(|f| f.names.len()).sum();
    let whole = failed.iter().all(|f| !f.names.is_empty() && !f.target.contains("--doc"));
    if failed.is_empty() || !whole || count > AGAIN_MAX {
        bail!("tests failed");
    }
    for Failed { target, names } in &failed {
        eprintln!("\nonce more, alone: {target}: {}", names.join(", "));
        let mut args: Vec<&str> = target.split(' ').collect();
        args.extend(["--", "--exact"]);
        args.extend(names.iter().map(String::as_str));
        let (passed, output) = cargo(&args, "1")?;
        if !passed || passes(&output) != names.len() {
            bail!("tests failed twice");
        }
    }
    for Failed { target, names } in &failed {
        eprintln!("passed only when run alone: {target}: {}", names.join(", "));
    }
    Ok(())
}

/// Whether `cargo test` succeeded, and all it wrote.
fn cargo(args: &[&str], threads: &str) -> Result<(bool, String)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(cargo);
    command.arg("test").args(args).env("RUST_TEST_THREADS", threads);
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cargo cannot be started")?;
    // it holds the pipe's other end open
    drop(command);
    let mut output = String::new();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        io::stdout().write_all(&line)?;
        output.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok((child.wait()?.success(), output))
}

/// What failed, from the lines of `cargo test --no-fail-fast`.
fn failures(output: &str) -> Vec<Failed> {
    let mut failed = Vec::new();
    let mut listing = false;
    let mut names = Vec::new();
    for line in output.lines() {
        if let Some((_, rest)) = line.split_once("to rerun pass `") {
            let target = rest.trim_end_matches('`').to_owned();
            failed.push(Failed { target, names: std::mem::take(&mut names) });
        } else if line == "failures:" {
            // printed twice: with what they wrote, then as a list
            names.clear();
            listing = true;
        } else if line.starts_with("test result:") {
            listing = false;
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| listing) {
            names.push(name.to_owned());
        }
    }
    failed
}

/// How many tests passed.
fn passes(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::{Failed, failures, passes};

    const OUTPUT: &str = "\
running 2 tests
test one ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 3 tests
test life::a ... FAILED
test life::b ... FAILED

failures:

---- life::a stdout ----
thread 'life::a' panicked at x.rs:1:1:
    looks like a name

failures:
    life::a
    life::b

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s

error: test failed, to rerun pass `-p rehearsal --test integration`
error: test failed, to rerun pass `-p rehearsal-sim --lib`
error: 2 targets failed:
    `-p rehearsal --test integration`
    `-p rehearsal-sim --lib`
";

    #[test]
    fn failures_are_listed_by_target() {
        let first = Failed {
            target: "-p rehearsal --test integration".to_owned(),
            names: vec!["life::a".to_owned(), "life::b".to_owned()],
        };
        // a process that was killed lists nothing
        let second = Failed { target: "-p rehearsal-sim --lib".to_owned(), names: Vec::new() };
        assert_eq!(failures(OUTPUT), [first, second]);
        assert_eq!(failures("error: could not compile `x`\n"), []);
    }

    #[test]
    fn passes_are_added_up() {
        assert_eq!(passes(OUTPUT), 2);
    }
}
