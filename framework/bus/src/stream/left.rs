//! Streams that runs left: a leader that was killed, or ended by a second signal, takes its stream away no more. Whoever
//! leads the next run over the server does.

use std::time::{Duration, SystemTime};

use async_nats::datetime::parse_rfc3339;
use bytes::Bytes;
use rehearsal_core::subject::PREFIX;
use serde::Deserialize;

use super::{ANSWER, STREAM};
use crate::nats::Nats;

/// A stream that is older, and had no message for as long, is left over: a run that goes on has one every second.
const AGE: Duration = Duration::from_secs(60 * 60);
/// Streams that are looked at: what the server lists in one answer. What is beyond is found by the next run.
const LISTED_MAX: usize = 256;
/// The server's list of streams with what they hold.
const LIST: &str = "$JS.API.STREAM.LIST";
/// Deletes the stream that is named behind it.
const DELETE: &str = "$JS.API.STREAM.DELETE";

/// The server's answer, as far as it is needed.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    streams: Vec<Listed>,
}

/// A stream. Times are the server's, RFC 3339; this host's clock may differ from them.
#[derive(Deserialize)]
struct Listed {
    config: Config,
    created: String,
    state: State,
    /// When the answer was made.
    ts: String,
}

#[derive(Deserialize)]
struct Config {
    name: String,
}

#[derive(Deserialize)]
struct State {
    last_seq: u64,
    last_ts: String,
}

/// Deletes the streams of runs over this server that are over and took theirs away no more. What the server does not list,
/// or not delete, stays: its messages go when they are old enough.
pub async fn delete_left(nats: &Nats) {
    delete_older(nats, AGE).await;
}

pub(super) async fn delete_older(nats: &Nats, age: Duration) {
    let ask = serde_json::json!({ "subject": format!("{PREFIX}.*.tel.>"), "offset": 0 }).to_string();
    let Ok(answer) = nats.request(LIST, ask.into_bytes().into(), ANSWER).await else { return };
    let Ok(page) = serde_json::from_slice::<Page>(&answer) else { return };
    for stream in page.streams.iter().take(LISTED_MAX).filter(|stream| stream.is_left(age)) {
        let delete = format!("{DELETE}.{}", stream.config.name);
        if nats.request(&delete, Bytes::new(), ANSWER).await.is_err() {
            return;
        }
    }
}

impl Listed {
    fn is_left(&self, age: Duration) -> bool {
        let last = if self.state.last_seq > 0 { &self.state.last_ts } else { &self.created };
        let [Some(now), Some(created), Some(last)] = [&self.ts, &self.created, last].map(|text| time(text)) else {
            return false;
        };
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|passed| passed >= age);
        self.config.name.starts_with(STREAM) && is_old(created) && is_old(last)
    }
}

fn time(text: &str) -> Option<SystemTime> {
    parse_rfc3339(text).ok().map(SystemTime::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_and_silent_is_left() {
        let stream = |name: &str, created: &str, last_seq: u64, last: &str| Listed {
            config: Config { name: name.to_owned() },
            created: format!("2026-11-30T{created}Z"),
            state: State { last_seq, last_ts: last.to_owned() },
            ts: "2026-11-30T12:00:00.123456789Z".to_owned(),
        };
        let never = "0001-01-01T00:00:00Z";
        let at = |time: &str| format!("2026-11-30T{time}Z");
        for (name, created, number, last, left) in [
            ("REHEARSAL-a", "10:00:00.5", 7, at("10:30:00"), true),
            ("REHEARSAL-a", "10:00:00", 0, never.to_owned(), true),
            ("REHEARSAL-long", "10:00:00", 7, at("11:59:59"), false),
            ("REHEARSAL-new", "11:30:00", 0, never.to_owned(), false),
            ("REHEARSAL-future", "12:30:00", 0, never.to_owned(), false),
            ("REHEARSAL-garbled", "no time", 7, at("10:30:00"), false),
            ("ORDERS", "10:00:00", 7, at("10:30:00"), false),
        ] {
            assert_eq!(stream(name, created, number, &last).is_left(AGE), left, "{name}");
        }
    }
}
