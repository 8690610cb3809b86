//! Every kind of module in one run of each engine: what is paced sends the same packets, what waits for answers gets them; stays
//! of several phases and users who give up are walked alike.

use crate::support::{Bundle, Scratch, beside};

/// Actors of five users each, whose module is one of these: name, keys.
fn experiment(modules: &[(&str, &str)], link: &str) -> String {
    let mut text = format!(
        "[experiment]\nname = \"modules\"\nduration = \"3s\"\n[nodes.r.actors.main]\nkind = \"receiver\"\nworkers = 64\n\
         [links.default]\ndelay = \"1ms\"\nimpose = \"userspace\"\n{link}\n"
    );
    for (name, keys) in modules {
        text += &format!(
            r#"[nodes.u.actors.{name}]
kind = "population"
to = "r/main"
users = 5
[nodes.u.actors.{name}.diagram]
start = {{ first = 1 }}
[nodes.u.actors.{name}.diagram.states]
first = {{ hyper = [{{ share = 0.3, mean = "50ms" }}, {{ share = 0.7, mean = "20ms" }}], to = {{ second = 1 }} }}
second = {{ coxian = [{{ mean = "10ms", on = 0.5 }}, {{ mean = "20ms", on = 0 }}], to = {{ third = 1 }} }}
third = {{ hypo = ["10ms", "5ms"], to = {{ acts = 0.9, first = 0.1 }} }}
acts = {{ module = "m", impatience = {{ dist = "exponential", mean = "900ms" }}, to = {{ first = 1 }}, impatient = {{ third = 1 }} }}
[nodes.u.actors.{name}.diagram.modules.m]
{keys}
"#
        );
    }
    text
}

fn count(bundle: &Bundle, actor: &str, name: &str) -> u64 {
    let groups = bundle.summary["groups"].as_array().expect("groups");
    let group = groups.iter().find(|group| group["actor"] == actor && group["node"] == "u");
    let group = group.unwrap_or_else(|| panic!("no {actor} in {groups:?}"));
    group[name].as_u64().or(group["counts"][name].as_u64()).unwrap_or(0)
}

#[test]
fn what_is_paced_is_the_same_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    let lasts = "lasts = { dist = \"exponential\", mean = \"600ms\" }";
    let spurts =
        "talk = { dist = \"exponential\", mean = \"200ms\" }\nsilence = { dist = \"exponential\", mean = \"300ms\" }";
    let size = |bytes| {
        format!("{{ dist = \"lognormal\", mean = \"{bytes}\", cv = 0.5, max = \"64kB\", truncate = \"clamp\" }}")
    };
    let all = [
        ("cbr", format!("kind = \"cbr\"\nevery = \"20ms\"\ncycle = [\"160B\", \"320B\"]\n{lasts}")),
        (
            "drawn",
            format!(
                "kind = \"drawn\"\ngaps = {{ dist = \"exponential\", mean = \"30ms\" }}\nsizes = {}\ncount = 20",
                size("2kB")
            ),
        ),
        ("g711", format!("kind = \"voip\"\ncodec = \"g711\"\n{lasts}\n{spurts}")),
        ("g729", format!("kind = \"voip\"\ncodec = \"g729\"\n{lasts}\n{spurts}")),
        ("amr", format!("kind = \"voip\"\ncodec = \"amr12.2\"\n{lasts}\n{spurts}")),
        (
            "video",
            format!(
                "kind = \"video\"\nevery = \"40ms\"\ngop = \"IBBPBB\"\ni = {}\np = {}\nb = {}\npacket = \"1024B\"\nemission = \"spread\"\n{lasts}",
                size("6kB"),
                size("3kB"),
                size("1kB")
            ),
        ),
        ("gbar", format!("kind = \"gbar\"\nevery = \"40ms\"\nbytes = \"3kB\"\ncv = 0.5\ncorrelation = 0.9\n{lasts}")),
        (
            "trace",
            format!("kind = \"trace\"\nevery = \"40ms\"\nbits = [8000, 32000, 0, 24000]\npacket = \"1024B\"\n{lasts}"),
        ),
    ];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, keys)| (*name, keys.as_str())).collect();
    scratch.write("trial.toml", experiment(&all, "carrier = \"udp\""));
    let [dry, real] = scratch.both("trial.toml", "paced", &[]);
    assert_eq!(dry.schedule(), real.schedule());
    for (actor, _) in all {
        for name in ["flows", "flows_given_up", "transitions"] {
            let [dry, real] = [&dry, &real].map(|bundle| count(bundle, actor, name));
            assert!(dry > 0 && dry == real, "{actor} {name}: {dry} dry, {real} for real");
        }
    }
}

#[test]
fn what_waits_for_answers_gets_them_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    let size = |bytes: &str| format!("{{ dist = \"constant\", value = \"{bytes}\" }}");
    let all = [
        (
            "web",
            format!("kind = \"web\"\nmain = {}\nembedded = {}\nobjects = {{ dist = \"constant\", value = 4 }}\nparallel = 2", size("10kB"), size("3kB")),
        ),
        ("down", "kind = \"file\"\nbytes = \"50kB\"".to_owned()),
        ("up", "kind = \"file\"\nbytes = \"50kB\"\ndirection = \"up\"".to_owned()),
        ("film", "kind = \"dash\"\nladder = [\"400kbit/s\", \"1Mbit/s\"]\nsegment = \"200ms\"\nbuffer = \"400ms\"\ncount = 4".to_owned()),
    ];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, keys)| (*name, keys.as_str())).collect();
    for carrier in ["http1", "http2", "http3"] {
        scratch.write("trial.toml", experiment(&all, &format!("carrier = \"{carrier}\"")));
        for bundle in scratch.both("trial.toml", carrier, &[]) {
            for (actor, _) in &all {
                let (done, failed) = (count(&bundle, actor, "flows_done"), count(&bundle, actor, "flows_failed"));
                assert!(done > 10 && failed == 0, "{carrier} {actor}: {done} done, {failed} failed");
            }
        }
    }
}
