//! Models of users: a file takes the place of the diagram, and what is wrong in it is told with its own line.

use std::fs;
use std::path::{Path, PathBuf};

use rehearsal_scenario::{Experiment, LoadOptions, ScenarioErrors, load, load_model};

use super::kinds::registry;

const EXPERIMENT: &str = "[experiment]\nname = \"users\"\nduration = \"10s\"\n[nodes.u.actors.main]\nkind = \"population\"\n\
                          to = \"r/main\"\nusers = 40\nmodel = \"model.toml\"\n[nodes.r.actors.main]\nkind = \"receiver\"\n\
                          [links.default]\ncarrier = \"udp\"\n";
const MODEL: &str = "# a phone\n[states.idle]\nstay = { dist = \"exponential\", mean = \"60s\" }\nto = { call = 1 }\n\
                     [states.call]\nmodule = \"voice\"\nto = { idle = 1 }\n\
                     [modules.voice]\nkind = \"cbr\"\nevery = \"20ms\"\nbytes = \"172B\"\nlasts = { dist = \"exponential\", mean = \"20s\" }\n";

/// A folder of this test, with the experiment and a model in it.
fn folder(name: &str, model: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("models-{name}"));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("users.toml"), EXPERIMENT).expect("a file");
    fs::write(folder.join("model.toml"), model).expect("a file");
    folder
}

fn load_in(folder: &Path, sets: &[&str]) -> Result<Experiment, ScenarioErrors> {
    let sets = sets.iter().map(|set| (*set).to_owned()).collect();
    load(&folder.join("users.toml"), &registry(), &LoadOptions { sets, ..LoadOptions::default() })
}

#[test]
fn a_model_takes_the_place_of_the_diagram() {
    let experiment = load_in(&folder("good", MODEL), &[]).expect("it loads");
    let resolved = experiment.resolved_toml();
    assert!(resolved.contains("diagram.modules.voice") && !resolved.contains("model.toml"), "{resolved}");
    // it paces itself, so datagrams need no `rate`, and the offer counts
    let totals = experiment.totals();
    assert_eq!((totals.rate, totals.requests), (Some(20.0), Some(200)));
}

#[test]
fn overrides_reach_into_a_model_or_name_another() {
    let folder = folder("set", MODEL);
    fs::write(folder.join("other.toml"), MODEL.replace("60s", "90s")).expect("a file");
    let set = "nodes.u.actors.main.diagram.modules.voice.bytes=52B";
    let resolved = load_in(&folder, &["nodes.u.actors.main.model=other.toml", set]).expect("it loads").resolved_toml();
    assert!(resolved.contains("52B") && resolved.contains("90s") && !resolved.contains("172B"), "{resolved}");
    let missing = load_in(&folder, &["nodes.u.actors.main.model=none.toml"]).expect_err("there is none").to_string();
    assert!(missing.contains("none.toml") && missing.contains("rehearsal model list"), "{missing}");
    fs::write(folder.join("users.toml"), EXPERIMENT.replace("model.toml", "nowhere.toml")).expect("a file");
    let errors = load_in(&folder, &[]).expect_err("there is none");
    assert_eq!(errors.errors.len(), 1, "a file that is missing is no missing key as well: {errors}");
    let told = errors.to_string();
    assert!(told.contains("users.toml:8:9") && told.contains("nowhere.toml: No such file"), "{told}");
    assert!(!told.contains("experiment:"), "{told}");
}

#[test]
fn what_is_wrong_in_a_model_is_told_with_its_line() {
    for (name, from, to, place, told) in [
        ("syntax", "to = { call = 1 }", "to = { call = }", "model.toml:4:", ""),
        ("key", "every = ", "evry = ", "model.toml:10:1", "evry"),
        ("unit", "\"20ms\"", "\"20\"", "model.toml:10:", "no unit"),
        ("sum", "to = { call = 1 }", "to = { call = 0.7, idle = 0.7 }", "model.toml:4:1", "add up to 1.4, not to 1"),
        ("state", "call = 1 }", "cal = 1 }", "model.toml:4:", "state `idle`: there is no state `cal`"),
        ("module", "\"voice\"", "\"video\"", "model.toml:6:", "there is no module `video`"),
        ("law", "mean = \"60s\" }", "mean = \"0s\" }", "model.toml:3:", "state `idle`: `stay`"),
        ("exit", "to = { idle = 1 }\n", "", "model.toml:5:", "state `call` is absorbing"),
    ] {
        let text = MODEL.replacen(from, to, 1);
        assert_ne!(text, MODEL, "{name}");
        let folder = folder(name, &text);
        let errors = load_in(&folder, &[]).expect_err(name).to_string();
        assert!(errors.contains(place) && errors.contains(told), "{name}: {errors}");
        let alone = load_model(&folder.join("model.toml")).expect_err(name).to_string();
        assert!(alone.contains(place) && alone.contains(told), "{name} alone: {alone}");
    }
}

#[test]
fn a_trace_of_frames_is_in_the_experiment() {
    let module = "[modules.voice]\nkind = \"trace\"\nevery = \"40ms\"\nfile = \"frames.txt\"\ncount = 9\n";
    let model = MODEL.split("[modules").next().expect("the states").to_owned() + module;
    let folder = folder("trace", &model);
    fs::write(folder.join("frames.txt"), "# I\n8000\n400\n").expect("a file");
    let resolved = load_in(&folder, &[]).expect("it loads").resolved_toml();
    assert!(resolved.contains("8000,\n    400") || resolved.contains("[8000, 400]"), "{resolved}");
    fs::write(folder.join("frames.txt"), "8000\nx\n").expect("a file");
    let errors = load_in(&folder, &[]).expect_err("a row is none").to_string();
    assert!(errors.contains("frames.txt: line 2: `x` is no number of bits"), "{errors}");
}

/// Every model of the library is one, says where it is from, and has a figure that it is held against.
#[test]
fn every_model_that_is_shipped_is_right() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/models");
    let mut read = 0;
    for entry in fs::read_dir(library).expect("the library") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let model = load_model(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let about = &model.about;
        let whole = !about.title.is_empty() && !about.source.is_empty() && about.five_qi.is_some();
        assert!(whole && about.delay_budget.is_some() && !about.published.is_empty(), "{}", path.display());
        read += 1;
    }
    assert_eq!(read, 39);
}
