//! Many more damaged captures, frames, templates and edits than the tests try: their mutation tests again, built for release,
//! with other random numbers each time. That needs nothing but stable Rust; `--guided` lets libFuzzer look for what these do
//! not find ([`guided`]).

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

mod guided;

/// The tests that damage what they read.
const TESTS: [&str; 6] = [
    "damaged_captures_end",
    "nonsense_ends",
    "offsets_stay_inside",
    "damaged_templates_do_no_harm",
    "edits_do_no_harm",
    "any_text_is_a_filter_or_is_not",
];

/// How long, and how.
#[derive(Debug, Args)]
pub struct Options {
    /// Damaged inputs for each test
    #[arg(long, default_value_t = 200_000)]
    cases: u32,
    /// Guided by coverage instead, so many minutes in all; needs a C++ compiler, and libfuzzer-sys from crates.io the first time
    #[arg(long, value_name = "MINUTES", conflicts_with = "cases", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    guided: Option<u32>,
    /// Which targets are guided
    #[arg(long, value_delimiter = ',', default_values = guided::TARGETS, value_parser = guided::TARGETS, requires = "guided")]
    targets: Vec<String>,
}

/// Runs each test with that many cases, or each target for its share of the time.
///
/// # Errors
/// When something is found; the smallest input that shows it is printed, or the file that holds it.
pub fn run(options: &Options) -> Result<()> {
    if let Some(minutes) = options.guided {
        return guided::run(minutes, &options.targets);
    }
    let cases = options.cases;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--release", "--package", "rehearsal-replay", "--lib", "--"]).args(TESTS);
    let status = command.env("REHEARSAL_FUZZ_CASES", cases.to_string()).status().context("cargo cannot be started")?;
    if !status.success() {
        bail!("something was found; a test that holds it belongs beside its fix");
    }
    println!("{} mutation tests with {cases} cases each found nothing", TESTS.len());
    Ok(())
}
