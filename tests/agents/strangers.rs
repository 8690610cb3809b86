//! Who is not this program: the tools of NATS find agents, and what they say wrongly harms nobody.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::Fleet;
use crate::support::beside;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one more than expected is waited for.
const SURPLUS: Duration = Duration::from_millis(100);

/// A client that speaks the protocol by hand: sends `payload` to `subject`, and gives what comes back. It waits for as
/// many answers as are `expected`, and for one more.
fn ask(url: &str, subject: &str, payload: &str, expected: usize) -> Vec<String> {
    let stream = TcpStream::connect(url.strip_prefix("nats://").expect("a URL")).expect("the server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut writer = stream.try_clone().expect("a second handle");
    let hello = "CONNECT {\"verbose\":false,\"no_responders\":true,\"headers\":true}\r\nSUB answers 1\r\n";
    let ask = format!("PUB {subject} answers {}\r\n{payload}\r\n", payload.len());
    writer.write_all(hello.as_bytes()).and_then(|()| writer.write_all(ask.as_bytes())).expect("it listens");
    let mut lines = BufReader::new(stream).split(b'\n');
    let mut answers = Vec::new();
    while let Some(Ok(line)) = lines.next() {
        if line.starts_with(b"MSG") || line.starts_with(b"HMSG") {
            let body = lines.next().and_then(Result::ok).unwrap_or_default();
            answers.push(String::from_utf8_lossy(&body).into_owned());
            if answers.len() == expected {
                writer.set_read_timeout(Some(SURPLUS)).expect("a timeout");
            }
        }
    }
    answers
}

#[test]
fn the_services_api_lists_agents_with_what_they_are() {
    let _busy = beside();
    let Some(fleet) = Fleet::new(&[&["--labels", "rack=a"], &["--cores", "1"]]) else { return };
    for verb in ["PING", "INFO", "STATS"] {
        let answers = ask(&fleet.url, &format!("$SRV.{verb}.rehearsal-agent"), "", 2);
        assert_eq!(answers.len(), 2, "{verb}: {answers:?}");
    }
    let mut infos: Vec<serde_json::Value> =
        ask(&fleet.url, "$SRV.INFO", "", 2).iter().map(|text| serde_json::from_str(text).expect(text)).collect();
    infos.sort_by_key(|info| info["metadata"]["name"].to_string());
    assert_eq!(infos[0]["metadata"]["labels"], "rack=a");
    assert_eq!(infos[1]["metadata"]["cores"], "1");
    let subjects: Vec<&str> =
        infos[0]["endpoints"].as_array().expect("endpoints").iter().filter_map(|e| e["subject"].as_str()).collect();
    for step in ["scan", "reserve", "launch", "status", "stop", "collect", "release"] {
        assert!(subjects.contains(&format!("lab.v1.fleet.ctl.a1.{step}").as_str()), "{step}: {subjects:?}");
    }
}

#[test]
fn garbage_is_refused_and_the_agent_goes_on() {
    let _busy = beside();
    let Some(mut fleet) = Fleet::new(&[&[]]) else { return };
    for step in ["scan", "reserve", "launch", "status", "restart", "stop", "collect", "release", "clock"] {
        for payload in ["", "garbage", "\u{1}\u{2}", &"x".repeat(100_000)] {
            let answers = ask(&fleet.url, &format!("lab.v1.fleet.ctl.a1.{step}"), payload, 1);
            assert_eq!(answers.len(), 1, "{step}: {answers:?}");
        }
    }
    assert_eq!(fleet.cards().len(), 1);
    assert!(fleet.agents[0].runs() && fleet.is_free());
}
