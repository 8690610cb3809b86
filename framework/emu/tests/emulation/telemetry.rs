//! Telemetry: each second is told once by every group and node, in order, and the last totals are those of the end.

use std::collections::BTreeMap;

use rehearsal_core::Span;
use rehearsal_core::messages::{GroupSnapshot, HostSample, Metric, Scope};
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::plan::{Carrier, Connection, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Rate;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, plan, sender};

fn two_seconds(options: EmuOptions, records: &Records) -> RunEnd {
    let rate = Some(Rate::per_second(200));
    let params = SenderParams { requests: None, rate, ..sender("receiver/main", 0) };
    let nodes = vec![
        sensors("sensor", 1, params, 64),
        receivers("receiver", 1, Temper::Prompt),
        controller(1, Some(Span::from_millis(2300))),
        logger(),
    ];
    let plan = plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::After(Span::from_millis(2300)));
    let end = emulate(plan, options, records, Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    end
}

#[test]
fn every_second_is_told_once_and_the_last_totals_are_those_of_the_end() {
    for wire in [false, true] {
        let records = Records::default();
        let end = two_seconds(EmuOptions { shards: Some(2), wire, ..EmuOptions::default() }, &records);
        let mut seconds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut totals: BTreeMap<String, Tally> = BTreeMap::new();
        let mut responses = 0;
        for body in records.all() {
            if let Ok(snapshot) = body.get::<GroupSnapshot>() {
                let key = format!("group {}", snapshot.node);
                seconds.entry(key).or_default().push(snapshot.second);
                responses += snapshot.histograms.iter().filter(|h| h.metric == Metric::Response).count();
                totals.insert(snapshot.node.clone(), snapshot.totals);
            } else if let Ok(sample) = body.get::<HostSample>() {
                seconds.entry(format!("host {}", sample.node)).or_default().push(sample.second);
                assert_eq!(sample.cpu_percent, None, "two measured nodes share the process");
            }
        }
        assert_eq!(seconds.len(), 8, "four nodes of one group: {:?}", seconds.keys());
        for (who, told) in &seconds {
            assert_eq!(told, &[0, 1, 2], "{who}, wire {wire}");
        }
        assert_eq!(responses, 3, "one histogram of the sensors' each second");
        for (node, row) in [("sensor", 0), ("receiver", 1)] {
            assert_eq!(totals[node], end.groups[row].tally, "{node}, wire {wire}");
        }
    }
}

#[test]
fn what_nodes_share_is_told_of_the_process_and_the_machine() {
    let records = Records::default();
    let options = EmuOptions { machine: Some("lab".to_owned()), shards: Some(2), ..EmuOptions::default() };
    two_seconds(options, &records);
    let all = records.all();
    let samples: Vec<_> = all.iter().filter_map(|body| body.get::<HostSample>().ok()).collect();
    for scope in [Scope::Process, Scope::Machine] {
        let told = samples.iter().filter(|sample| sample.scope == scope);
        let seconds: Vec<_> = told.map(|sample| (sample.node.as_str(), sample.second)).collect();
        assert_eq!(seconds, [("lab", 0), ("lab", 1), ("lab", 2)], "{scope:?}: one a second");
    }
    let of = |scope, node: &str| samples.iter().find(|s| s.scope == scope && s.node == node).expect("told");
    let (process, machine) = (of(Scope::Process, "lab"), of(Scope::Machine, "lab"));
    assert!(process.cpu_host_percent > Some(0.0) && machine.cpu_host_percent > Some(0.0), "{process:?} {machine:?}");
    assert!(process.voluntary_switches > Some(0) && process.open_sockets > Some(0), "{process:?}");
    assert!(machine.context_switches > process.voluntary_switches && machine.open_files > process.open_files);
    assert!(machine.udp_in_errors.is_some() && machine.tcp_retransmitted.is_some(), "{machine:?}");
    assert_eq!((process.udp_in_errors, machine.cpu_percent, machine.voluntary_switches), (None, None, None));
    for node in ["sensor", "receiver"] {
        let sample = of(Scope::Node, node);
        assert_eq!((sample.cpu_percent, sample.cpu_host_percent, sample.open_files), (None, None, None), "{node}");
    }
    let second =
        |n| samples.iter().filter(move |s| s.second == n && s.measuring_cpu_ns > Some(0) && s.measuring_ns > Some(0));
    assert_eq!([second(0).count(), second(1).count()], [2, 2], "each of two shards states what measuring took");
}

#[test]
fn a_node_that_is_alone_is_measured() {
    let records = Records::default();
    let rate = Some(Rate::per_second(100));
    let params = SenderParams { requests: None, rate, ..sender("receiver/main", 0) };
    let mut nodes = vec![
        sensors("sensor", 1, params, 64),
        receivers("receiver", 1, Temper::Prompt),
        controller(1, Some(Span::from_millis(1100))),
        logger(),
    ];
    nodes[1].measured = false;
    let plan = plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::After(Span::from_millis(1100)));
    let end = emulate(plan, EmuOptions::default(), &records, Control::new());
    check_identities(&end);
    let all = records.all();
    let samples = all.iter().filter_map(|b| b.get::<HostSample>().ok());
    let sensor: Vec<_> = samples.filter(|s| s.node == "sensor").collect();
    assert_eq!(sensor.iter().map(|s| s.second).collect::<Vec<_>>(), [0, 1]);
    assert!(sensor[0].open_files > Some(2) && sensor[0].open_files_limit > sensor[0].open_files, "{:?}", sensor[0]);
    assert_eq!(sensor[0].tcp_retransmitted, None, "its network is the machine's");
    assert!(sensor[0].cpu_percent.is_some_and(|p| p > 0.0) && sensor[0].memory_bytes.is_some_and(|b| b > 1 << 20));
    assert!(end.notes.iter().any(|n| n.starts_with("the process used at most")), "{:?}", end.notes);
}
