//! Populations: both engines send the same where nothing waits for answers, answers have the length that was asked for, a
//! model's mistakes are told with its own line, and a sheet knows what users offer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::errors::must_fail;
use crate::support::{Bundle, CONFIGS, Scratch, beside};

/// Users who rest for half a second and then do what `module` says.
fn experiment(users: u32, keys: &str, module: &str, carrier: &str) -> String {
    format!(
        "[experiment]\nname = \"users\"\nduration = \"3s\"\n\
         [nodes.u.actors.main]\nkind = \"population\"\nto = \"r/main\"\nusers = {users}\n{keys}\n\
         [nodes.u.actors.main.diagram.states]\n\
         rest = {{ stay = {{ dist = \"exponential\", mean = \"500ms\" }}, to = {{ act = 1 }} }}\n\
         act = {{ module = \"m\", to = {{ rest = 1 }} }}\n\
         [nodes.u.actors.main.diagram.modules.m]\n{module}\n\
         [nodes.r.actors.main]\nkind = \"receiver\"\nworkers = 64\n\
         [links.default]\ncarrier = \"{carrier}\"\ndelay = \"1ms\"\nimpose = \"userspace\"\n"
    )
}

fn count(bundle: &Bundle, name: &str) -> u64 {
    let counts = &bundle.summary["total"]["counts"];
    counts[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counts}"))
}

const VOICE: &str = "kind = \"voip\"\ncodec = \"g711\"\nlasts = { dist = \"exponential\", mean = \"400ms\" }";

#[test]
fn both_engines_send_the_same_packets() {
    let _busy = beside();
    let scratch = Scratch::new();
    for (mode, ports) in [("composed", 1), ("individual", 7)] {
        let keys = format!("mode = \"{mode}\"\nports = {ports}\nschedule = [{{ at = \"1s\", users = 60 }}]");
        scratch.write("trial.toml", experiment(30, &keys, VOICE, "udp"));
        let [simulated, emulated] = scratch.both("trial.toml", mode, &[]);
        assert_eq!(simulated.schedule(), emulated.schedule(), "{mode}");
        let sent = simulated.total("datagrams_sent");
        assert!(sent > 1000 && sent == emulated.total("datagrams_sent"), "{mode}: {sent}");
        assert_eq!(simulated.total("bytes_sent"), sent * 172, "{mode}: 160 B and the header of RTP");
        for name in ["flows", "transitions"] {
            assert_eq!(count(&simulated, name), count(&emulated, name), "{mode}: {name}");
        }
        assert_eq!(simulated.total("lost"), 0, "{mode}");
    }
}

#[test]
fn pages_are_loaded_down_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    let page = "kind = \"web\"\nmain = { dist = \"constant\", value = \"20kB\" }\n\
                embedded = { dist = \"constant\", value = \"5kB\" }\nobjects = { dist = \"constant\", value = 6 }\n\
                less = 2\nparallel = 2\nparsing = { dist = \"constant\", value = \"20ms\" }";
    scratch.write("trial.toml", experiment(10, "", page, "http1"));
    for bundle in scratch.both("trial.toml", "pages", &[]) {
        let (pages, requests) = (count(&bundle, "flows"), bundle.total("success"));
        assert!(pages >= 15 && count(&bundle, "flows_done") <= pages, "{pages}");
        // a whole page is 5 requests and 40 kB of answers; what the stop broke off is less
        let done = count(&bundle, "flows_done");
        assert!(requests >= 5 * done && requests <= 5 * pages, "{requests} requests of {pages} pages");
        let replied = bundle.total("bytes_replied");
        assert!(replied >= 40_000 * done && replied <= 40_000 * pages, "{replied} B of {pages} pages");
        assert_eq!(bundle.total("bytes_sent"), 328 * bundle.total("attempts"));
    }
}

