//! The senders: how each is called, and what it prints.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::lab::Lab;
use super::super::machine::said;

/// Ours.
pub(super) const OURS: &str = "rehearsal";
/// Exit codes of a run of ours that is over.
const OVER: [i32; 3] = [0, 10, 20];

/// What is asked of a sender.
pub(super) struct Load {
    pub to: SocketAddr,
    pub post: bool,
    pub connections: u32,
    /// Streams of each connection: over HTTP/2.
    pub streams: Option<u32>,
    /// Requests a second; else as many as can be.
    pub rate: Option<u32>,
    pub seconds: u64,
}

impl Load {
    /// Requests that may be under way.
    pub(super) fn under_way(&self) -> u32 {
        self.connections * self.streams.unwrap_or(1)
    }
}

/// A sender that is there.
pub(super) struct Peer {
    pub name: &'static str,
    pub version: String,
    kind: Kind,
    program: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ours,
    Wrk,
    H2load,
    Oha,
    Hey,
    Autocannon,
    Locust { fast: bool },
}

/// Name, program, what makes it tell its version, and how one gets it.
const KNOWN: [(&str, Kind, &str, &str, &str); 7] = [
    ("wrk", Kind::Wrk, "wrk", "-v", "apt-get install wrk"),
    ("h2load", Kind::H2load, "h2load", "--version", "apt-get install nghttp2-client"),
    ("oha", Kind::Oha, "oha", "--version", "cargo install oha"),
    ("hey", Kind::Hey, "hey", "-h", "apt-get install hey"),
    ("autocannon", Kind::Autocannon, "autocannon", "--version", "npm install -g autocannon"),
    ("locust HttpUser", Kind::Locust { fast: false }, "locust", "--version", "pip install locust"),
    ("locust FastHttpUser", Kind::Locust { fast: true }, "locust", "--version", "pip install locust"),
];

