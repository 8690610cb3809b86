//! How fast the engine is: the model of the tests of `framework/sim`, once, and one line of JSON. Arguments: sensors, then seconds of
//! virtual time. A fifth of the run warms up, the rest is measured.

use rehearsal_core::Span;
use rehearsal_sim::SimOptions;

#[path = "../../../xtask/src/bench/peers/heap.rs"]
#[expect(dead_code, reason = "only how a peer is measured is used")]
mod bare;
#[path = "../tests/crowd/model.rs"]
mod model;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("a whole number"));
    let sensors = args.next().unwrap_or(1000);
    let seconds = args.next().unwrap_or(1000);
    let before = bare::memory_bytes();
    let simulation = model::simulation(sensors, Span::from_secs(u64::from(seconds)), SimOptions::default());
    let warm = u64::from(seconds / 5);
    let (mut first, mut last) = (None, None);
    let end = simulation.run(&mut model::Nothing, &mut |at| {
        let mark = (bare::cpu_seconds(), at.events, at.settled);
        if first.is_none() && at.at.as_nanos() >= warm * 1_000_000_000 {
            first = Some(mark);
        }
        if !at.stopping {
            last = Some(mark);
        }
    });
    let (first, last) = (first.expect("it ran a fifth"), last.expect("it ran"));
    let bytes = (bare::memory_bytes() - before) / f64::from(sensors);
    println!(
        "{{\"events\":{},\"requests\":{},\"cpu_seconds\":{},\"bytes_per_device\":{bytes:.1},\"all_events\":{},\"fingerprint\":\"{:016x}\"}}",
        last.1 - first.1,
        last.2 - first.2,
        last.0 - first.0,
        end.events,
        end.fingerprint.unwrap_or(0),
    );
}
