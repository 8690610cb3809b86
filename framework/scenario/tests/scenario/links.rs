//! What is said of links: cells, traces, classes, bursts; and what nonsense is answered with.

use rehearsal_core::plan::Scheduler;
use rehearsal_core::units::BitRate;
use rehearsal_scenario::{LoadOptions, load as load_file};

use super::kinds::registry;
use super::support::{GOOD, bad, good, tells};

/// The good experiment with other lines for its link.
fn link(lines: &str) -> String {
    GOOD.replace("delay = \"1ms\"", lines)
}

/// The good experiment with a cell in place of its link.
fn cell(lines: &str) -> String {
    GOOD.replace("[links.\"sensor->receiver\"]\ndelay = \"1ms\"", &format!("[links.cell]\n{lines}"))
}

#[test]
fn a_cell_is_one_link_of_all_its_members() {
    let both = "members = [\"sensor->receiver\", \"receiver->sensor\"]\nrate = \"5Mbit/s\"";
    let plan = good(&cell(both)).plan(0);
    assert_eq!(plan.links.len(), 2);
    assert_eq!((plan.link_row("sensor", "receiver"), plan.link_row("receiver", "sensor")), (1, 1));
    assert_eq!((plan.links[1].name.as_str(), plan.links[0].name.as_str()), ("cell", "default"));
    let told = |lines: &str, parts: &[&str]| tells(&bad(&cell(lines)), parts);
    told("rate = \"5Mbit/s\"", &["x.toml:24:8: `cell` does not name the two ends", "`members = [\"from->to\", …]`"]);
    told(
        "members = [\"sensor->receiver\"]",
        &["x.toml:25:11:", "has nothing that its members could share", "add `rate`"],
    );
    told("members = []\nrate = \"5Mbit/s\"", &["`members` names no pair"]);
    told("members = [\"sensor\"]\nrate = \"5Mbit/s\"", &["`sensor` does not name the two ends of a link"]);
    told(
        "members = [\"sensr->receiver\"]\nrate = \"5Mbit/s\"",
        &["there is no node `sensr`", "did you mean `sensor`?"],
    );
    told(&format!("{both}\n[links.\"sensor->receiver\"]"), &["the link from `sensor` to `receiver` is given twice"]);
    tells(
        &bad(&link("members = [\"sensor->receiver\"]\nrate = \"1Mbit/s\"")),
        &["is a link of its own and has no `members`"],
    );
}

#[test]
fn a_link_has_one_of_several_rates_losses_and_jitters() {
    let told = |lines: &str, parts: &[&str]| tells(&bad(&link(lines)), parts);
    let steps = "rate_steps = [[\"0s\", \"5Mbit/s\"], [\"1s\", \"1Mbit/s\"]]";
    told(&format!("rate = \"1Mbit/s\"\n{steps}"), &["x.toml:26:14:", "one of `rate`, `rate_trace` and `rate_steps`"]);
    told(
        "loss = \"1%\"\ngilbert_elliott = { begin = \"1%\", end = \"9%\" }",
        &["exclude each other", "leave `loss` out"],
    );
    told("jitter = \"1ms\"\njitter_quantiles = [\"0s\"]", &["`jitter` and `jitter_quantiles` exclude each other"]);
    // what a link writes outranks another way to say the same in the default
    let text = format!(
        "{}\n[links.default]\nrate = \"9Mbit/s\"\nloss = \"1%\"\n",
        link(&format!("{steps}\ngilbert_elliott = {{ begin = \"1%\", end = \"9%\" }}"))
    );
    let plan = good(&text).plan(0);
    assert_eq!((plan.links[0].rate, plan.links[1].rate), (Some(BitRate(9_000_000)), None));
    assert_eq!((plan.links[1].rate_steps.len(), plan.links[1].loss.0), (2, 0.0));
}

