//! Targets outside of the experiment.

use rehearsal_core::outside::Outside;
use rehearsal_core::plan::{Carrier, Impose};

use super::support::{GOOD, bad, good, tells};

/// The good experiment with a second kind of sensor, which sends to a URL.
fn aimed(to: &str, more: &str) -> String {
    format!("{GOOD}[nodes.user.actors.main]\nkind = \"sensor\"\nto = \"{to}\"\nrequests = 5\nrate = \"5/s\"\n{more}")
}

#[test]
fn a_url_becomes_a_node_of_the_plan_and_of_nothing_else() {
    let text = aimed("http://127.0.0.1:8080/x?y", "service = { time = \"3ms\", workers = 2 }\n");
    let experiment = good(&text);
    assert!(experiment.nodes.iter().all(|node| !node.name.starts_with("outside")));
    let plan = experiment.plan(0);
    let last = plan.nodes.last().expect("nodes");
    let expected = Outside { origin: "http://127.0.0.1:8080".into(), address: None, known: true };
    assert_eq!((last.name.as_str(), last.outside.as_ref()), ("outside", Some(&expected)));
    assert!(!last.local && !last.measured && !plan.info.nodes.iter().any(|node| node.name == "outside"));
    assert_eq!(plan.path_to("http://127.0.0.1:8080/other").as_deref(), Some("outside/service"));
    assert_eq!(plan.outside_of("http://127.0.0.1:8081/"), None);
    let resolved = experiment.resolved_toml();
    assert!(!resolved.contains("nodes.outside"), "{resolved}");
    assert_eq!(good(&resolved).resolved_toml(), resolved);
}

#[test]
fn links_to_the_outside_have_the_carrier_of_the_url_and_nobody_imposes_them() {
    let link = "[links.\"user->outside\"]\ncarrier = \"udp\"\ndelay = \"7ms\"\nimpose = \"userspace\"\n";
    let plan = good(&aimed("http://127.0.0.1:8080/", link)).plan(0);
    let row = |name: &str| plan.nodes.iter().position(|node| node.name == name).expect("a node");
    let up = plan.link(row("user"), row("outside"));
    assert_eq!((up.carrier, up.impose, up.delay.as_nanos()), (Carrier::Http1, Impose::None, 7_000_000));
    assert_eq!(plan.link(row("outside"), row("user")).delay.as_nanos(), 0);
    let two = format!(
        "{}[nodes.user.actors.other]\nkind = \"sensor\"\nto = \"http://127.0.0.1:9090/\"\nrate = \"1/s\"\nrequests = 1\n",
        aimed("http://127.0.0.1:8080/", "")
    );
    let names: Vec<String> =
        good(&two).plan(0).nodes.iter().filter(|n| n.outside.is_some()).map(|n| n.name.clone()).collect();
    assert_eq!(names, ["outside-1", "outside-2"], "in the order of the file");
}

#[test]
fn what_cannot_be_sent_is_told_with_its_line() {
    for (to, more, parts) in [
        ("ftp://a/", "", ["x.toml:28:", "`ftp://` cannot be sent to"]),
        ("http://a/x", "request = { path = \"/y\" }", ["x.toml:31:", "has the path `/x` already"]),
        ("http://a/", "request = { method = \"G T\" }", ["x.toml:31:", "is no method"]),
        ("http://a/", "request = { headers = { Host = \"b\" } }", ["x.toml:31:", "`Host` follows from the rest"]),
        ("http://a/", "request = { headers = { a = \"b\\r\\nc: d\" } }", ["x.toml:31:", "control character"]),
        ("http://a/", "request = { expect = { status = [99] } }", ["x.toml:31:", "99 is no status"]),
        ("http://a/", "request = { body = { text = \"x\" } }", ["x.toml:31:", "kind = \"client\""]),
        ("http://a/", "request = { pth = \"/\" }", ["x.toml:31:", "did you mean `path`?"]),
        ("http://a/", "service = { time = 5 }", ["x.toml:31:", "service"]),
    ] {
        tells(&bad(&aimed(to, more)), &parts);
    }
    let named =
        aimed("http://a/", "").replace("nodes.receiver", "nodes.outside").replace("receiver/main", "outside/main");
    tells(&bad(&named.replace("sensor->receiver", "sensor->outside")), &["`outside` cannot be the name of a node"]);
    let two = format!(
        "{}[nodes.user.actors.other]\nkind = \"sensor\"\nto = \"http://a/x\"\nrequests = 1\nservice = {{ time = \"1ms\" }}\n",
        aimed("http://a/", "")
    );
    tells(&bad(&two), &["`user/other` says another `service` of http://a"]);
}

#[test]
fn keys_of_the_outside_wait_until_they_are_used() {
    let text = GOOD.replace("rate = \"25/s\"", "rate = \"25/s\"\nrequest = { path = \"/x\" }");
    let notes = good(&text).notes;
    assert!(notes.iter().any(|note| note.starts_with("sensor/main: what `request`")), "{notes:?}");
}
