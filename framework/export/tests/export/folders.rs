//! A bundle's folder: refused before the run, kept when it holds something, never over something that exists.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use rehearsal_export::{BundleWriter, ExportError, RunFacts, Status};

use crate::support::{Node, Scratch, facts, meta, store, try_store};

#[test]
fn a_run_that_never_began_leaves_no_trace() {
    let scratch = Scratch::new("never");
    let writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    assert_eq!(writer.partial(), scratch.join("run.partial"));
    assert!(writer.partial().join("experiment.toml").exists());
    drop(writer);
    assert!(!scratch.join("run.partial").exists() && !scratch.join("run").exists());
}

#[test]
fn a_run_that_was_cut_off_is_kept_under_its_partial_name() {
    let scratch = Scratch::new("cut");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    store(&mut writer, Node::camera("camera").second(25, 1_000_000));
    drop(writer);
    assert!(scratch.join("run.partial/latency.hlog").exists() && !scratch.join("run").exists());
    let error = BundleWriter::create(&scratch.join("run"), meta()).map(drop).unwrap_err().to_string();
    assert!(error.contains("run.partial exists already") && error.contains("run-2 is free"), "{error}");
    drop(BundleWriter::create(&scratch.join("run-2"), meta()).unwrap());
}

#[test]
fn a_place_below_a_file_is_refused() {
    let scratch = Scratch::new("file");
    fs::write(scratch.join("file"), b"").unwrap();
    let error = BundleWriter::create(&scratch.join("file/run"), meta()).map(drop).unwrap_err();
    assert!(matches!(&error, ExportError::Unwritable { path, .. } if *path == scratch.join("file/run")), "{error}");
    assert!(error.source().is_some(), "the system's own words are there");
}

#[test]
fn a_name_that_was_taken_during_the_run_is_not_replaced() {
    let scratch = Scratch::new("taken");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    store(&mut writer, camera.second(25, 1_000_000));
    fs::create_dir(scratch.join("run")).unwrap();
    let error = writer.finish(facts(1, &[&camera])).unwrap_err();
    let ExportError::Kept { partial, source } = &error else { panic!("{error}") };
    assert_eq!(*partial, scratch.join("run.partial"));
    assert!(matches!(**source, ExportError::Exists { .. }));
    assert!(partial.join("summary.json").exists() && fs::read_dir(scratch.join("run")).unwrap().next().is_none());
}

/// What was stored before is a bundle that can be read, and it says why it is not whole.
#[test]
fn a_full_disk_is_told_to_the_publisher_and_at_the_end() {
    let Some(full) = small_disk() else { return };
    let name = full.path.join("run");
    let mut writer = BundleWriter::create(&name, meta()).unwrap();
    fs::write(full.path.join("ballast"), vec![1; 3_500_000]).unwrap();
    let mut camera = Node::camera("camera");
    let mut stored = 0;
    let told = (0..20_000).find_map(|_| match try_store(&mut writer, camera.second(25, 1_000_000)) {
        Ok(()) => {
            stored += 1;
            None
        }
        Err(why) => Some(why),
    });
    let told = told.expect("the disk is full long before").to_string();
    assert!(told.contains("run.partial is full: from here on nothing is stored") && stored > 0, "{stored}: {told}");
    assert!(try_store(&mut writer, camera.second(25, 1_000_000)).is_err(), "and nothing is");
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    assert_eq!((finished.path, finished.exit_code), (name.clone(), 20));
    let faults = finished.verdict.reasons.iter().filter(|reason| reason.text.contains("is full")).count();
    assert_eq!((finished.verdict.status, faults), (Status::Invalid, 1));
    assert!(["series.parquet", "events.parquet", "latency.hlog"].iter().all(|file| name.join(file).exists()));
    assert!(!name.join("reserve").exists() && !full.path.join("run.partial").exists());
}

#[test]
fn a_disk_that_is_already_full_refuses_the_run() {
    let Some(full) = small_disk() else { return };
    fs::write(full.path.join("ballast"), vec![1; 9_000_000]).unwrap();
    let error = BundleWriter::create(&full.path.join("run"), meta()).map(drop).unwrap_err();
    assert!(matches!(error, ExportError::Unwritable { .. }), "{error}");
    assert!(!full.path.join("run.partial").exists());
}

#[test]
fn finishing_without_anything_still_makes_a_bundle() {
    let scratch = Scratch::new("empty");
    let writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let finished = writer.finish(RunFacts::default()).unwrap();
    assert_eq!(finished.summary.total.totals.generated, 0);
    assert!(finished.path.join("series.parquet").exists());
}

/// A disk of 12 MB, where the test may mount one.
struct SmallDisk {
    path: PathBuf,
    _scratch: Scratch,
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.path).status();
    }
}

fn small_disk() -> Option<SmallDisk> {
    let scratch = Scratch::new("disk");
    let path = scratch.join("disk");
    fs::create_dir(&path).ok()?;
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"]).arg(&path);
    let mounted = mount.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success());
    mounted.then_some(SmallDisk { path, _scratch: scratch })
}
