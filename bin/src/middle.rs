//! `rehearsal middle`: frames passed on between two interfaces, late and with losses.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rehearsal_core::Span;
use rehearsal_core::units::UnitError;
use rehearsal_replay::middle::{self, Passed};

use crate::cli::{Format, Middle};
use crate::exit::{Refused, UsageError};
use crate::report::{chain, print};
use crate::signals::Signals;
use crate::unfinished::Unfinished;

/// As good as for ever: a century.
const EVER: Duration = Duration::from_secs(3_155_760_000);

/// Runs the verb.
///
/// # Errors
/// When an interface cannot be had.
pub fn middle(args: &Middle) -> Result<ExitCode> {
    let span = |flag: &str, text: &str| {
        text.parse::<Span>().map_err(|why: UnitError| UsageError(format!("{flag}: {why}"))).map(Span::as_nanos)
    };
    let duration = args.duration.as_deref().map(|text| span("--duration", text)).transpose()?;
    let middle = middle::Middle {
        between: [args.between.clone(), args.and.clone()],
        space: args.space.clone(),
        delay: span("--delay", &args.delay)?,
        loss: args.lose,
        seed: args.seed,
    };
    if !(0.0..=1.0).contains(&args.lose) {
        return Err(UsageError(format!("--lose {}: write a share from 0 to 1", args.lose)).into());
    }
    let (end, ended) = sync_channel(1);
    let _signals = Signals::draining(Unfinished::default(), move || {
        // when nobody waits any more, it has ended
        let _ = end.send(());
    })?;
    let running = middle.start(|_, _, _| {}).map_err(|why| Refused(chain(&why)))?;
    eprintln!("passing frames on between {} and {}; Ctrl-C ends it", args.between, args.and);
    let passed = match ended.recv_timeout(duration.map_or(EVER, Duration::from_nanos)) {
        Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => running.finish(),
    };
    let told = match args.format {
        Format::Json => serde_json::to_string_pretty(&passed).context("counts can be written as JSON")?,
        Format::Text => text(args, &passed),
    };
    print(&told)?;
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Middle, passed: &Passed) -> String {
    let mut text = String::new();
    let ways = [(&args.between, &args.and), (&args.and, &args.between)];
    for (at, (from, to)) in ways.into_iter().enumerate() {
        let Passed { came, lost, passed, dropped, missed, .. } = passed;
        let [came, lost, passed, dropped, missed] = [came, lost, passed, dropped, missed].map(|counts| counts[at]);
        let _ = writeln!(
            text,
            "{from} to {to}: {came} frames came, {lost} lost on purpose, {passed} passed on, {dropped} dropped, {missed} missed"
        );
    }
    for (kind, [there, back]) in &passed.kinds {
        let _ = writeln!(text, "  {kind}: {there} and {back}");
    }
    text
}
