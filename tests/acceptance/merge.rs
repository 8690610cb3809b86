//! Percentiles of several generators: their histograms are added up bucket by bucket, so the whole is as if one generator had
//! seen every value.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::{Attempt, attempts};
use crate::agents::Fleet;
use crate::support::{Bundle, Scenario, beside};

/// Intervals of `latency.hlog` of one metric, added up per node; read by the library of the format alone.
fn logged(bundle: &Bundle, metric: &str) -> BTreeMap<String, Histogram<u64>> {
    let log = fs::read(bundle.folder.join("latency.hlog")).expect("latency.hlog");
    let mut all = BTreeMap::new();
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(interval) = entry.expect("a log") else { continue };
        let tag = interval.tag().expect("a tag").as_str().to_owned();
        let [node, _, of] = tag.split('/').collect::<Vec<_>>()[..] else { panic!("{tag}") };
        if of == metric {
            let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
            let part: Histogram<u64> = Deserializer::new().deserialize(&mut Cursor::new(bytes)).expect("a histogram");
            all.entry(node.to_owned()).or_insert_with(|| Histogram::new_from(&part)).add(&part).expect("room");
        }
    }
    all
}

#[test]
fn a6_the_histograms_of_four_agents_are_exactly_that_of_one() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&[][..]; 4]) else { return };
    let scenario = Scenario {
        senders: 3,
        experiment: "duration = \"3s\"\nrecord_requests = \"100%\"".to_owned(),
        receiver: "analyzer = { pause = \"3ms\" }\nworkers = 2".to_owned(),
        ..Scenario::sensor("rate = \"80/s\"\nin_flight = 50\ntimeout = \"2s\"")
    };
    fleet.scratch.write("trial.toml", scenario.toml());
    let bundle = fleet.emulate("b", &[]);
    assert_eq!(bundle.manifest["clocks"].as_array().map(Vec::len), Some(4), "every agent has a node");
    let attempts = attempts(&bundle);
    for metric in ["response", "service"] {
        let since = |attempt: &Attempt| if metric == "response" { attempt.intended_ns } else { attempt.sent_ns };
        let logged = logged(&bundle, metric);
        assert_eq!(logged.len(), 3, "{:?}", logged.keys());
        let first = logged.values().next().expect("a node");
        let (mut merged, mut one) = (Histogram::<u64>::new_from(first), Histogram::<u64>::new_from(first));
        for (node, histogram) in &logged {
            let own = attempts.iter().filter(|attempt| attempt.succeeded && attempt.node == *node).count();
            assert_eq!(histogram.len(), own as u64, "{node}: {metric}");
            merged.add(histogram).expect("room");
        }
        // what one agent would have recorded that had sent everything
        for attempt in attempts.iter().filter(|attempt| attempt.succeeded) {
            one.record(attempt.done_ns - since(attempt)).expect("room");
        }
        assert!(one.len() > 600, "{}", one.len());
        assert_eq!(merged, one, "{metric}: bucket by bucket");
        for (stat, share) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            assert_eq!(bundle.ns(metric, stat), one.value_at_quantile(share), "{metric}.{stat}");
        }
        // the mean of the agents' percentiles is another number, so the sum above says something
        let mean = logged.values().map(|histogram| histogram.value_at_quantile(0.99)).sum::<u64>() / 3;
        println!("{metric}: p99 {} ns, the mean of three p99 would be {mean} ns", bundle.ns(metric, "p99"));
    }
}