#[test]
fn nonsense_is_answered_where_it_stands() {
    let told = |lines: &str, parts: &[&str]| tells(&bad(&link(lines)), parts);
    told("delay = \"-1ms\"", &["x.toml:25:9:", "-1ms"]);
    told("rate = \"0bit/s\"", &["x.toml:25:8:", "above zero"]);
    told("rate_steps = []", &["x.toml:25:14: `rate_steps` has no row"]);
    told("rate_steps = [[\"1s\", \"1Mbit/s\"]]", &["the first row is at 1s, not at 0s"]);
    told("rate_steps = [[\"0s\", \"0bit/s\"]]", &["above zero"]);
    told("jitter_quantiles = [\"2ms\", \"1ms\"]", &["`jitter_quantiles` does not ascend"]);
    told("jitter_cv = 0", &["`jitter_cv`: 0 is out of range"]);
    told("queue_packets = 0", &["`queue_packets`: 0 is out of range"]);
    told("gilbert_elliott = { begin = \"1%\", end = \"0%\" }", &["the first burst would never end", "bursts of five"]);
    told("gilbert_elliott = { begin = \"1%\" }", &["lacks the key `end`"]);
    told("codel = {}", &["x.toml:25:9: `codel` needs a rate"]);
    told(
        "rate = \"1Mbit/s\"\ncodel = { target = \"0s\" }",
        &["must be above zero", "`codel = {}` takes 5 ms and 100 ms"],
    );
    told("rate = \"1Mbit/s\"\nscheduler = \"priority\"", &["`scheduler` has no `classes`", "{ dscp = [\"EF\"] }"]);
    told("rate = \"1Mbit/s\"\nclasses = [{}]", &["`classes` needs a scheduler"]);
    told("scheduler = \"priority\"\nclasses = [{}]", &["`scheduler` needs a rate"]);
    let classes = |text: &str| format!("rate = \"1Mbit/s\"\nscheduler = \"weighted\"\nclasses = [{text}]");
    told(&classes("{ dscp = [\"EF\"] }, { dscp = [46] }"), &["`EF` is in two classes"]);
    told(&classes("{ dscp = [\"EX\"] }"), &["`EX` is no DSCP", "\"AF41\"", "from 0 to 63\n 27 |"]);
    // a class without a share would be asked again and again whether it may send
    told(&classes("{ dscp = [\"EF\"], weight = 0 }, {}"), &["`weight`: 0 is out of range: it must be from 1 to 1000"]);
    told(&classes("{ weight = 1001 }"), &["`weight`: 1001 is out of range"]);
    told("carrier = \"mqtt\"", &["`mqtt` needs a broker", "qos = 1"]);
    told("carrier = \"mqtt\"\nmqtt = { broker = \"h:1883\" }", &["`h:1883` is no broker", "mqtt://127.0.0.1:1883"]);
    told(
        "carrier = \"mqtt\"\nmqtt = { broker = \"mqtt://h\", qos = 3 }",
        &["3 is no quality of service: write 0, 1 or 2"],
    );
    told("carrier = \"tcp\"\npipeline = 0", &["`pipeline`: 0 is out of range: it must be at least 1"]);
    told("handshake = \"tsl\"", &["`tsl` is not one of its values", "did you mean `tls`?"]);
    let marked = GOOD.replace("requests = 100", "requests = 100\ndscp = 64");
    tells(&bad(&marked), &["`dscp`: 64 is out of range: it must be at most 63"]);
}

#[test]
fn what_comes_to_nothing_is_noted() {
    let notes = |text: &str| good(text).notes.join("\n");
    tells(
        &notes(&GOOD.replace("requests = 100", "requests = 100\ndscp = \"EF\"")),
        &["`dscp` marks packets of an emulation, and means nothing to a dry run where no link has `classes`"],
    );
    tells(&notes(&link("jitter_shape = \"normal\"")), &["`jitter_shape` means nothing without `jitter`"]);
    tells(&notes(&link("pipeline = 4")), &["`pipeline` means nothing here"]);
    tells(&notes(&link("mode = \"echo\"")), &["`mode` means nothing here: it is of `udp`"]);
    tells(&notes(&link("mqtt = { broker = \"mqtt://h\" }")), &["`mqtt` means nothing without"]);
    tells(&notes(&link("carrier = \"udp\"\nhandshake = \"quic\"")), &["`handshake` means nothing here"]);
}

#[test]
fn classes_resolve_to_themselves() {
    let lines = "members = [\"sensor->receiver\"]\nrate = \"5Mbit/s\"\nscheduler = \"weighted\"\n\
                 classes = [{ dscp = [\"EF\", 10], weight = 3 }, {}]\ncodel = {}\nqueue_packets = 9\n\
                 jitter_quantiles = [\"0s\", \"2ms\"]\ngilbert_elliott = { begin = \"1%\", end = \"9%\" }";
    let experiment = good(&cell(lines));
    let resolved = experiment.resolved_toml();
    let again = good(&resolved);
    assert_eq!(
        (again.links.clone(), again.routes.clone()),
        (experiment.links.clone(), experiment.routes.clone()),
        "{resolved}"
    );
    assert_eq!(again.links[1].scheduler, Scheduler::Weighted);
    assert!(resolved.contains("\"AF11\""), "a code point with a name is written by it");
}

#[test]
fn a_trace_is_read_from_its_file_and_its_mistakes_are_told_by_line() {
    let folder = std::env::temp_dir().join(format!("rehearsal-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("x.toml");
    std::fs::write(&file, link("rate_trace = \"cell.csv\"")).expect("written");
    let load = || load_file(&file, &registry(), &LoadOptions::default());
    tells(&load().expect_err("no trace").to_string(), &["x.toml:25:14: `rate_trace`: cell.csv:"]);
    for (text, parts) in [
        ("", ["cell.csv: there is no row", "write a row for each change"]),
        ("# cell\n0s, 5Mbit/s\n1s, fast\n", ["cell.csv:3:", "fast"]),
        ("0s, 5Mbit/s\n0s, 5Mbit/s\n", ["cell.csv:2:", "does not come after"]),
    ] {
        std::fs::write(folder.join("cell.csv"), text).expect("written");
        tells(&load().expect_err(text).to_string(), &parts);
    }
    std::fs::write(folder.join("cell.csv"), "0s, 5Mbit/s\n1s, 7Mbit/s\n").expect("written");
    let plan = load().expect("a good trace").plan(0);
    assert_eq!(plan.links[1].rate_steps.len(), 2);
    std::fs::remove_dir_all(&folder).expect("removed");
}
