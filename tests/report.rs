//! `rehearsal report` and `rehearsal runs`, on bundles that the program itself left.

use serde_json::Value;

use crate::support::{CONFIGS, Scratch};

/// A dry run with two repetitions that differ, in `runs/simulated`.
fn simulated(scratch: &Scratch) {
    let file = format!("{CONFIGS}/uav-control.toml");
    let args = ["simulate", &file, "--quiet", "--repetitions", "2", "--duration", "20s", "--out", "runs/simulated"];
    let jitter = ["--set", "links.default.delay=5ms", "--set", "links.default.jitter=1ms"];
    let done = scratch.run(&[&args[..], &jitter].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn repetitions_of_a_dry_run_are_described() {
    let scratch = Scratch::new();
    simulated(&scratch);
    let done = scratch.run(&["report", "runs/simulated"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], "VALID  uav-control simulated: 2 repetitions");
    assert!(done.stdout.contains("cannot be told  where frames are analysed"), "no CPU load without calibration");
    assert!(lines.iter().any(|l| l.contains("the CPU load or the rate is not known in any second")), "{}", done.stdout);

    let report = scratch.run(&["report", "runs/simulated", "--format", "json"]).json();
    let [analysis] = report.as_array().expect("a list").as_slice() else { panic!("{report:#}") };
    assert_eq!((analysis["status"].as_str(), analysis["left_out"].as_u64()), (Some("VALID"), Some(0)));
    let figure = |name: &str| -> &Value {
        let figures = analysis["figures"].as_array().expect("figures");
        figures.iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let duration = figure("duration");
    assert_eq!(
        (duration["n"].as_u64(), duration["mean"].as_f64(), duration["sd"].as_f64()),
        (Some(2), Some(20.0), Some(0.0))
    );
    let rate = figure("rate of receivers");
    assert!((rate["mean"].as_f64().expect("a rate") - 120.0).abs() < 1.0, "four cameras at 30/s: {rate}");
    assert_eq!(figure("lost exchanges")["mean"].as_f64(), Some(0.0));
    let p50 = figure("response p50")["mean"].as_f64().expect("a time");
    assert!(
        (70.0..72.0).contains(&p50),
        "20 ms of analysis, four times 5 ms of link with the handshake, three more round trips until the window has opened \
         for 100 packets, the frame: {p50}"
    );
}

#[test]
fn other_engines_and_settings_are_told_apart() {
    let scratch = Scratch::new();
    simulated(&scratch);
    let file = format!("{CONFIGS}/uav-control.toml");
    scratch.emulate(&file, "runs/emulated", &["--duration", "2s", "--set", "experiment.warmup=0s"]);
    let report = scratch.run(&["report", "runs", "--format", "json"]).json();
    let told: Vec<(&str, usize)> = report
        .as_array()
        .expect("a list")
        .iter()
        .map(|a| (a["engine"].as_str().expect("an engine"), a["bundles"].as_array().expect("folders").len()))
        .collect();
    assert_eq!(told, [("emulated", 1), ("simulated", 2)]);
    let single = &report[0]["figures"][0];
    assert_eq!(
        (single["name"].as_str(), single["sd"].as_f64()),
        (Some("duration"), None),
        "one repetition has no deviation"
    );

    let csv = scratch.run(&["report", "runs", "--format", "csv"]).stdout;
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("experiment,engine,part,row,number,value,unit"));
    assert!(rows.clone().all(|row| row.split(',').count() >= 7), "{csv}");
    assert!(rows.any(|row| row == "uav-control,simulated,figure,duration,mean,20,s"), "{csv}");

    let runs = scratch.run(&["runs", "runs", "--format", "json"]).json();
    let listed: Vec<(&str, u64)> = runs
        .as_array()
        .expect("a list")
        .iter()
        .map(|r| (r["engine"].as_str().expect("an engine"), r["repetitions"].as_u64().expect("a number")))
        .collect();
    assert_eq!(listed, [("simulated", 2), ("emulated", 1)], "the latest last");
    let text = scratch.run(&["runs", "runs"]).stdout;
    assert!(text.lines().next().is_some_and(|head| head.starts_with("verdict")) && text.lines().count() == 3, "{text}");
}

const DATAGRAMS: &str = r#"
[experiment]
name = "datagrams"
duration = "10s"
[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "500/s"
bytes = "1kB"
[nodes.receiver.actors.main]
kind = "receiver"
[links.default]
carrier = "udp"
delay = "10ms"
jitter = "2ms"
loss = "1%"
"#;

#[test]
fn datagrams_are_told_in_the_words_of_the_standards() {
    let scratch = Scratch::new();
    scratch.write("datagrams.toml", DATAGRAMS);
    let bundle = scratch.simulate("datagrams.toml", "run", &[]);
    let report = scratch.run(&["report", "run", "--format", "json"]).json();
    let transfer = &report[0]["datagrams"];
    let (sent, lost) = (bundle.total("datagrams_sent"), bundle.total("lost"));
    assert!(sent == 5000 && lost > 20, "{lost} of {sent} lost");
    assert_eq!((transfer["transmitted"].as_u64(), transfer["lost"].as_u64()), (Some(sent), Some(lost)));
    assert_eq!(transfer["iplr"].as_f64(), Some(lost as f64 / sent as f64));
    let ms = |name: &str| transfer[name].as_f64().unwrap_or_else(|| panic!("no {name}")) / 1e6;
    assert!((10.0..12.0).contains(&ms("iptd_mean_ns")) && (1.9..2.1).contains(&ms("ipdv_ns")), "{transfer}");
    let met = transfer["classes"].as_array().expect("classes").iter().filter(|c| c["held"] == "holds");
    assert_eq!(met.map(|c| c["class"].as_u64().expect("a number")).collect::<Vec<_>>(), [5], "a per cent is too much");
    // the delay is 10 ms and up to 2 ms of jitter
    let stat = |of: &str, stat: &str| transfer[of][stat].as_f64().unwrap_or_else(|| panic!("{transfer}")) / 1e6;
    assert_eq!(transfer["pdv"]["count"].as_u64(), Some(sent - lost));
    assert!((1.9..2.1).contains(&stat("pdv", "max_ns")) && (0.5..1.5).contains(&stat("pdv", "p50_ns")), "{transfer}");
    // a pair counts if both arrived: about 98 of 100
    let pairs = transfer["ipdv"]["count"].as_u64().expect("a number");
    assert!((sent - 1 - 2 * lost..sent - lost).contains(&pairs), "{pairs} pairs");
    assert!(stat("ipdv", "max_ns") <= 2.1 && stat("ipdv", "p50_ns") > 0.1, "{transfer}");
    assert_eq!(transfer["jitter"]["count"].as_u64(), Some(sent - lost - 1));
    // all values between 0 and 2 ms are alike: the mean difference of two is a third of 2 ms
    assert!((0.5..0.85).contains(&stat("jitter", "p50_ns")), "{transfer}");
    let wire = &report[0]["wire"][0];
    assert_eq!((wire["what"].as_str(), wire["header_bytes"].as_f64()), (Some("datagrams"), Some(66.0)));
    // 1000 bytes, 8 of UDP, 58 of IP and Ethernet
    assert_eq!((wire["carrier"].as_str(), wire["frames_per_second"].as_f64()), (Some("udp"), Some(500.0)));
    assert!((wire["wire_mbit_per_second"].as_f64().expect("a rate") - 500.0 * 1066.0 * 8e-6).abs() < 1e-9, "{wire}");
    assert!(scratch.run(&["report", "run"]).stdout.contains("classes of Y.1541 met: 5; not met: 0, 1, 2, 3, 4, 6, 7"));
}

#[test]
fn availability_is_told_where_the_data_allow_it() {
    let scratch = Scratch::new();
    let report = |out: &str| scratch.run(&["report", out, "--format", "json"]).json()[0].take();
    scratch.write("datagrams.toml", DATAGRAMS.replace("500/s", "50/s").replace("10s", "125s"));
    for (loss, available) in [("1%", 2), ("40%", 0)] {
        let out = format!("lost-{available}");
        scratch.simulate("datagrams.toml", &out, &["--set", &format!("links.default.loss={loss}")]);
        let minutes = report(&out)["availability"]["transfer"].take();
        assert_eq!(minutes, serde_json::json!({ "intervals": 2, "available": available }), "{loss} lost");
    }
    scratch.simulate("datagrams.toml", "short", &["--duration", "59s"]);
    assert!(report("short")["availability"]["transfer"].is_null(), "no whole minute");
    let text = scratch.run(&["report", "lost-2", "short"]).stdout;
    assert!(text.contains("availability (ITU-T Y.1540): 2 of 2 whole minutes"), "{text}");
    assert!(text.contains("availability (ITU-T Y.1540): cannot be told without a whole minute"), "{text}");
    assert!(text.contains("one_way beside GTP.DelayDlPsaUpfNgranMean (TS 28.552, 5.1.1.1)"), "{text}");

    // exchanges of 20 ms each, of which the link delays some beyond their timeout
    let service = DATAGRAMS
        .replace("[experiment]", "[experiment]\nrecord_requests = \"100%\"")
        .replace("carrier = \"udp\"\n", "")
        .replace("rate = \"500/s\"", "rate = \"50/s\"\ntimeout = \"50ms\"\nretries = 1\nin_flight = 16");
    scratch.write("service.toml", service);
    let bundle = scratch.simulate("service.toml", "service", &["--set", "links.default.loss=5%"]);
    let services = report("service")["availability"]["services"].take();
    let [service] = services.as_array().expect("a list").as_slice() else { panic!("{services:#}") };
    let (all, missed) = (bundle.total("generated"), bundle.total("generated") - bundle.total("success"));
    assert_eq!((service["sender"].as_str(), service["interval_ns"].as_u64()), (Some("sensor/main"), Some(20_000_000)));
    let none = &service["unforgiving"];
    assert_eq!((none["messages"].as_u64(), none["missed"].as_u64()), (Some(all), Some(missed)));
    assert!(missed > 0 && missed < all, "{missed} of {all}");
    let expected = 1.0 - missed as f64 / all as f64;
    assert!((none["availability"].as_f64().expect("a share") - expected).abs() < 1e-9, "{services:#}");
    assert!(service["one_interval"]["availability"].as_f64() >= none["availability"].as_f64());
    // a part of the exchanges tells nothing of gaps
    scratch.simulate("service.toml", "part", &["--set", "experiment.record_requests=50%"]);
    assert_eq!(report("part")["availability"]["services"], serde_json::json!([]));
}

#[test]
fn jitter_of_responses_is_not_that_of_packets() {
    let scratch = Scratch::new();
    scratch.write("datagrams.toml", DATAGRAMS);
    scratch.simulate("datagrams.toml", "udp", &[]);
    let exchanges = DATAGRAMS.replace("udp", "http1").replace("1%", "0%").replace("500/s\"", "100/s\"\nin_flight = 16");
    scratch.write("exchanges.toml", exchanges);
    scratch.simulate("exchanges.toml", "http", &[]);
    let named = |out: &str| -> Vec<String> {
        let report = scratch.run(&["report", out, "--format", "json"]).json();
        let figures = report[0]["figures"].as_array().expect("figures").clone();
        let names = figures.iter().filter_map(|f| f["name"].as_str()).filter(|name| name.contains("jitter"));
        names.map(str::to_owned).collect()
    };
    assert_eq!(named("udp"), ["datagram jitter p50", "datagram jitter p99"]);
    assert_eq!(named("http"), ["response jitter p50", "response jitter p99"]);
}

#[test]
fn the_page_stands_alone() {
    let scratch = Scratch::new();
    simulated(&scratch);
    let done = scratch.run(&["report", "runs/simulated", "--html", "page.html"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""));
    let page = std::fs::read_to_string(scratch.path("page.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.contains("class=\"verdict VALID\""));
    assert_eq!(
        page.matches("<svg").count(),
        4,
        "throughput, spectrum, delay over time and by share; no CPU load, no memory"
    );
    assert!(!page.contains("<script") && !page.contains("://"), "nothing is fetched");
}

#[test]
fn what_is_no_result_is_refused() {
    let scratch = Scratch::new();
    let told = |args: &[&str]| {
        let done = scratch.run(args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args:?}");
        done.stderr
    };
    assert_eq!(
        told(&["report", "."]),
        "error: . holds no results; name a result folder, or one that holds repetitions\n"
    );
    assert!(told(&["report", "nowhere"]).contains("nowhere cannot be listed"));
    assert!(told(&["runs"]).contains("results cannot be listed"));
    assert!(told(&["report"]).contains("<BUNDLE>"));
    simulated(&scratch);
    assert!(told(&["report", "runs", "--level", "95"]).contains("between 0 and 1, such as 0.95"));
    assert!(told(&["report", "runs", "--html", "no/such/folder.html"]).contains("cannot be written"));
    std::fs::write(scratch.path("runs/simulated/rep-01/series.parquet"), b"nothing").expect("a file");
    assert!(told(&["report", "runs"]).contains("series.parquet is broken"));
}
