//! Users of populations: both engines agree within stated bounds, reports tell what users got, sweeps where it is too much, and
//! programs that are not ours see the same.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Bundle, CONFIGS, Running, Scratch, alone, beside, free_port, until};

/// Bounds within which a dry run and a real run of the same users agree, as shares. What is offered over UDP is the same to the
/// packet. Pages are drawn in the order of answers, so they agree as two samples of one law do; times by what a machine adds.
const OFFERED: f64 = 0.1;
const ACHIEVED: f64 = 0.1;
const DELAY: f64 = 0.25;

/// Users of one module, who rest for half a second in between.
fn users(count: u32, keys: &str, module: &str, link: &str) -> String {
    format!(
        "[experiment]\nname = \"users\"\nduration = \"6s\"\n\
         [nodes.u.actors.main]\nkind = \"population\"\nto = \"r/main\"\nusers = {count}\n{keys}\n\
         [nodes.u.actors.main.diagram.states]\n\
         rest = {{ stay = {{ dist = \"exponential\", mean = \"500ms\" }}, to = {{ act = 1 }} }}\n\
         act = {{ module = \"m\", to = {{ rest = 1 }} }}\n\
         [nodes.u.actors.main.diagram.modules.m]\n{module}\n\
         [nodes.r.actors.main]\nkind = \"receiver\"\nworkers = 64\n\
         [links.default]\n{link}\n"
    )
}

fn near(what: &str, dry: f64, real: f64, share: f64) {
    assert!(
        dry > 0.0 && (real / dry - 1.0).abs() <= share,
        "{what}: {dry} dry, {real} for real, more than {share} apart"
    );
}

#[test]
fn engines_agree_about_voice_and_web_within_stated_bounds() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let voice = "kind = \"voip\"\ncodec = \"g729\"\nlasts = { dist = \"exponential\", mean = \"1s\" }\n\
                 talk = { dist = \"exponential\", mean = \"352ms\" }\nsilence = { dist = \"exponential\", mean = \"648ms\" }";
    let link = "carrier = \"udp\"\ndelay = \"40ms\"\nloss = \"5%\"\nimpose = \"userspace\"";
    scratch.write("voice.toml", users(100, "ports = 8", voice, link));
    let [dry, real] = scratch.both("voice.toml", "voice", &[]);
    assert_eq!(dry.schedule(), real.schedule(), "offered: the same packets at the same times");
    near("voice that arrives", dry.total("success") as f64, real.total("success") as f64, ACHIEVED);
    near("delay of voice", dry.ns("one-way", "p50") as f64, real.ns("one-way", "p50") as f64, DELAY);
    near("users in calls", in_state(&dry, "act"), in_state(&real, "act"), 0.02);

    let page = "kind = \"web\"\nmain = { dist = \"lognormal\", median = \"4kB\", sigma = 1, max = \"100kB\", truncate = \"clamp\" }\n\
                embedded = { dist = \"constant\", value = \"2kB\" }\nobjects = { dist = \"constant\", value = 5 }\n\
                parsing = { dist = \"exponential\", mean = \"50ms\" }";
    let link = "delay = \"30ms\"\nrate = \"100Mbit/s\"\nimpose = \"userspace\"";
    // the first connections are slow: their handshakes, and windows that open
    let text = users(100, "", page, link).replacen("duration", "warmup = \"2s\"\nduration", 1);
    scratch.write("web.toml", text);
    let [dry, real] = scratch.both("web.toml", "web", &[]);
    near("objects that are asked for", dry.total("generated") as f64, real.total("generated") as f64, OFFERED);
    near("objects that come", dry.total("success") as f64, real.total("success") as f64, ACHIEVED);
    near("time of an object", dry.ns("response", "p50") as f64, real.ns("response", "p50") as f64, DELAY);
    near("users who load", in_state(&dry, "act"), in_state(&real, "act"), DELAY);
}

/// Mean users in a state.
fn in_state(bundle: &Bundle, state: &str) -> f64 {
    let counts = &bundle.summary["total"]["counts"];
    let ms = counts[format!("users_in.{state}.ms")].as_f64().unwrap_or_else(|| panic!("no {state} in {counts}"));
    ms / 1e3 / bundle.summary["duration_seconds"].as_f64().expect("a duration")
}

