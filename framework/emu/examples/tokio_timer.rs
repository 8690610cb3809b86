//! The plainest pacer there is: one task that sleeps until each slot of a fixed grid, as most load generators on tokio
//! do. What `cargo xtask bench pacing` holds the engine's lag against.
//!
//! ```text
//! tokio_timer 1000 20      # slots per second, seconds; one line of JSON on stdout
//! ```

use std::error::Error;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<u32> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let (rate, seconds) = match args[..] {
        [rate, seconds] if rate > 0 => (rate, seconds),
        _ => return Err("usage: tokio_timer SLOTS_PER_SECOND SECONDS".into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (mut late_ns, crowded) = runtime.block_on(pace(rate, seconds));
    late_ns.sort_unstable();
    let at = |quantile: f64| late_ns.get((late_ns.len() as f64 * quantile) as usize).or(late_ns.last()).unwrap_or(&0);
    println!(
        r#"{{"slots":{},"lag_p50_ns":{},"lag_p99_ns":{},"lag_max_ns":{},"seconds_above_rate":{crowded}}}"#,
        late_ns.len(),
        at(0.5),
        at(0.99),
        at(1.0),
    );
    Ok(())
}

/// How late each slot was, ns, and the number of seconds in which more than `rate + 1` slots passed.
async fn pace(rate: u32, seconds: u32) -> (Vec<u64>, usize) {
    let slots = u64::from(rate) * u64::from(seconds);
    let mut late_ns = Vec::with_capacity(slots as usize);
    let mut passed = vec![0_u32; seconds as usize + 1];
    let begin = Instant::now() + Duration::from_millis(10);
    for slot in 0..slots {
        let due = begin + Duration::from_nanos(slot * 1_000_000_000 / u64::from(rate));
        sleep_until(due).await;
        let now = Instant::now();
        late_ns.push(now.duration_since(due).as_nanos() as u64);
        let second = now.duration_since(begin).as_secs() as usize;
        passed[second.min(seconds as usize)] += 1;
    }
    (late_ns, passed.iter().filter(|n| **n > rate + 1).count())
}
