//! The acceptance tests: twelve complaints that users of load generators have, each as a test with its number. Counts,
//! order, digests and verdicts are here; what is a time is a row of `cargo xtask bench truth`.
//!
//! | test | complaint |
//! |---|---|
//! | `a1_…` | a stopped receiver hides its own delay |
//! | `a2_…` | the rate is missed, or bursts above it |
//! | `a3_…` | a long run needs more and more memory |
//! | `a4_…` | a generator dies and nobody notices, or all hang |
//! | `a5_…` | a step of the date bends the results |
//! | `a6_…` | percentiles of several generators are averaged |
//! | `a7_…` | the generator is the bottleneck and the target is blamed |
//! | `a8_…` | a mistake in the file is ignored, or explained badly |
//! | `a9_…` | more generators make another schedule |
//! | `a10_…` | a run against a target that swallows all does not end |
//! | `a11_…` | traffic goes where it must not |
//! | `a12_…` | descriptors run out in the middle |

mod fleet;
mod merge;
mod pinned;
mod poisson;
mod rates;
mod recorder;
mod refused;
mod soak;
mod times;
mod void;
#[path = "../xtask/src/bench/truth/wire.rs"]
mod wire;

use std::fs::File;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use crate::support::Bundle;

/// One attempt that was kept; times in ns since the start of traffic.
struct Attempt {
    node: String,
    member: i64,
    stream: i64,
    succeeded: bool,
    intended_ns: u64,
    sent_ns: u64,
    done_ns: u64,
}

/// The attempts in `requests.parquet`: all of them, or the test has looked at too little.
fn attempts(bundle: &Bundle) -> Vec<Attempt> {
    assert_eq!(bundle.summary["requests"]["left_out"], 0, "{:#}", bundle.summary["requests"]);
    let file = File::open(bundle.folder.join("requests.parquet")).expect("requests.parquet");
    let reader = SerializedFileReader::new(file).expect("a table");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").into_columns());
    let read = |row: Vec<(String, Field)>| {
        let field = |name: &str| row.iter().find(|(column, _)| column == name).map(|(_, field)| field);
        let number = |name: &str| match field(name) {
            Some(Field::Long(value)) => *value,
            Some(Field::Int(value)) => i64::from(*value),
            other => panic!("{name}: {other:?}"),
        };
        let text = |name: &str| match field(name) {
            Some(Field::Str(text)) => text.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let ns = |name: &str| u64::try_from(number(name)).expect("times count from the start of traffic");
        Attempt {
            node: text("node"),
            member: number("member"),
            stream: number("stream"),
            succeeded: text("status") == "success",
            intended_ns: ns("intended_ns"),
            sent_ns: ns("sent_ns"),
            done_ns: ns("done_ns"),
        }
    };
    let attempts: Vec<Attempt> = rows.map(read).collect();
    assert_eq!(attempts.len() as u64, bundle.total("attempts"), "every attempt is kept");
    attempts
}