#[test]
fn a_report_tells_of_states_speech_and_memory() {
    let scratch = Scratch::new();
    let voice = "kind = \"voip\"\ncodec = \"g711\"\nlasts = { dist = \"exponential\", mean = \"1500ms\" }";
    let link = "carrier = \"udp\"\ndelay = \"50ms\"\nloss = \"2%\"";
    scratch.write("voice.toml", users(40, "dscp = \"EF\"", voice, link));
    let run = scratch.simulate("voice.toml", "run", &["--duration", "400s"]);
    // 1.5 s of every two in a call
    assert!((in_state(&run, "act") - 30.0).abs() < 0.6 && (in_state(&run, "rest") - 10.0).abs() < 0.6);
    let counts = &run.summary["total"]["counts"];
    assert_eq!(counts["users_in.act.expected_ms"].as_u64(), Some(12_000_000), "{counts}");

    let done = scratch.run(&["report", "run"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for text in
        ["u/main m", "g711", "mouth to ear", "EF", "one-way", "by the model", "Hurst parameter of the senders' rate"]
    {
        assert!(done.stdout.contains(text), "no {text}: {}", done.stdout);
    }
    let report = scratch.run(&["report", "run", "--format", "json", "--playout", "40ms"]).json();
    let users = &report[0]["users"];
    let voice = &users["voice"][0];
    let number = |key: &str| voice[key].as_f64().unwrap_or_else(|| panic!("no {key}: {voice}"));
    // 20 ms of speech, 50 ms of way, 40 ms of buffer
    assert!((number("mouth_to_ear_ms") - 110.0).abs() < 0.2, "{voice}");
    assert!((number("lost") - 0.02).abs() < 0.003 && number("late") == 0.0, "{voice}");
    // G.711 with 2 % lost: 95 · 2 / 27.1 = 7.0
    assert!((93.2 - number("rating") - 7.0).abs() < 1.0, "{voice}");
    let memory = &users["memory"][0];
    let end = |key: &str| memory["interval"][key].as_f64().unwrap_or_else(|| panic!("no {key}: {memory}"));
    assert!(end("lower") < 0.55 && end("upper") < 0.85, "calls of exponential length have no long memory: {memory}");
    let page = scratch.run(&["report", "run", "--html", "page.html"]);
    assert_eq!(page.code, Some(0), "{}", page.stderr);
    let page = fs::read_to_string(scratch.path("page.html")).expect("a page");
    for title in ["Delay over time, by class", "Distribution of delay, by class", "Variance over time", "opinion score"]
    {
        assert!(page.contains(title), "no {title}");
    }
    let short = scratch.run(&["report", "run", "--playout", "40"]);
    assert!(short.code == Some(2) && short.stderr.contains("--playout 40"), "{}", short.stderr);
}

#[test]
fn a_sweep_tells_its_knee() {
    let scratch = Scratch::new();
    let voice =
        "kind = \"cbr\"\nbytes = \"100B\"\nevery = \"20ms\"\nlasts = { dist = \"exponential\", mean = \"500ms\" }";
    // 25 packets/s and user, 166 B each on the wire: 120 users fill it
    let link = "carrier = \"udp\"\nrate = \"3984kbit/s\"\nqueue = \"5kB\"";
    scratch.write("trial.toml", users(10, "", voice, link));
    let text =
        "[sweep]\nexperiment = \"trial.toml\"\n[grid]\n\"nodes.u.actors.main.users\" = [40, 80, 100, 140, 200]\n";
    scratch.write("sweep.toml", text);
    let done = scratch.run(&["sweep", "sweep.toml", "--out", "out", "--quiet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        done.stdout.contains("knee along nodes.u.actors.main.users: between 100 and 140, about 1"),
        "{}",
        done.stdout
    );
    let knees: Value =
        serde_json::from_slice(&fs::read(scratch.path("out/knees.json")).expect("a file")).expect("JSON");
    let [line] = knees.as_array().expect("a list").as_slice() else { panic!("{knees:#}") };
    let (at, ceiling) = (line["at"].as_f64().expect("a knee"), line["knee"]["ceiling"].as_f64().expect("a ceiling"));
    assert!((100.0..140.0).contains(&at) && (ceiling / 3000.0 - 1.0).abs() < 0.03, "{line:#}");
    assert_eq!(line["points"].as_array().map(Vec::len), Some(5));
}

#[test]
fn flags_of_a_quality_may_stand_in_the_environment() {
    let scratch = Scratch::new();
    let model = format!("{CONFIGS}/models/voip-g711.toml");
    let mut command = scratch.command(crate::support::PROGRAM, &["model", "quality", &model]);
    command.env("REHEARSAL_DELAY", "50ms").env("REHEARSAL_LOSS", "0%");
    let done = Running::spawn(command).wait();
    assert!(done.code == Some(0) && done.stdout.contains("R 93.2"), "{done:?}");
}

/// Whether a program is there.
fn there(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|done| done.status.success())
}

/// tshark finds speech by itself, without being told of ports, and says of its jitter and losses what the bundle says.
#[test]
fn speech_is_rtp_to_others() {
    let _busy = beside();
    if !rustix::process::geteuid().is_root() || !there("tcpdump", &["--version"]) || !there("tshark", &["--version"]) {
        eprintln!("skipped: it needs root, tcpdump and tshark");
        return;
    }
    let (scratch, port) = (Scratch::new(), free_port());
    let text = format!(
        "[experiment]\nname = \"rtp\"\nduration = \"10s\"\n\
         [nodes.u.actors.main]\nkind = \"population\"\nto = \"r/main\"\nusers = 4\nmode = \"individual\"\nports = 2\n\
         [nodes.u.actors.main.diagram.states]\ncall = {{ module = \"m\", to = {{ call = 1 }} }}\n\
         [nodes.u.actors.main.diagram.modules.m]\nkind = \"voip\"\ncodec = \"g729\"\n\
         lasts = {{ dist = \"exponential\", mean = \"100h\" }}\n\
         [nodes.r.actors.main]\nkind = \"receiver\"\nlisten = \"127.0.0.1:{port}\"\n\
         [links.default]\ncarrier = \"udp\"\ndelay = \"30ms\"\njitter = \"6ms\"\nloss = \"3%\"\nimpose = \"userspace\"\n"
    );
    scratch.write("trial.toml", text);
    let filter = format!("udp dst port {port}");
    let words = ["-i", "lo", "-n", "--immediate-mode", "-U", "-Z", "root", "-w", "lo.pcap", &filter];
    let recorder = Running::spawn(scratch.command("tcpdump", &words));
    until("it records", || fs::metadata(scratch.path("lo.pcap")).is_ok());
    thread::sleep(Duration::from_millis(300));
    let bundle = scratch.emulate("trial.toml", "b", &[]);
    thread::sleep(Duration::from_millis(300));
    recorder.signal(Signal::INT);
    recorder.wait();

    let (sent, lost) = (bundle.total("datagrams_sent"), bundle.total("lost"));
    assert!(sent > 1900 && lost > 20, "{sent} sent, {lost} lost");
    let shark = |more: &[&str]| {
        let words = [&["-n", "-r", "lo.pcap", "--enable-heuristic", "rtp_udp"], more].concat();
        let done = Running::spawn(scratch.command("tshark", &words)).wait();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let types = shark(&["-Y", "rtp", "-T", "fields", "-e", "rtp.p_type"]);
    assert_eq!(types.lines().filter(|line| *line == "18").count() as u64, sent - lost, "all of it is G.729 in RTP");
    let told = shark(&["-q", "-z", "rtp,streams"]);
    let streams: Vec<Vec<&str>> =
        told.lines().filter(|line| line.contains("0x")).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(streams.len(), 4, "{told}");
    let sum = |column: usize| -> f64 {
        let cell = |row: &Vec<&str>| row[column].parse::<f64>().unwrap_or_else(|why| panic!("{why}: {row:?}"));
        streams.iter().map(cell).sum()
    };
    // start, end, source, port, target, port, SSRC, payload, packets, lost, (share), delta ×3, jitter ×3
    let (packets, missing) = (sum(8) as u64, sum(9) as u64);
    assert_eq!(packets, sent - lost, "{told}");
    // what is lost at the end of a stream nobody misses who only listens
    assert!(missing <= lost && missing + 4 >= lost, "{missing} missing, {lost} lost: {told}");
    let weighted: f64 =
        streams.iter().map(|row| row[15].parse::<f64>().unwrap_or(0.0) * row[8].parse::<f64>().unwrap_or(0.0)).sum();
    let (theirs, ours) = (weighted / packets as f64, jitter_ms(&bundle));
    assert!((theirs / ours - 1.0).abs() < 0.1, "jitter: tshark says {theirs} ms, the bundle {ours} ms: {told}");
}

/// The mean of the receiver's estimates.
fn jitter_ms(bundle: &Bundle) -> f64 {
    let groups = bundle.summary["groups"].as_array().expect("groups");
    let receiver = groups.iter().find(|group| group["role"] == "receiver").expect("a receiver");
    receiver["metrics"]["jitter"]["mean_ns"].as_f64().expect("jitter") / 1e6
}

/// Users fetch pages from a server that is not ours, which counts what it gave.
#[test]
fn pages_are_fetched_from_nginx() {
    let _busy = beside();
    let nginx = ["nginx", "/usr/sbin/nginx"].into_iter().find(|program| there(program, &["-v"]));
    let Some(nginx) = nginx else {
        eprintln!("skipped: there is no nginx");
        return;
    };
    let (scratch, port) = (Scratch::new(), free_port());
    let folder = scratch.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
        .concat();
    scratch.write(
        "nginx.conf",
        format!(
            "{user}\ndaemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\n\
             events {{}}\nhttp {{\n{temporary}log_format plain '$status $body_bytes_sent $request_uri';\n\
             access_log {folder}/access.log plain;\nkeepalive_requests 1000000;\n\
             server {{ listen 127.0.0.1:{port}; root {folder}; }}\n}}\n"
        ),
    );
    scratch.write("object.bin", vec![b'x'; 20_000]);
    let mut command =
        scratch.command(nginx, &["-c", &format!("{folder}/nginx.conf"), "-e", &format!("{folder}/error.log")]);
    command.env_remove("NGINX");
    let server = Running::spawn(command);
    until("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let text = format!(
        "[experiment]\nname = \"pages\"\nduration = \"3s\"\n\
         [nodes.u.actors.main]\nkind = \"population\"\nto = \"http://127.0.0.1:{port}\"\nusers = 20\n\
         [nodes.u.actors.main.request]\nmethod = \"GET\"\npath = \"/object.bin\"\n\
         [nodes.u.actors.main.diagram.states]\n\
         rest = {{ stay = {{ dist = \"exponential\", mean = \"500ms\" }}, to = {{ act = 1 }} }}\n\
         act = {{ module = \"m\", to = {{ rest = 1 }} }}\n\
         [nodes.u.actors.main.diagram.modules.m]\nkind = \"web\"\nmain = {{ dist = \"constant\", value = \"20kB\" }}\n\
         embedded = {{ dist = \"constant\", value = \"20kB\" }}\nobjects = {{ dist = \"constant\", value = 4 }}\n"
    );
    scratch.write("trial.toml", text);
    let bundle = scratch.emulate("trial.toml", "b", &[]);
    server.signal(Signal::QUIT);
    server.wait();
    let log = fs::read_to_string(scratch.path("access.log")).expect("what nginx gave");
    let given = log.lines().filter(|line| *line == "200 20000 /object.bin").count() as u64;
    let success = bundle.total("success");
    assert!(success > 200, "{success} of {}", bundle.total("generated"));
    assert!(given >= success && given <= bundle.total("attempts"), "nginx gave {given}, {success} came");
    assert!(bundle.total("bytes_replied") >= 20_000 * success, "whole objects came");
    assert_eq!(bundle.total("failed") + bundle.total("lost") + bundle.total("invalid"), 0);
    let counts = &bundle.summary["total"]["counts"];
    let (pages, whole) = (counts["flows"].as_u64().expect("pages"), counts["flows_done"].as_u64().expect("pages"));
    assert!(whole >= 50 && success >= 5 * whole && success <= 5 * pages, "{success} objects, {whole} of {pages} pages");
}
