//! What is answered when parts of an experiment do not fit each other.

use rehearsal_core::plan::{Carrier, Impose};

use super::support::{GOOD, bad, good, load, spoilt, tells};

#[test]
fn references_are_followed_or_answered() {
    tells(
        &spoilt("\"receiver/main\"", "\"reciever/main\""),
        &["x.toml:16:6: there is no node `reciever`", "did you mean `receiver`?"],
    );
    tells(
        &spoilt("\"receiver/main\"", "\"receiver/man\""),
        &["there is no actor `receiver/man`", "did you mean `main`?"],
    );
    tells(&spoilt("\"receiver/main\"", "\"receiver\""), &["not of the form `node/actor`", "write `receiver/main`"]);
    tells(&spoilt("\"receiver/main\"", "\"sensor/main\""), &["`sensor/main` cannot receive: it would send to itself"]);
    tells(&spoilt("\"receiver/main\"", "\"ftp://a/\""), &["`ftp://` cannot be sent to", "http://127.0.0.1:8080"]);
    tells(&spoilt("to = \"receiver/main\"\n", ""), &["x.toml:14:", "actor `sensor/main` lacks the key `to`"]);
    tells(&spoilt("host = \"lab\"", "host = \"lap\""), &["x.toml:11:8: there is no host `lap`", "did you mean `lab`?"]);
    tells(
        &spoilt("sensor->receiver", "sensor->reciever"),
        &["there is no node `reciever`", "did you mean `receiver`?"],
    );
    tells(&spoilt("sensor->receiver", "sensor"), &["does not name the two ends of a link"]);
    tells(&spoilt("\"receiver\"\n", "\"reciever\"\n"), &["there is no kind `reciever`", "did you mean `receiver`?"]);
    tells(&spoilt("kind = \"receiver\"\n", ""), &["lacks the key `kind`", "`aggregator`, `camera`"]);
    let logger = format!(
        "{}[nodes.receiver.actors.log]\nkind = \"logger\"\n",
        GOOD.replace("\"receiver/main\"", "\"receiver/log\"")
    );
    tells(&bad(&logger), &["`receiver/log` cannot receive: it is a service"]);
    let twice = format!("{GOOD}[links.\"sensor -> receiver\"]\ndelay = \"2ms\"\n");
    tells(&bad(&twice), &["the link from `sensor` to `receiver` is given twice"]);
    let other = format!(
        "{}[nodes.s.actors.main]\nkind = \"sensor\"\nto = \"receiver/main\"\n",
        GOOD.replace("\"receiver/main\"", "\"s/main\"")
    );
    tells(&bad(&other), &["`s/main` cannot receive: it only sends"]);
}

#[test]
fn a_wrong_table_is_not_reported_a_second_time_by_those_who_refer_to_it() {
    let text = spoilt("workers = 8", "workers = 0");
    assert_eq!(text.matches("x.toml:").count(), 1, "{text}");
    let text = spoilt("cores = 4", "cores = 0");
    assert_eq!(text.matches("x.toml:").count(), 1, "{text}");
}

#[test]
fn a_run_ends_in_exactly_one_way() {
    tells(&spoilt("duration = \"10s\"\n", ""), &["nothing says when a run ends"]);
    let both = spoilt("duration = \"10s\"", "duration = \"10s\"\nstop = \"all-requests-done\"");
    tells(&both, &["`stop` and `duration` cannot both say when a run ends"]);
    tells(&spoilt("duration = \"10s\"", "stop = \"all-request-done\""), &["did you mean `all-requests-done`?"]);
    let stop = GOOD.replace("duration = \"10s\"", "stop = \"all-requests-done\"");
    assert!(load(&stop).is_ok());
    tells(&bad(&stop.replace("requests = 100\n", "")), &["x.toml:14:22: `sensor/main` has no `requests`"]);
    let receiver =
        "[experiment]\nname = \"a\"\nstop = \"all-requests-done\"\n[nodes.r.actors.main]\nkind = \"receiver\"\n";
    tells(&bad(receiver), &["there is no sender"]);
    let out = spoilt("duration = \"10s\"", "duration = \"10s\"\nwarmup = \"6s\"\ncooldown = \"4s\"");
    tells(&out, &["`warmup` (6s) and `cooldown` (4s) leave nothing of the 10s to measure"]);
    let part = spoilt("duration = \"10s\"", "duration = \"10s\"\nwarmup = \"4s\"\ncooldown = \"5500ms\"");
    tells(&part, &["x.toml:5:10: ", "leave no whole second of the 10s to measure", "help: make the run longer"]);
    let one =
        good(&GOOD.replace("duration = \"10s\"", "duration = \"10s\"\nwarmup = \"4500ms\"\ncooldown = \"3500ms\""));
    assert_eq!(one.cooldown.as_nanos(), 3_500_000_000, "second 5 is left");
}

