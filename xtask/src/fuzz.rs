//! Many more damaged captures, frames, templates and edits than the tests try: their mutation tests again, built for release,
//! with other random numbers each time. It is no fuzzer that is guided by coverage; it needs nothing but stable Rust.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The tests that damage what they read.
const TESTS: [&str; 6] = [
    "damaged_captures_end",
    "nonsense_ends",
    "offsets_stay_inside",
    "damaged_templates_do_no_harm",
    "edits_do_no_harm",
    "any_text_is_a_filter_or_is_not",
];

/// Runs each of them with `cases` cases.
///
/// # Errors
/// When one finds something; it prints the smallest input that shows it.
pub fn run(cases: u32) -> Result<()> {
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
