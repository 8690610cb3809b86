//! The help of every verb, as reviewed text: `UPDATE_SNAPSHOTS=1 cargo test` writes it anew.

use std::fs;
use std::path::Path;

use crate::support::Scratch;

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/snapshots");

#[test]
fn help_is_as_reviewed() {
    let scratch = Scratch::new();
    let verbs = [("program", &["--help"][..]), ("init", &["init", "--help"]), ("check", &["check", "--help"])];
    let engines = [("simulate", &["simulate", "--help"][..]), ("emulate", &["emulate", "--help"])];
    let send = [("send", &["send", "--help"][..])];
    let fleet =
        [("agent", &["agent", "--help"][..]), ("agents", &["agents", "--help"]), ("control", &["control", "--help"])];
    let ahead = [("plan", &["plan", "--help"][..]), ("sweep", &["sweep", "--help"]), ("model", &["model", "--help"])];
    let results = [("report", &["report", "--help"][..]), ("runs", &["runs", "--help"])];
    let packets = [
        ("replay", &["replay", "--help"][..]),
        ("middle", &["middle", "--help"]),
        ("template", &["template", "--help"]),
        ("template-import", &["template", "import", "--help"]),
        ("template-list", &["template", "list", "--help"]),
        ("template-show", &["template", "show", "--help"]),
        ("template-export", &["template", "export", "--help"]),
    ];
    let measured = [("compare", &["compare", "--help"][..]), ("calibrate", &["calibrate", "--help"])];
    for (name, args) in verbs
        .into_iter()
        .chain(engines)
        .chain(send)
        .chain(fleet)
        .chain(ahead)
        .chain(results)
        .chain(packets)
        .chain(measured)
    {
        let done = scratch.run(args);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
        let path = Path::new(SNAPSHOTS).join(format!("help-{name}.txt"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &done.stdout).expect("a snapshot");
        }
        let reviewed = fs::read_to_string(&path).unwrap_or_default();
        assert!(done.stdout == reviewed, "{} is not what is printed:\n{}", path.display(), done.stdout);
    }
}