#[test]
fn counts_that_no_engine_could_hold_are_refused() {
    let text = GOOD.replace("count = 2", "count = 100").replace("requests = 100", "count = 100000");
    tells(&bad(&text), &["`sensor/main` would have 10000000 instances, at most 1000000"]);
    let text = GOOD.replace("count = 2", "count = 200").replace("requests = 100", "streams = 100000");
    tells(&bad(&text), &["`sensor/main` would have 20000000 streams"]);
    let text = spoilt("requests = 100", "requests = 9223372036854775807\nstreams = 2");
    tells(&text, &["more requests than can be counted"]);
}

#[test]
fn datagrams_need_a_rate_and_ignore_what_only_exchanges_have() {
    let udp = GOOD
        .replace("delay = \"1ms\"", "carrier = \"udp\"")
        .replace("workers = 8", "")
        .replace("[hosts.lab]\ncores = 4", "");
    let udp = udp.replace("host = \"lab\"\n", "");
    assert_eq!(good(&udp).notes, Vec::<String>::new());
    let notes = good(&udp.replace("requests = 100", "retries = 3\nlimit = { deadline = \"1ms\" }")).notes;
    assert_eq!(notes, ["sensor/main: `retries`, `limit` mean nothing over `udp`, where a datagram has no answer"]);
    tells(&bad(&udp.replace("rate = \"25/s\"\n", "")), &["sends datagrams without a `rate`"]);
}

#[test]
fn one_controller_leads_and_is_not_measured() {
    let led = format!("{GOOD}[nodes.lead.actors.controller]\nkind = \"controller\"\n");
    let experiment = good(&led);
    let lead: Vec<(&str, bool)> = experiment.nodes.iter().map(|n| (n.name.as_str(), n.measured)).collect();
    assert_eq!(lead, [("sensor", true), ("receiver", true), ("lead", false), ("control", false)]);
    let control: Vec<&str> = experiment.nodes[3].actors.iter().map(|a| a.kind).collect();
    assert_eq!(control, ["aggregator", "logger"]);
    tells(
        &bad(&format!("{led}[nodes.lead.actors.two]\nkind = \"controller\"\n")),
        &["an experiment has one controller"],
    );
    tells(&bad(&format!("{led}count = 2\n")), &["an experiment has one controller"]);
}

#[test]
fn a_link_says_who_imposes_it_and_what_comes_to_nothing() {
    let link = |lines: &str| good(&GOOD.replace("delay = \"1ms\"", lines));
    let whole = "carrier = \"nats\"\ndelay = \"1ms\"\njitter = \"1ms\"\nreorder = true\nimpose = \"userspace\"";
    let experiment = link(whole);
    let spec = experiment.link_to("sensor", "receiver/main");
    assert_eq!((spec.carrier, spec.impose, spec.reorder), (Carrier::Nats, Impose::Userspace, true));
    assert_eq!(good(&experiment.resolved_toml()).links, experiment.links, "it is written as it was read");
    assert_eq!(experiment.notes.iter().filter(|n| n.starts_with("link")).count(), 0, "{:?}", experiment.notes);
    let note = |lines: &str| {
        let notes = link(lines).notes.into_iter().filter(|n| n.starts_with("link `sensor->receiver`"));
        notes.collect::<Vec<_>>().join("\n")
    };
    tells(&note("impose = \"kernel\""), &["`impose` means nothing without `rate`"]);
    tells(&note("reorder = true"), &["`reorder` means nothing without `jitter`"]);
    tells(&note("carrier = \"nats\"\nconnection = \"per-request\""), &["`connection` means nothing over `nats`"]);
    tells(
        &spoilt("delay = \"1ms\"", "impose = \"user\""),
        &["x.toml:25:10: `impose`: `user` is not one of its values", "`kernel`, `none`, `userspace`"],
    );
}
