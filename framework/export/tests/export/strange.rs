//! Reports of programs that we did not write: any numbers that the wire format can hold. The bundle is finished all the
//! same, and says what contradicts itself.

use proptest::prelude::*;
use rehearsal_core::messages::{HostSample, NodeReport, Scope};
use rehearsal_core::parts::tally::Tally;
use rehearsal_export::BundleWriter;

use crate::support::{Node, Scratch, facts, meta, try_store};

/// Small numbers, and those at the edges of what a counter holds.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..50, Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63), any::<u64>()]
}

fn totals() -> impl Strategy<Value = Tally> {
    let (a, b) = (proptest::array::uniform12(number()), proptest::array::uniform4(number()));
    (a, b).prop_map(|(a, b)| {
        let [
            generated,
            success,
            invalid,
            failed,
            lost,
            aborted,
            attempts,
            rejected,
            unacknowledged,
            queued,
            skipped,
            paused,
        ] = a;
        let [aborted_attempts, bytes_sent, received, served] = b;
        let known =
            Tally { generated, success, invalid, failed, lost, aborted, attempts, rejected, ..Tally::default() };
        let known = Tally { unacknowledged, queued, skipped, paused, aborted_attempts, ..known };
        Tally { bytes_sent, received, served, datagrams_sent: generated, bytes_received: bytes_sent, ..known }
    })
}

fn float() -> impl Strategy<Value = Option<f64>> {
    let edges = prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX]);
    proptest::option::of(prop_oneof![edges, 0.0..200.0_f64])
}

fn report() -> impl Strategy<Value = (bool, NodeReport)> {
    let second = prop_oneof![8 => 0_u32..6, 1 => any::<u32>()];
    (any::<bool>(), second, totals(), number(), float(), float(), number(), any::<bool>()).prop_map(
        |(sends, second, totals, queue_length, cpu, memory_percent, memory, whole)| {
            let mut node = if sends { Node::camera("sensor") } else { Node::receiver("receiver") };
            (node.second, node.totals) = (second, totals);
            let mut report = node.report(Vec::new());
            report.groups[0].queue_length = queue_length;
            report.groups[0].instances = queue_length as u32;
            report.groups[0].counts.push(("own".to_owned(), queue_length));
            report.dropped = queue_length;
            let host = HostSample {
                node: node.name,
                second,
                cpu_percent: cpu,
                memory_bytes: Some(memory),
                ..HostSample::default()
            };
            report.host =
                whole.then_some(HostSample { memory_percent, cpu_ghz: cpu, throttled_ns: Some(memory), ..host });
            let around = HostSample {
                scope: if sends { Scope::Process } else { Scope::Machine },
                node: "lab".to_owned(),
                second,
                cpu_host_percent: memory_percent,
                udp_in_errors: Some(memory),
                open_files_limit: Some(queue_length),
                ..HostSample::default()
            };
            report.around = if whole { vec![around] } else { Vec::new() };
            (sends, report)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_numbers_make_a_bundle(reports in prop::collection::vec(report(), 1..20)) {
        let scratch = Scratch::new("strange");
        let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
        for (_, report) in reports {
            // it may be refused, and is then not acknowledged
            let _ = try_store(&mut writer, report);
        }
        let (sensor, receiver) = (Node::camera("sensor"), Node::receiver("receiver"));
        let mut facts = facts(6, &[&sensor, &receiver]);
        // of a foreign node the engine knows nothing
        facts.groups[0].tally = None;
        let finished = writer.finish(facts).unwrap();
        prop_assert!(finished.path.join("summary.json").exists());
    }
}
