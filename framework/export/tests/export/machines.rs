//! Machines, shared processes and the cost of measuring in a bundle.

use rehearsal_core::message::Body;
use rehearsal_core::messages::{HostSample, NodeReport, Scope};
use rehearsal_core::sink::Sink;
use rehearsal_export::BundleWriter;

use crate::support::{Node, Scratch, facts, meta, rows, store, text, try_store, whole};

fn sample(scope: Scope, name: &str, second: u32) -> HostSample {
    HostSample {
        cpu_host_percent: Some(40.0),
        steal_percent: Some(f64::from(second)),
        udp_receive_buffer_errors: Some(3),
        open_files: Some(100 - u64::from(second)),
        ..HostSample::of(scope, name, second)
    }
}

#[test]
fn a_machine_has_one_row_a_second_whoever_speaks_for_it() {
    let scratch = Scratch::new("machines");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let (mut a, mut b) = (Node::camera("camera-1"), Node::camera("camera-2"));
    for second in 0..4 {
        for (node, scope) in [(&mut a, Scope::Process), (&mut b, Scope::Machine)] {
            let mut report = node.second(25, 1_000_000);
            report.around = vec![sample(Scope::Machine, "lab", second), sample(scope, "other", second)];
            let host = report.host.as_mut().unwrap();
            (host.measuring_ns, host.measuring_cpu_ns) = (Some(4_000_000), Some(1_000_000));
            store(&mut writer, report);
        }
    }
    let finished = writer.finish(facts(4, &[&a, &b])).unwrap();
    let rows = rows(&finished.path.join("series.parquet"));
    let of = |kind: &'static str| rows.iter().filter(move |row| text(row, "kind") == kind);
    for (kind, name) in [("machine", "lab"), ("process", "other"), ("machine", "other")] {
        assert_eq!(of(kind).filter(|row| text(row, "node") == name).count(), 4, "{kind} {name}");
    }
    assert!(of("machine").all(|row| text(row, "actor") == "machine" && whole(row, "generated").is_none()));
    assert!(of("machine").all(|row| whole(row, "udp_receive_buffer_errors") == Some(3)));
    assert!(of("host").all(|row| whole(row, "udp_receive_buffer_errors").is_none()), "unknown, not zero");

    let machines = &finished.summary.machines;
    let told: Vec<_> = machines.iter().map(|m| (m.node.as_str(), m.scope, m.seconds)).collect();
    assert_eq!(told, [("lab", Scope::Machine, 4), ("other", Scope::Process, 4), ("other", Scope::Machine, 4)]);
    assert_eq!((machines[0].steal_percent_mean, machines[0].open_files_max), (Some(1.5), Some(100)));
    assert_eq!(machines[0].sums.udp_receive_buffer_errors, Some(12));
    assert_eq!((machines[0].sums.tcp_retransmitted, machines[0].throttled_percent), (None, None));
    let measuring = finished.summary.measuring.unwrap();
    assert_eq!((measuring.samples, measuring.wall_ns_max, measuring.cpu_ns), (8, 4_000_000, 8_000_000));
    assert_eq!(measuring.cpu_ns_per_second, Some(2_000_000.0));
    assert_eq!(finished.summary.nodes.len(), 2, "machines are no nodes");
}

#[test]
fn what_nobody_can_speak_for_is_refused() {
    let scratch = Scratch::new("machines-refused");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let node = Node::camera("camera-1");
    let around = |around: Vec<HostSample>| NodeReport { around, ..node.report(Vec::new()) };
    for (samples, why) in [
        (vec![sample(Scope::Machine, "lab", 0); 3], "`camera-1` speaks for 3 machines and processes"),
        (vec![sample(Scope::Machine, "a b", 0)], "`a b` is no name of a machine"),
        (vec![sample(Scope::Machine, "lab", 7)], "second 7 of `lab` in a report of 0"),
    ] {
        let error = try_store(&mut writer, around(samples)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    writer.store(&Body::new(around(vec![sample(Scope::Node, "lab", 0)]))).unwrap();
    let finished = writer.finish(facts(1, &[&node])).unwrap();
    assert!(finished.summary.machines.is_empty(), "a node speaks for itself alone");
    assert_eq!(finished.summary.measuring, None);
}
