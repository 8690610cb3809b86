//! What users do in a sweep: voice of two sizes, and GenSyn's models of constant bit rate and video.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::lab::Lab;
use super::{PORTS, Part};

/// Load of a telephone user, erlang. Source: GenSyn's knees.
const ERLANG: f64 = 0.03;

/// A kind of user, and how far a sweep goes.
pub(super) struct Load {
    pub part: Part,
    pub key: &'static str,
    pub label: &'static str,
    pub source: Source,
    /// Packets a second at step 1 of a sweep.
    pub top: f64,
    /// Whether so many are aimed at.
    pub is_goal: bool,
    pub gensyn: &'static str,
}

/// Where packets come from.
pub(super) enum Source {
    /// A call without silence suppression, whose users call as GenSyn's do.
    Voice { bytes: u32, every_ms: u32 },
    /// A model of `configs/models`, and its module.
    Model { name: &'static str, module: &'static str },
}

pub(super) const LOADS: [Load; 4] = [
    Load {
        part: Part::Voice,
        key: "voice",
        label: "100 B every 100 ms",
        source: Source::Voice { bytes: 100, every_ms: 100 },
        top: 300_000.0,
        is_goal: true,
        gensyn: "GenSyn's knee: 2,400 packets/s of 8,000 users, on a machine of 2001",
    },
    Load {
        part: Part::Small,
        key: "small",
        label: "10 B every 10 ms",
        source: Source::Voice { bytes: 10, every_ms: 10 },
        top: 500_000.0,
        is_goal: true,
        gensyn: "GenSyn's knee: 8,500 packets/s of 3,000 users, on a machine of 2001",
    },
    Load {
        part: Part::Cbr,
        key: "cbr",
        label: "1024 B every 125 ms",
        source: Source::Model { name: "gensyn-cbr", module: "stream" },
        top: 300_000.0,
        is_goal: false,
        gensyn: "GenSyn's knee: 3,000 packets/s, on a machine of 2001",
    },
    Load {
        part: Part::Mpeg,
        key: "mpeg",
        label: "MPEG, 2.7 packets of 1024 B every 40 ms",
        source: Source::Model { name: "gensyn-mpeg", module: "video" },
        top: 500_000.0,
        is_goal: false,
        gensyn: "GenSyn tells no knee of it",
    },
];

impl Load {
    /// Packets a second that one user offers in the long run.
    pub fn rate(&self, lab: &Lab) -> Result<f64> {
        match self.source {
            Source::Voice { every_ms, .. } => Ok(ERLANG * 1000.0 / f64::from(every_ms)),
            Source::Model { name, module } => {
                let (program, file) = (lab.rehearsal(), model(&lab.root, name));
                let said = Command::new(program).args(["model", "show"]).arg(&file).output();
                let said = said.with_context(|| format!("rehearsal model show {}", file.display()))?;
                let text = String::from_utf8_lossy(&said.stdout);
                packets(&text, module).with_context(|| format!("packets/s of {module} in:\n{text}"))
            }
        }
    }

    /// The experiment of so many users.
    pub fn experiment(&self, lab: &Lab, users: u32, seconds: u64, listen: &str) -> Result<String> {
        let diagram = match self.source {
            Source::Voice { bytes, every_ms } => voice(bytes, every_ms),
            Source::Model { name, .. } => {
                // beside the experiment that names it
                let copy = format!("users-{name}-model.toml");
                fs::copy(model(&lab.root, name), lab.folder.join(&copy)).with_context(|| copy.clone())?;
                format!("model = \"{copy}\"\n")
            }
        };
        Ok(experiment(users, seconds, listen, &diagram))
    }
}

fn model(root: &Path, name: &str) -> PathBuf {
    root.join("configs/models").join(name).with_extension("toml")
}

/// `video   0.001667   67.6468   450.07 kbit/s`: flows, then packets a second, of one user.
fn packets(text: &str, module: &str) -> Option<f64> {
    let table = text.lines().skip_while(|line| !line.starts_with("module"));
    let row = table.map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| row.first() == Some(&module))?;
    row.get(2)?.parse().ok()
}

/// Users of 0.03 erlang.
pub(super) fn voice(bytes: u32, every_ms: u32) -> String {
    format!(
        r#"
[nodes.phones.actors.main.diagram.states]
idle = {{ stay = {{ dist = "exponential", mean = "97min" }}, to = {{ call = 1 }} }}
call = {{ module = "voice", to = {{ idle = 1 }} }}

[nodes.phones.actors.main.diagram.modules.voice]
kind = "cbr"
bytes = "{bytes}B"
every = "{every_ms}ms"
lasts = {{ dist = "exponential", mean = "180s" }}
"#
    )
}

/// An experiment of users who send to one receiver; `diagram` is the rest of their keys.
pub(super) fn experiment(users: u32, seconds: u64, listen: &str, diagram: &str) -> String {
    format!(
        r#"# Users who send datagrams from a thousand ports to one receiver.
[experiment]
name = "bench-users"
duration = "{seconds}s"
# a thousand sockets are opened in the first second: lags are of those after it, packets of all
warmup = "1s"

[nodes.phones.actors.main]
kind = "population"
to = "exchange/main"
users = {users}
ports = {PORTS}
{diagram}
[nodes.exchange.actors.main]
kind = "receiver"
listen = "{listen}"

[links.default]
carrier = "udp"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_the_users_that_they_are_told_for() {
        let rate = |load: &Load| match load.source {
            Source::Voice { every_ms, .. } => ERLANG * 1000.0 / f64::from(every_ms),
            Source::Model { .. } => 0.0,
        };
        // a million users of 0.03 erlang at ten packets a second
        assert_eq!((LOADS[0].top / rate(&LOADS[0])).round(), 1e6);
        assert!((rate(&LOADS[1]) - 3.0).abs() < 1e-9);
        let text = experiment(1_000_000, 5, "127.0.0.1:9", &voice(100, 100));
        assert!(text.contains("users = 1000000\nports = 1000") && text.contains("every = \"100ms\""), "{text}");
    }

    #[test]
    fn a_rate_is_read_from_the_table_of_modules() {
        let text =
            "state users\nvideo 1.0 0.0016\n\nmodule  flows/s  packets/s  payload\nvideo 0.001667 67.6468 450 kbit/s\n";
        assert_eq!(packets(text, "video"), Some(67.6468));
        assert_eq!(packets(text, "voice"), None);
    }
}
