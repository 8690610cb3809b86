//! What a replayer needs to know beside the template to converse with another one.

use rehearsal_core::dialogue::{Casting, Loss, Manners, Split, Thinking};
use rehearsal_core::kind::{Complaint, Meeting};
use rehearsal_core::recording::Side;
use rehearsal_core::{BuildError, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ReplayerParams;

/// One side of conversations: a packet goes when what it answers has arrived, and its side has thought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InteractiveParams {
    /// What is one conversation: all that two hosts say to each other (`hosts`), or each stream by itself (`streams`).
    pub split: Split,
    /// Conversations of each instance; without it each of the template's once. More play the template's again, from the first on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub conversations: Option<u64>,
    /// Conversations that begin in a second; without it as in the template, all its copies at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_rate: Option<f64>,
    /// Conversations of each instance that go on at once, at most; further ones wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrent: Option<u32>,
    /// Whether sides think as long as in the template; otherwise they answer at once.
    pub think: bool,
    /// How often packets are sent again whose answer does not come; 0: never, and the conversation times out. Assumed: 3.
    #[schemars(range(max = 1000))]
    pub resend: u16,
    /// How long an answer is waited for, beyond the other side's time to think. Assumed: longer than a way around the Earth.
    pub resend_after: Span,
    /// How long nothing new happens, beyond times to think, until a conversation has timed out. Assumed: as browsers' patience.
    pub timeout: Span,
    /// Over `frames`: networks whose addresses clients get, one for each conversation; without any, those of the template, or
    /// of 198.18.0.0/16 and 2001:2::/64 (RFC 2544, RFC 5180) where there are more conversations than the template has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Networks whose addresses servers get, likewise; otherwise of 198.19.0.0/16 and 2001:2:0:1::/64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

impl Default for InteractiveParams {
    fn default() -> Self {
        InteractiveParams {
            split: Split::default(),
            conversations: None,
            start_rate: None,
            concurrent: None,
            think: true,
            resend: 3,
            resend_after: Span::from_millis(200),
            timeout: Span::from_secs(10),
            clients: Vec::new(),
            servers: Vec::new(),
        }
    }
}

impl InteractiveParams {
    /// The rules of both sides.
    pub(super) fn manners(&self, params: &ReplayerParams) -> Manners {
        Manners {
            thinking: Thinking {
                factor: self.think.then(|| params.speed.unwrap_or(1.0)),
                most: params.gap_max.map(Span::as_nanos),
            },
            loss: Loss { resend: self.resend, after: self.resend_after.as_nanos() },
            timeout: self.timeout.as_nanos(),
        }
    }

    pub(super) fn casting(&self, instances: u32) -> Casting {
        Casting {
            split: self.split,
            conversations: self.conversations,
            instances,
            clients: self.clients.clone(),
            servers: self.servers.clone(),
        }
    }

    /// What both sides have to have alike.
    pub(super) fn meeting(&self, params: &ReplayerParams) -> Meeting {
        let say = |value: Option<String>| value.unwrap_or_else(|| "left out".to_owned());
        let inner = toml_like(self);
        let alike = vec![
            ("template", format!("`{}`", params.template)),
            ("edit", format!("{:?}", params.edit)),
            ("speed", say(params.speed.map(|speed| speed.to_string()))),
            ("gap_max", say(params.gap_max.map(|gap| gap.to_string()))),
            ("interactive", inner),
        ];
        Meeting { side: params.side, casting: self.casting(1), alike }
    }

    /// Which of the replayer's own keys, and of these, cannot be.
    pub(super) fn check(&self, params: &ReplayerParams, all: &mut Vec<Complaint>) {
        let mut say = |path: &[&str], reason: &str| {
            let path = path.iter().map(|key| (*key).to_owned()).collect();
            all.push(Complaint { path, reason: reason.to_owned() });
        };
        if params.side == Side::Both {
            say(
                &["side"],
                "who converses is one of two: write `side = \"client\"` here and `side = \"server\"` at the other one",
            );
        }
        for (key, there) in [("pps", params.pps.is_some()), ("bps", params.bps.is_some())] {
            if there {
                say(
                    &[key],
                    "in a conversation a packet goes when it is answered: take this key away; `speed` divides times to think",
                );
            }
        }
        for (key, there) in [("loops", params.loops.is_some()), ("loop_gap", params.loop_gap.is_some())] {
            if there {
                say(
                    &[key],
                    "a conversation has no loops: take this key away; `interactive.conversations` says how many there are",
                );
            }
        }
        let inner = |key| ["interactive", key];
        if self.conversations == Some(0) {
            say(&inner("conversations"), "write 1 or more, or leave it out");
        }
        if self.concurrent == Some(0) {
            say(&inner("concurrent"), "write 1 or more, or leave it out");
        }
        if self.start_rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            say(&inner("start_rate"), "write a number above 0");
        }
        for (key, span) in [("resend_after", self.resend_after), ("timeout", self.timeout)] {
            if span.is_zero() {
                say(&inner(key), "write a time above 0, such as `200ms`");
            }
        }
    }

    /// Addresses that nobody could see.
    pub(super) fn unseen(&self) -> Result<(), BuildError> {
        if self.clients.is_empty() && self.servers.is_empty() {
            return Ok(());
        }
        let reason =
            "addresses are in whole frames alone: take `clients` and `servers` away, or write `carrier = \"frames\"`";
        Err(BuildError::of("interactive", reason))
    }
}

/// All keys that both sides need alike, in words.
fn toml_like(of: &InteractiveParams) -> String {
    let InteractiveParams { split, conversations, resend, resend_after, timeout, clients, servers, think, .. } = of;
    let start = of.start_rate;
    format!(
        "split {split:?}, conversations {conversations:?}, start_rate {start:?}, think {think}, resend {resend} after {resend_after}, \
         timeout {timeout}, clients {clients:?}, servers {servers:?}"
    )
}
