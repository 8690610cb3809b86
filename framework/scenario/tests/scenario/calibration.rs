//! Calibrations: the shipped one, and what is wrong with others.

use std::path::{Path, PathBuf};

use rehearsal_core::calibration::Calibration;
use rehearsal_core::plan::Carrier;
use rehearsal_scenario::load_calibration;

use super::support::{GOOD, good, spoilt, tells};

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/calibration/default.toml")
}

/// What is told of a calibration with that text.
fn why(text: &str) -> String {
    let path = std::env::temp_dir().join(format!("rehearsal-calibration-{}-{}", std::process::id(), text.len()));
    std::fs::write(&path, text).expect("a file");
    let told = load_calibration(&path).expect_err("it is wrong").to_string();
    std::fs::remove_file(&path).expect("the file was there");
    told
}

#[test]
fn the_shipped_calibration_says_that_nobody_measured_it() {
    let calibration = load_calibration(&shipped()).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(!calibration.host.measured);
    assert_eq!(calibration.title(), "`default`, which nobody measured");
    for carrier in [Carrier::Http1, Carrier::Udp, Carrier::Nats] {
        let costs = &calibration.carriers[&carrier];
        assert!(!costs.send.is_free() && !costs.receive.is_free(), "{carrier:?}");
    }
    // an earlier file says nothing of these, and they cost nothing
    assert_eq!((calibration.cpu.sleep_ns, calibration.pacing.due_ns), (0.0, 0.0));
    assert!(calibration.carriers.values().all(|costs| costs.paused.is_none() && costs.closing == 0.0));
    let again: Calibration = toml::from_str(&toml::to_string(&calibration).expect("TOML")).expect("the same");
    assert_eq!(again, calibration);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    tells(&why("[host]\nid = \"x\"\n[cpu]\nperiod = \"0s\"\n"), &[":4:10: `cpu.period`: 0s", "write `1ms` to `1s`"]);
    tells(&why("[host]\nid = \"x\"\n[cpu]\nperiods = \"1ms\"\n"), &[":4:1: unknown field `periods`"]);
    tells(
        &why("[host]\nid = \"x\"\n[carriers.http1.send]\nfixed_ns = -5\n"),
        &[":4:12: `carriers.http1.send.fixed_ns`"],
    );
    tells(
        &why("[host]\nid = \"x\"\n[carriers.http1.send]\n# fixed_ns is missing: the file was cut off\n"),
        &[":3:1: `carriers.http1.send`: the table says nothing", "`fixed_ns = 5000`"],
    );
    tells(&why("[host]\nid = \"x\"\n[carriers.pigeon.send]\nfixed_ns = 5\n"), &[":3:11: unknown variant `pigeon`"]);
    tells(&why("[host\n"), &[":1:"]);
    tells(&why("[cpu]\n"), &["missing field `host`"]);
    let missing = load_calibration(Path::new("/nowhere/c.toml")).expect_err("no file").to_string();
    tells(&missing, &["cannot read the calibration /nowhere/c.toml", "configs/calibration/default.toml"]);
}

#[test]
fn a_file_that_was_cut_off_is_refused_wherever_it_was_cut() {
    let text = std::fs::read_to_string(shipped()).expect("the shipped one");
    let starts: Vec<usize> = text.match_indices("\n[").map(|(at, _)| at + 1).collect();
    assert!(starts.len() > 12, "{starts:?}");
    // a file without a host is none at all
    tells(&why(&text[..starts[0]]), &["missing field `host`"]);
    for at in starts.into_iter().skip(1) {
        let told = why(&text[..at]);
        tells(&told, &["`messages`: it is missing", "was the file cut off?"]);
    }
    // behind the last table's name, and in the middle of a carrier
    let last = text.rfind("[messages]\n").expect("it is the last one") + "[messages]\n".len();
    tells(&why(&text[..last]), &["`messages`: the table says nothing", "`control = \"100us\"`"]);
    let told = why(&text.replace("[carriers.udp.receive]\nfixed_ns = 2500\nns_per_byte = 0.2\n", ""));
    tells(&told, &["`carriers.udp.receive`: it is missing", "write `[carriers.udp.receive]` with `fixed_ns = 0`"]);
}

#[test]
fn an_experiment_may_name_one() {
    let experiment = good(&GOOD.replace("duration = \"10s\"", "duration = \"10s\"\ncalibration = \"lab.toml\""));
    assert_eq!(experiment.calibration.as_deref(), Some("lab.toml"));
    assert_eq!(good(&experiment.resolved_toml()).calibration.as_deref(), Some("lab.toml"));
    assert_eq!(good(GOOD).calibration, None);
}

#[test]
fn a_quota_that_no_host_can_grant_is_refused() {
    let told = spoilt("vcpu = 1", "vcpu = 4.5");
    tells(&told, &["x.toml:12:8: `vcpu` is 4.5, but host `lab` has 4 cores", "write at most 4"]);
    good(&GOOD.replace("vcpu = 1", "vcpu = 4"));
}

#[test]
fn more_actors_than_can_be_told_apart_are_refused() {
    let many = "kind = \"receiver\"\ncount = 1000\n";
    let crowd = |nodes: u32| {
        GOOD.replace("kind = \"receiver\"\n", many)
            .replace("[nodes.receiver.actors", &format!("[nodes.receiver]\ncount = {nodes}\n\n[nodes.receiver.actors"))
    };
    let told = super::support::bad(&(crowd(1000) + &crowd_more(16)));
    tells(&told, &["there are", "actors, at most 16000000 can be", "lower a `count`"]);
}

/// That many more nodes of a million actors each.
fn crowd_more(nodes: u32) -> String {
    let node = |n: u32| {
        format!("[nodes.more{n}]\ncount = 1000\n[nodes.more{n}.actors.main]\nkind = \"receiver\"\ncount = 1000\n")
    };
    (0..nodes).map(node).collect()
}
