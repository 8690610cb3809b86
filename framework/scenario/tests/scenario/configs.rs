//! Every experiment of `configs/` loads, resolves to itself and has the totals it is described with.

use std::path::{Path, PathBuf};

use rehearsal_core::plan::{Connection, Stop};
use rehearsal_scenario::{Experiment, LoadOptions, load, parse};

use super::kinds::registry;

fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

fn config(name: &str) -> Experiment {
    load(&configs().join(name), &registry(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_config_loads_and_resolves_to_itself() {
    let mut loaded = 0;
    for folder in [configs(), configs().join("pl5g")] {
        for entry in std::fs::read_dir(&folder).expect("the folder of configs") {
            let path = entry.expect("an entry").path();
            // the paper's figures are data, not an experiment
            if path.extension().is_none_or(|extension| extension != "toml") || path.ends_with("paper.toml") {
                continue;
            }
            let experiment = config(path.to_str().expect("a readable name"));
            let resolved = experiment.resolved_toml();
            let again = parse(&path, resolved.clone(), &registry(), &LoadOptions::default());
            let again = again.unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(again.resolved_toml(), resolved, "{}", path.display());
            assert_eq!(format!("{:?}", again.plan(0)), format!("{:?}", experiment.plan(0)), "{}", path.display());
            loaded += 1;
        }
    }
    assert_eq!(loaded, 25);
}

#[test]
fn the_nine_pl5g_experiments_have_the_papers_totals() {
    let requests = [
        ("a1", 180_000, 5.0),
        ("a2", 144_000, 11.0),
        ("a3", 180_000, 8.0),
        ("b1", 790_800, 5.0),
        ("b2", 790_800, 8.0),
        ("b3", 790_800, 12.0),
        ("c1", 366_400, 5.0),
        ("c2", 366_400, 8.0),
        ("c3", 366_400, 17.0),
    ];
    for (name, total, vcpu) in requests {
        let experiment = config(&format!("pl5g/{name}.toml"));
        assert_eq!(experiment.name, format!("pl5g-{name}"));
        assert_eq!(experiment.totals().requests, Some(total), "{name}");
        assert_eq!((experiment.repetitions, experiment.stop), (10, Stop::AllRequestsDone), "{name}");
        assert_eq!(experiment.links[0].connection, Connection::PerRequest, "{name}");
        let measured = experiment.nodes.iter().filter(|node| node.measured);
        let asked: f64 = measured.clone().filter_map(|node| Some(node.vcpu? * f64::from(node.count()))).sum();
        assert_eq!(asked, vcpu, "{name}");
        assert_eq!(measured.map(|node| node.count()).sum::<u32>(), 5, "{name}");
        let paced = experiment.totals().rate.is_some();
        assert_eq!(paced, name.starts_with('b'), "{name}");
        assert!(experiment.notes.is_empty(), "{name}: {:?}", experiment.notes);
    }
}

#[test]
fn the_three_demonstrations_offer_what_they_say() {
    for (name, rate) in [("uav-control", 120.0), ("athlete-monitoring", 550.0), ("vehicle-monitoring", 240.0)] {
        let experiment = config(&format!("{name}.toml"));
        assert_eq!(experiment.totals().rate, Some(rate), "{name}");
        assert_eq!(experiment.totals().requests, Some((rate * 20.0) as u64), "{name}");
        assert!(experiment.notes.is_empty(), "{name}: {:?}", experiment.notes);
    }
}

#[test]
fn drawn_arrivals_offer_their_mean() {
    let experiment = config("arrivals.toml");
    assert!(experiment.notes.is_empty(), "{:?}", experiment.notes);
    let totals = experiment.totals();
    // 100 + 100 + 2 · 17.5 + 38 + 60 per second, all for 20 s
    assert!((totals.rate.expect("paced") - 333.0).abs() < 1e-3, "{totals:?}");
    assert_eq!(totals.requests, Some(6_660));
}

/// The trace is in the experiment once it is loaded, so that other processes and machines need no file.
#[test]
fn the_radio_cell_has_its_trace_classes_and_members() {
    let experiment = config("radio-cell.toml");
    assert!(experiment.notes.is_empty(), "{:?}", experiment.notes);
    let plan = experiment.plan(0);
    let row = plan.link_row("camera", "receiver");
    let cell = &plan.links[row];
    assert_eq!((cell.name.as_str(), cell.rate_steps.len(), cell.classes.len()), ("cell", 5, 3));
    assert!(["steering", "logs"].iter().all(|from| plan.link_row(from, "receiver") == row));
    assert_eq!(plan.link_row("receiver", "camera"), 0);
    assert_eq!(plan.dscp(0, 0).to_string(), "EF");
    assert!(!experiment.resolved_toml().contains("fading-cell.csv"));
}
