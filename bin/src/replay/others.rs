//! Waiting for another program that sends.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rehearsal_replay::receive::Ear;
use rehearsal_replay::timing::wait::Stop;
use rehearsal_replay::timing::{Pace, Schedule};

/// How long nothing must come, once something has, for the end: this and the longest gap that is planned.
const QUIET: Duration = Duration::from_secs(2);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(10);

/// Returns when all that is expected has come, nothing comes any more, the duration is over, or it is to stop.
pub fn wait(ear: &Ear, schedule: &Schedule, duration: Option<u64>, stop: &Stop) {
    let (expected, quiet_after) = (schedule.total(), QUIET + gap(schedule));
    let end = duration.map(|duration| Instant::now() + Duration::from_nanos(duration));
    let (mut heard, mut since) = (0, None);
    while stop.why().is_none() && end.is_none_or(|end| Instant::now() < end) {
        let now = ear.heard();
        if now > heard {
            (heard, since) = (now, Some(Instant::now()));
        }
        let quiet = since.is_some_and(|since: Instant| since.elapsed() > quiet_after);
        if quiet || expected.is_some_and(|expected| heard >= expected) {
            return;
        }
        sleep(LOOK);
    }
}

/// The longest time between two packets that is planned, of which 100 years are as good as any.
fn gap(schedule: &Schedule) -> Duration {
    let rules = &schedule.rules;
    let nanos = match rules.pace {
        Pace::Original { factor } => schedule.gap_longest.min(rules.gap_max.unwrap_or(u64::MAX)) as f64 / factor,
        _ => schedule.rate().map_or(0.0, |rate| 1e9 / rate),
    };
    Duration::from_secs_f64((nanos.max(rules.loop_gap.unwrap_or(0) as f64) / 1e9).min(3e9))
}
