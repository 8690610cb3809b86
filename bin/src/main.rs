//! Wires the verbs to the shell: parse, run, report, exit.

use std::process::ExitCode;

use rehearsal::cli::{Cli, Verb};
use rehearsal::{check, emulate, exit, node, report, simulate};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let done = match &cli.verb {
        Verb::Init(args) => check::init(args),
        Verb::Check(args) => check::check(args),
        Verb::Simulate(args) => simulate::simulate(args),
        Verb::Emulate(args) => emulate::emulate(args),
        Verb::Node => node::node(),
        Verb::Child(args) => node::child(args),
    };
    done.unwrap_or_else(|error| {
        report::error(&error);
        exit::code(&error)
    })
}
