//! Wires the verbs to the shell: parse, run, report, exit.

use std::process::ExitCode;

use rehearsal::cli::{Cli, Verb};
use rehearsal::{
    agent, agents, aggregator, analysis, calibrate, check, compare, control, emulate, exit, middle, model, node, plan,
    replay, report, send, simulate, sweep, template,
};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let done = match cli.verb {
        Verb::Init(args) => check::init(&args),
        Verb::Check(args) => check::check(&args),
        Verb::Simulate(args) => simulate::simulate(&args),
        Verb::Emulate(args) => emulate::emulate(&args),
        Verb::Send(args) => send::send(*args),
        Verb::Control(args) => control::control(&args),
        Verb::Agent(args) => agent::agent(&args),
        Verb::Agents(args) => agents::agents(&args),
        Verb::Report(args) => analysis::report(&args),
        Verb::Runs(args) => analysis::list::runs(&args),
        Verb::Compare(args) => compare::compare(&args),
        Verb::Calibrate(args) => calibrate::calibrate(&args),
        Verb::Plan(args) => plan::plan(&args),
        Verb::Model(args) => model::model(&args),
        Verb::Sweep(args) => sweep::sweep(&args),
        Verb::Template(args) => template::template(&args),
        Verb::Replay(args) => replay::replay(&args),
        Verb::Middle(args) => middle::middle(&args),
        Verb::Node => node::node(),
        Verb::Aggregator => aggregator::aggregator(),
        Verb::Child(args) => node::child(&args),
    };
    done.unwrap_or_else(|error| {
        report::error(&error);
        exit::code(&error)
    })
}
