//! Commands of iproute2, one at a time or many lines at once, with what they say when they fail.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

use super::NetworkError;

/// Runs `program` to its end.
pub(super) fn run(program: &'static str, args: &[&str]) -> Result<String, NetworkError> {
    finish(program, args, "")
}

/// Runs lines of `ip`, in a namespace if one is named.
pub(super) fn batch(space: Option<&str>, lines: &[String]) -> Result<(), NetworkError> {
    let place = space.map_or(Vec::new(), |space| vec!["-n", space]);
    finish("ip", &[&place[..], &["-batch", "-"]].concat(), &lines.join("\n")).map(|_| ())
}

/// Runs lines of `tc` in a namespace.
pub(super) fn control(space: &str, lines: &[String]) -> Result<(), NetworkError> {
    finish("tc", &["-n", space, "-batch", "-"], &lines.join("\n")).map(|_| ())
}

fn finish(program: &'static str, args: &[&str], input: &str) -> Result<String, NetworkError> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // messages are read here
    command.env("LC_ALL", "C");
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => NetworkError::Missing { program },
        _ => NetworkError::Start { program, source },
    };
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // one that ends early says why
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(failure(program, args, input, &said))
}

/// `Command failed -:3` names the line of a batch.
fn failure(program: &str, args: &[&str], input: &str, said: &str) -> NetworkError {
    let number = said.lines().find_map(|line| line.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok());
    let line = number.and_then(|n| input.lines().nth(n.checked_sub(1)?));
    let words = args.iter().filter(|word| !matches!(**word, "-batch" | "-"));
    let command: Vec<&str> = [program].into_iter().chain(words.copied()).chain(line).collect();
    let command = command.join(" ");
    let words: Vec<&str> = said.lines().filter(|l| !l.starts_with("Command failed")).map(str::trim).collect();
    let said = words.join("; ");
    match said.contains("Operation not permitted") || said.contains("Permission denied") {
        true => NetworkError::NotPermitted { command, said },
        false => NetworkError::Failed { command, said },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_failed_is_named() {
        let said = "RTNETLINK answers: File exists\nCommand failed -:2\n";
        let why = failure("ip", &["-n", "a", "-batch", "-"], "link set dev lo up\naddr add 1/2 dev x", said);
        assert_eq!(why.to_string(), "`ip -n a addr add 1/2 dev x` failed: RTNETLINK answers: File exists");
        let why = failure("ip", &["netns", "add", "a"], "", "mount failed: Operation not permitted\n");
        assert!(why.to_string().starts_with("network namespaces need root: `ip netns add a`"), "{why}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_the_remedy() {
        let why = run("rehearsal-no-such-program", &[]).expect_err("it is not there");
        assert!(why.to_string().contains("apt-get install iproute2"), "{why}");
    }
}
