//! Bundles are opened again, and changes to them are seen.

use std::fs;

use rehearsal_export::{Bundle, ExportError, index};

use crate::support::{Scratch, meta, usual_run};

#[test]
fn a_bundle_is_read_back_as_it_was() {
    let scratch = Scratch::new("read");
    let finished = usual_run(&scratch, "run", 5, meta());
    let bundle = Bundle::open(&finished.path).unwrap();
    assert!(bundle.summary == finished.summary, "every number survives the way through JSON");
    assert_eq!((&bundle.verdict.verdict, bundle.verdict.exit_code), (&finished.verdict, finished.exit_code));
    assert_eq!((bundle.manifest.seed, bundle.manifest.files.len()), (7, 6));
    assert_eq!(bundle.manifest.experiment_sha256, bundle.manifest.files["experiment.toml"]);
    assert_eq!(bundle.changed().unwrap(), Vec::<String>::new());
    fs::write(finished.path.join("summary.json"), b"{}").unwrap();
    fs::remove_file(finished.path.join("latency.hlog")).unwrap();
    assert_eq!(bundle.changed().unwrap(), ["latency.hlog", "summary.json"]);
    assert!(matches!(Bundle::open(&finished.path), Err(ExportError::Decode { .. })));
}

#[test]
fn other_folders_and_later_versions_are_refused() {
    let scratch = Scratch::new("refuse");
    let error = Bundle::open(&scratch.join("nothing")).unwrap_err().to_string();
    assert!(error.ends_with("manifest.json cannot be read; is this a result folder?"), "{error}");
    let finished = usual_run(&scratch, "run", 2, meta());
    let manifest = finished.path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap().replace("\"schema_version\": 1", "\"schema_version\": 9");
    fs::write(&manifest, text).unwrap();
    assert!(matches!(Bundle::open(&finished.path), Err(ExportError::Schema { found: 9, .. })));
}

#[test]
fn repetitions_stand_beside_an_index() {
    let scratch = Scratch::new("index");
    let run = scratch.join("run");
    index::create(&run).unwrap();
    assert!(matches!(index::create(&run), Err(ExportError::Exists { .. })));
    let mut finished = Vec::new();
    for repetition in 0..2 {
        let name = index::folder(&run, repetition);
        let name = name.strip_prefix(scratch.join("")).unwrap().to_str().unwrap().to_owned();
        let meta = rehearsal_export::BundleMeta { repetition, ..meta() };
        finished.push(usual_run(&scratch, &name, 3, meta));
    }
    finished[1].exit_code = 10;
    let written = index::write(&run, "pl5g", &finished).unwrap();
    assert_eq!(index::read(&run).unwrap(), written);
    let folders: Vec<_> = written.repetitions.iter().map(|r| r.folder.as_str()).collect();
    assert_eq!((folders, written.exit_code), (vec!["rep-01", "rep-02"], 10));
    assert_eq!(index::worst([10, 20, 0].into_iter()), 20);
}