#[test]
fn a_load_is_steered_by_its_users() {
    let scratch = Scratch::new();
    let text = experiment(200, "", VOICE, "udp");
    let head = "name = \"users\"\n";
    scratch.write("plain.toml", &text);
    scratch.write(
        "paused.toml",
        text.replacen(
            head,
            &format!("{head}control = [{{ at = \"1s\", do = \"pause\" }}, {{ at = \"2s\", do = \"resume\" }}]\n"),
            1,
        ),
    );
    let plain = scratch.simulate("plain.toml", "plain", &[]).total("datagrams_sent") as f64;
    let paused = scratch.simulate("paused.toml", "paused", &[]).total("datagrams_sent") as f64;
    assert!((paused / plain - 2.0 / 3.0).abs() < 0.1, "{paused} of {plain}");
}

#[test]
fn mistakes_of_a_model_are_told_with_its_line() {
    let scratch = Scratch::new();
    let model = fs::read_to_string(Path::new(CONFIGS).join("models/gensyn-voip.toml")).expect("a model");
    let trial = fs::read_to_string(Path::new(CONFIGS).join("gensyn-voip.toml")).expect("an experiment");
    scratch.write("trial.toml", trial.replace("models/gensyn-voip.toml", "mine.toml"));
    for (from, to, told) in [
        ("to = { call = 1 }", "to = { cal = 1 }", "state `idle`: there is no state `cal`"),
        ("module = \"voice\"", "module = \"speech\"", "state `call`: there is no module `speech`"),
        ("every = \"100ms\"", "every = \"0s\"", "module `voice`: the shortest interval is 1us"),
        ("to = { idle = 1 }", "to = { call = 1 }", "never reached"),
    ] {
        let changed = model.replacen(from, to, 1);
        let line = changed.lines().position(|line| line.contains(to)).expect("the change") + 1;
        scratch.write("mine.toml", &changed);
        let place = if told.contains("never") { "mine.toml:".to_owned() } else { format!("mine.toml:{line}:") };
        must_fail(&scratch.run(&["check", "trial.toml"]), 2, &[&place, told]);
    }
    scratch.write("mine.toml", &model);
    must_fail(&scratch.run(&["check", "trial.toml", "--set", "nodes.phones.actors.main.rate=5/s"]), 2, &["`rate`"]);
}

#[test]
fn a_sheet_and_a_check_know_what_users_offer() {
    let scratch = Scratch::new();
    let file = format!("{CONFIGS}/gensyn-voip.toml");
    let done = scratch.run(&["check", &file]);
    // 3,000 · 180 / (5820 + 180) calls, of each 10 packets/s in 35.2 % of the time
    assert!(done.stdout.contains("3000 users") && done.stdout.contains("316.8 requests/s"), "{}", done.stdout);
    let done = scratch.run(&["plan", "--format", "json", &file]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let sheet: Value = done.json();
    let link = &sheet["experiments"][0]["links"][0];
    let rate = link["requests_per_second"].as_f64().expect("a rate");
    assert!((rate - 316.8).abs() < 0.1, "{link}");
}

#[test]
fn models_are_listed_and_shown() {
    let scratch = Scratch::new();
    let library = format!("{CONFIGS}/models");
    let done = scratch.run(&["model", "list", &library]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.lines().count() == 40 && done.stdout.contains("Web browsing, 3GPP"), "{}", done.stdout);
    let web = format!("{library}/gensyn-web.toml");
    let shown = scratch.run(&["model", "show", &web, "--users", "1000"]).stdout;
    for text in ["1000 users", "download", "flows-per-hour", "17 pages a session"] {
        assert!(shown.contains(text) && !shown.contains("NOT MET"), "{shown}");
    }
    let dot = scratch.run(&["model", "show", &web, "--dot"]).stdout;
    assert!(dot.starts_with("digraph") && dot.contains("\"read\" -> \"idle\""), "{dot}");
    let svg = scratch.run(&["model", "show", &web, "--svg"]).stdout;
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("hyper-exp 2"), "{svg}");
    let users = ["model", "users", &web, "--link", "100Mbit/s", "--load", "70%"];
    assert!(scratch.run(&users).stdout.contains("70% of 100Mbit/s on the wire"));
    must_fail(&scratch.run(&["model", "show", "none.toml"]), 2, &["none.toml"]);
}
