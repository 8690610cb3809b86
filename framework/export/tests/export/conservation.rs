//! Whatever happens to the reports on their way, no count is lost and none is counted twice.

use proptest::prelude::*;
use rehearsal_export::BundleWriter;

use crate::support::{Node, Scratch, facts, meta, rows, text, try_store, whole};

/// What becomes of one report.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Doubled,
    /// It arrives after so many later ones.
    Late(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Doubled),
        2 => (1_usize..60).prop_map(Fate::Late),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn rows_sum_to_the_totals(seconds in prop::collection::vec((0_u64..40, fate()), 1..90)) {
        let scratch = Scratch::new("conservation");
        let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
        let mut camera = Node::camera("camera");
        let mut arrivals = Vec::new();
        for (at, (count, fate)) in seconds.iter().enumerate() {
            let report = camera.second(*count, 1_000_000 + *count);
            match fate {
                Fate::Arrives => arrivals.push((at, report)),
                Fate::Lost => {}
                Fate::Doubled => arrivals.extend([(at, report.clone()), (at, report)]),
                Fate::Late(by) => arrivals.push((at + by, report)),
            }
        }
        arrivals.sort_by_key(|(at, _)| *at);
        let times: u64 = {
            let mut seen = std::collections::BTreeSet::new();
            arrivals.iter().filter(|(_, r)| seen.insert(r.second)).map(|(_, r)| seconds[r.second as usize].0).sum()
        };
        for (_, report) in arrivals {
            try_store(&mut writer, report).unwrap();
        }
        let finished = writer.finish(facts(seconds.len() as u64, &[&camera])).unwrap();
        let rows = rows(&finished.path.join("series.parquet"));
        let groups = || rows.iter().filter(|row| text(row, "actor") == "main");
        let sum = |column: &str| groups().filter_map(|row| whole(row, column)).sum::<i64>();
        let total = camera.totals.generated as i64;
        prop_assert_eq!((sum("generated"), sum("sent"), sum("success")), (total, total, total));
        prop_assert_eq!(sum("bytes_sent"), total * 150_000);
        prop_assert!(groups().filter_map(|row| whole(row, "generated")).all(|n| n >= 0));
        let keys: std::collections::BTreeSet<_> = groups().map(|row| whole(row, "second")).collect();
        prop_assert_eq!(keys.len(), groups().count(), "one row per second");
        prop_assert_eq!(finished.summary.total.totals, camera.totals);
        prop_assert_eq!(finished.summary.total.window.generated, camera.totals.generated);
        let counted = finished.summary.total.metrics.get("response").map_or(0, |p| p.count);
        prop_assert_eq!(counted, times, "each second's times count once");
    }
}