/// Every sender that is installed, ours first, and those that are not with the way to get them.
#[expect(clippy::type_complexity, reason = "two lists")]
pub(super) fn find(lab: &Lab, only: &[String]) -> Result<(Vec<Peer>, Vec<(&'static str, &'static str)>)> {
    let version = said(&lab.rehearsal().to_string_lossy(), &["--version"]).unwrap_or_default();
    let mut peers = vec![Peer { name: OURS, version, kind: Kind::Ours, program: lab.rehearsal() }];
    let mut missing = Vec::new();
    for (name, kind, program, flag, how) in KNOWN {
        match which(program) {
            Some(path) => {
                let version = said(program, &[flag]).and_then(|text| text.lines().next().map(str::to_owned));
                let version = version.filter(|text| kind != Kind::Hey && !text.is_empty());
                peers.push(Peer { name, version: version.unwrap_or_else(|| packaged(program)), kind, program: path });
            }
            None => missing.push((name, how)),
        }
    }
    peers.retain(|peer| only.is_empty() || only.iter().any(|name| peer.name.starts_with(name.as_str())));
    for (name, text) in [("post.lua", POST_LUA), ("locustfile.py", LOCUSTFILE), ("body.json", &body())] {
        fs::write(lab.folder.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    Ok((peers, missing))
}

/// The version of the package that a program came with, where it does not tell one itself.
fn packaged(program: &str) -> String {
    let version = said("dpkg-query", &["-W", "-f", "${Version}", program]);
    version.map_or_else(|| "of unknown version".to_owned(), |version| format!("Debian {version}"))
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// 1 kB of JSON, for senders that cannot make one for each request.
fn body() -> String {
    let (front, back) = (r#"{"member":1,"seq":0,"data":""#, r#""}"#);
    format!("{front}{}{back}", "x".repeat(1000 - front.len() - back.len()))
}

/// wrk with a body of its own for each request.
const POST_LUA: &str = r#"-- 1 kB of JSON that differs each time
local n, fill = 0, string.rep("x", 1000)
local headers = { ["content-type"] = "application/json" }
request = function()
  n = n + 1
  local head = '{"member":1,"seq":' .. n .. ',"data":"'
  return wrk.format("POST", "/", headers, head .. string.sub(fill, 1, 998 - #head) .. '"}')
end
"#;

/// Locust with the same.
const LOCUSTFILE: &str = r#""""Closed loops without a pause: GET, or POST of 1 kB of JSON that differs each time."""
import os
from locust import FastHttpUser, HttpUser, constant, task

POST = os.environ["BENCH_POST"] == "1"
BASE = FastHttpUser if os.environ["BENCH_FAST"] == "1" else HttpUser
FILL = "x" * 1000


class User(BASE):
    wait_time = constant(0)
    n = 0

    @task
    def ask(self):
        if not POST:
            self.client.get("/")
            return
        User.n += 1
        head = '{"member":1,"seq":%d,"data":"' % User.n
        body = head + FILL[: 998 - len(head)] + '"}'
        self.client.post("/", data=body, headers={"content-type": "application/json"})
"#;

impl Peer {
    /// Its name in the report's file.
    pub(super) fn key(&self) -> String {
        self.name.to_lowercase().replace(' ', "_")
    }

    /// Whether it can do what is asked.
    pub(super) fn can(&self, load: &Load) -> bool {
        let two = matches!(self.kind, Kind::Ours | Kind::H2load | Kind::Oha);
        let paced = matches!(self.kind, Kind::Ours | Kind::Oha | Kind::Hey | Kind::Autocannon);
        (load.streams.is_none() || two) && (load.rate.is_none() || paced)
    }

    /// Exit codes that are none of an error.
    pub(super) fn codes(&self) -> Vec<i32> {
        // locust ends with 1 if any request failed, which is counted
        match self.kind {
            Kind::Ours => OVER.to_vec(),
            Kind::Locust { .. } => vec![0, 1],
            _ => vec![0],
        }
    }

    /// How it is called.
    pub(super) fn command(&self, lab: &Lab, load: &Load, core: Option<usize>) -> Result<Command> {
        let mut command = lab.command(&self.program, core);
        let url = format!("http://{}/", load.to);
        let (connections, time) = (load.connections.to_string(), format!("{}s", load.seconds));
        let body = lab.folder.join("body.json");
        match self.kind {
            Kind::Ours => ours_asked(&mut command, &url, load),
            Kind::Wrk => {
                command.args(["-t1", "-c", &connections, "-d", &time]);
                if load.post {
                    command.arg("-s").arg(lab.folder.join("post.lua"));
                }
                command.arg(&url);
            }
            Kind::H2load => {
                command.args(["-t1", "-c", &connections, "-D", &load.seconds.to_string()]);
                match load.streams {
                    Some(streams) => command.args(["-m", &streams.to_string()]),
                    None => command.arg("--h1"),
                };
                if load.post {
                    command.arg("-d").arg(&body).args(["-H", "content-type: application/json"]);
                }
                command.arg(&url);
            }
            Kind::Oha => {
                command.args(["--no-tui", "--output-format", "json", "-c", &connections, "-z", &time]);
                if let Some(streams) = load.streams {
                    command.args(["--http2", "-p", &streams.to_string()]);
                }
                if let Some(rate) = load.rate {
                    command.args(["--latency-correction", "-q", &rate.to_string()]);
                }
                if load.post {
                    command.args(["-m", "POST", "-T", "application/json", "-D"]).arg(&body);
                }
                command.arg(&url);
            }
            Kind::Hey => {
                command.args(["-cpus", "1", "-c", &connections, "-z", &time]);
                if let Some(rate) = load.rate {
                    // of each connection
                    command.args(["-q", &(rate / load.connections).max(1).to_string()]);
                }
                if load.post {
                    command.args(["-m", "POST", "-T", "application/json", "-D"]).arg(&body);
                }
                command.arg(&url);
            }
            Kind::Autocannon => {
                command.args(["-j", "-c", &connections, "-d", &load.seconds.to_string()]);
                if let Some(rate) = load.rate {
                    command.args(["-R", &rate.to_string()]);
                }
                if load.post {
                    command.args(["-m", "POST", "-H", "content-type=application/json", "-i"]).arg(&body);
                }
                command.arg(&url);
            }
            Kind::Locust { fast } => {
                command.env("BENCH_POST", u8::from(load.post).to_string());
                command.env("BENCH_FAST", u8::from(fast).to_string());
                command.arg("-f").arg(lab.folder.join("locustfile.py"));
                command.args(["--headless", "--only-summary", "--json", "-H", url.trim_end_matches('/')]);
                command.args(["-u", &connections, "-r", &connections, "-t", &time]);
            }
        }
        Ok(command)
    }

    /// What it says of requests that were answered, and of those that were not.
    pub(super) fn read(&self, stdout: &str, lab: &Lab, name: &str) -> Result<(f64, f64)> {
        let said = match self.kind {
            Kind::Ours => ours(stdout),
            Kind::Wrk => wrk(stdout),
            Kind::H2load => h2load(stdout),
            Kind::Oha => oha(stdout),
            Kind::Hey => hey(stdout),
            Kind::Autocannon => autocannon(stdout),
            Kind::Locust { .. } => locust(stdout),
        };
        said.with_context(|| {
            format!("{} says something else than expected: {}/{name}.out", self.name, lab.folder.display())
        })
    }
}

/// How ours is called.
fn ours_asked(command: &mut Command, url: &str, load: &Load) {
    command.args(["send", url, "--quiet", "--format", "json", "--duration", &format!("{}s", load.seconds)]);
    command.args(["--connections", &load.connections.to_string()]);
    if let Some(streams) = load.streams {
        command.args(["--http", "2", "--streams", &streams.to_string()]);
    }
    if let Some(rate) = load.rate {
        command.args(["--rate", &format!("{rate}/s")]);
    }
    if load.post {
        command.args(["--body-bytes", "1kB"]);
    }
}

fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

fn ours(text: &str) -> Option<(f64, f64)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let success = number(&value, "/summary/total/totals/success")?;
    Some((success, number(&value, "/summary/total/totals/generated")? - success))
}

/// `  123456 requests in 4.00s, 20.1MB read`, and `  Non-2xx or 3xx responses: 5` if there were any.
fn wrk(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    let all: f64 = line.split_whitespace().next()?.parse().ok()?;
    let bad = text.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: ")?.trim().parse().ok());
    let bad: f64 = bad.unwrap_or(0.0);
    Some((all - bad, bad))
}

/// `status codes: 123456 2xx, 0 3xx, 0 4xx, 0 5xx`.
fn h2load(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("status codes: "))?;
    let mut counts = line.split(", ").map(|part| part.split(' ').next()?.parse::<f64>().ok());
    let good = counts.next()??;
    Some((good, counts.flatten().sum()))
}

fn oha(text: &str) -> Option<(f64, f64)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let codes = value.get("statusCodeDistribution")?.as_object()?;
    let of = |good: bool| {
        codes.iter().filter(move |(code, _)| code.starts_with('2') == good).filter_map(|(_, n)| n.as_f64())
    };
    Some((of(true).sum(), of(false).sum()))
}

/// `  [200] 123456 responses`.
fn hey(text: &str) -> Option<(f64, f64)> {
    let codes = text.lines().filter_map(|line| {
        let (code, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        Some((code.starts_with('2'), rest.trim().strip_suffix(" responses")?.parse::<f64>().ok()?))
    });
    let codes: Vec<(bool, f64)> = codes.collect();
    let of = |good: bool| codes.iter().filter(|(is, _)| *is == good).map(|(_, n)| n).sum();
    (!codes.is_empty()).then(|| (of(true), of(false)))
}

fn autocannon(text: &str) -> Option<(f64, f64)> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some((number(&value, "/2xx")?, number(&value, "/non2xx")? + number(&value, "/errors")?))
}

fn locust(text: &str) -> Option<(f64, f64)> {
    let start = text.find('[')?;
    let value: Value = serde_json::from_str(&text[start..]).ok()?;
    let one = value.as_array()?.first()?;
    let failed = number(one, "/num_failures")?;
    Some((number(one, "/num_requests")? - failed, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_print_is_read() {
        let text = "Running 4s test\n  12 requests in 4.00s, 1MB read\n  Non-2xx or 3xx responses: 2\n";
        assert_eq!(wrk(text), Some((10.0, 2.0)));
        assert_eq!(wrk("  12 requests in 4.00s, 1MB read\n"), Some((12.0, 0.0)));
        assert_eq!(h2load("status codes: 90 2xx, 0 3xx, 1 4xx, 2 5xx\n"), Some((90.0, 3.0)));
        assert_eq!(hey("Status code distribution:\n  [200]\t77 responses\n  [503]\t3 responses\n"), Some((77.0, 3.0)));
        assert_eq!(oha(r#"{"statusCodeDistribution":{"200":5,"404":1}}"#), Some((5.0, 1.0)));
        assert_eq!(autocannon(r#"{"2xx":9,"non2xx":1,"errors":2}"#), Some((9.0, 3.0)));
        assert_eq!(locust("warning\n[{\"num_requests\":8,\"num_failures\":1}]"), Some((7.0, 1.0)));
        assert_eq!(ours(r#"{"summary":{"total":{"totals":{"success":4,"generated":5}}}}"#), Some((4.0, 1.0)));
        for none in ["", "nothing", "{}"] {
            assert_eq!([wrk(none), h2load(none), hey(none), oha(none), autocannon(none), locust(none)], [None; 6]);
        }
    }

    #[test]
    fn the_body_is_as_long_as_the_others() {
        assert_eq!(body().len(), 1000);
        assert!(serde_json::from_str::<Value>(&body()).is_ok());
    }
}
