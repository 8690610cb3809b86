//! Rates that divide no second evenly, of many clients: all of the load leaves, and no second holds more than it may.

use std::collections::BTreeMap;

use super::attempts;
use crate::support::{Bundle, Scenario, Scratch, alone};

/// Clients, as two nodes of so many streams each.
const NODES: u32 = 2;
const STREAMS: u32 = 25;
const SECONDS: u64 = 3;
const SECOND_NS: u64 = 1_000_000_000;

/// The most that one stream sent in any second, wherever that begins, and how many were so late that they are exempt.
fn crowded(bundle: &Bundle, rate: u64) -> (usize, u64) {
    let gap = SECOND_NS / rate;
    let mut streams: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    let mut late = 0;
    for attempt in attempts(bundle) {
        let sent = streams.entry((attempt.node, attempt.member, attempt.stream)).or_default();
        // more than a gap late: `queued` in the bundle's words
        if attempt.sent_ns - attempt.intended_ns > gap {
            late += 1;
        } else {
            sent.push(attempt.sent_ns);
        }
    }
    assert_eq!(streams.len() as u32, NODES * STREAMS);
    let most = |sent: &mut Vec<u64>| {
        sent.sort_unstable();
        let until = |from: usize| sent.partition_point(|at| *at < sent[from] + SECOND_NS);
        (0..sent.len()).map(|from| until(from) - from).max().unwrap_or(0)
    };
    (streams.values_mut().map(most).max().unwrap_or(0), late)
}

#[test]
fn a2_fifty_clients_keep_their_rate_and_never_exceed_it_in_any_second() {
    let _quiet = alone();
    let scratch = Scratch::new();
    for rate in [70, 78, 80] {
        let lines = format!("rate = \"{rate}/s\"\nstreams = {STREAMS}\nin_flight = 16\nbytes = \"200B\"");
        let experiment = format!("duration = \"{SECONDS}s\"\nrecord_requests = \"100%\"");
        let scenario = Scenario { senders: NODES, experiment, ..Scenario::sensor(&lines) };
        scratch.write("trial.toml", scenario.toml());
        let clients = u64::from(NODES * STREAMS);
        for bundle in scratch.both("trial.toml", &format!("b{rate}"), &[]) {
            let (generated, wanted) = (bundle.total("generated"), rate * clients * SECONDS);
            assert!(generated.abs_diff(wanted) * 200 <= wanted, "{generated} of {wanted}, 0.5 % are {}", wanted / 200);
            // what a busy machine had not sent when the time was over is given up, and nothing else is missing
            let sent = bundle.total("attempts");
            assert_eq!((bundle.total("success"), sent + bundle.total("aborted")), (sent, generated));
            assert!(sent * 20 >= generated * 19, "{sent} of {generated} left");
            let (most, late) = crowded(&bundle, rate);
            println!("{rate}/s: {generated} of {wanted}, at most {most} in a second, {late} late");
            assert!(most as u64 <= rate + 1, "{rate}/s: {most} in one second");
            assert_eq!(late, bundle.total("queued"), "what is exempt is counted");
        }
    }
}
