//! The project's own chores: `cargo xtask <chore>`.

mod bench;
mod captures;
mod fuzz;
mod media;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Measures the engines beside peers; builds for release first.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Damages captures, templates and frames for as long as you like, and looks whether the readers stand it.
    Fuzz(fuzz::Options),
    /// Runs all tests, and those that failed once more, alone.
    Test {
        /// Tests at a time: most of those that take long wait; those that time the machine hold it alone.
        #[arg(long, default_value_t = 4)]
        threads: u32,
    },
    /// Checks the house rules that a machine can check.
    Tidy,
    /// Makes the reference clip anew; needs ffmpeg, and only maintainers need it.
    Media,
    /// Makes the capture anew that experiments replay; only maintainers need it.
    Captures,
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Bench(what) => bench::run(&what),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Test { threads } => test::run(threads),
        Chore::Tidy => tidy::run(),
        Chore::Media => media::run(),
        Chore::Captures => captures::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
