//! A crowd of a thousand: the queue's theory holds. The speed is printed, never asserted.

use hdrhistogram::serialization::Deserializer;
use rehearsal_core::Span;
use rehearsal_core::messages::Metric;
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::plan::LinkSpec;

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{plan, run};

#[test]
fn a_poisson_crowd_at_one_exponential_worker_waits_as_long_as_theory_says() {
    let each = if cfg!(debug_assertions) { 200 } else { 1000 };
    let is = Sending {
        gap: Some((Span::from_secs(1), true)),
        requests: each,
        retries: 0,
        in_flight: 1000,
        deadline: Span::from_secs(60),
        log: None,
        ..Sending::default()
    };
    let serving =
        Serving { workers: 1, backlog: usize::MAX, pause: Span::from_micros(800), random: true, ..Serving::default() };
    // the stop comes before the first sensor has finished, so the rate is 1000 a second all the time
    let until = Span::from_secs(each * 4 / 5);
    let nodes = vec![senders("sensor", 1000, is), receiver(serving), services(9, Some(until))];
    let began = std::time::Instant::now();
    let (end, kept) = run(plan(nodes, LinkSpec { delay: Span::from_millis(5), ..LinkSpec::default() }));
    let seconds = began.elapsed().as_secs_f64();
    println!("{} events in {seconds:.2} s: {:.2} M events/s", end.events, end.events as f64 / seconds / 1e6);
    let (mut all, mut read) = (histogram(), Deserializer::new());
    for part in kept.snapshots.iter().filter(|s| s.node == "sensor" && s.second > 0).flat_map(|s| &s.histograms) {
        if part.metric == Metric::Service {
            let one: hdrhistogram::Histogram<u64> = read.deserialize(&mut part.v2.as_slice()).expect("V2");
            all.add(one).expect("the same bounds");
        }
    }
    // 10 ms on the way and 0.8 ms / (1 − 0.8) = 4 ms in an M/M/1 queue. Relaxation 2ρ/(1−ρ)²·0.8 ms ≈ 32 ms gives, over
    // 160 s, a standard error near 4 ms · √(2·0.032/160) = 0.08 ms; four of them and the first handshakes
    let mean = all.mean() / 1e6;
    println!("mean service time {mean:.3} ms of {} exchanges, 14 ms in theory", all.len());
    assert!((mean - 14.0).abs() < 0.4, "{mean} ms");
    let tally = end.groups[0].tally;
    assert_eq!(tally.generated, tally.success + tally.lost + tally.aborted);
    assert_eq!(all.len() + (tally.success - all.len()), tally.success);
}
