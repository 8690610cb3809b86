//! What is said of a link over an MQTT broker. Source: OASIS MQTT 3.1.1 and 5.0.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The broker of a link, and how messages go over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MqttSpec {
    /// Where it is, in emulation: `mqtt://host:port`, the port 1883 if none is said. It must be within the allow-list.
    pub broker: String,
    /// How sure the delivery is.
    #[serde(default)]
    #[schemars(range(max = 2))]
    pub qos: Qos,
    /// Which version of the protocol is spoken.
    #[serde(default)]
    pub version: MqttVersion,
}

impl MqttSpec {
    /// The host of the broker, and its port if one is said; `None` if the text is no URL of a broker.
    pub fn address(&self) -> Option<(&str, Option<u16>)> {
        let rest = self.broker.strip_prefix("mqtt://")?.trim_end_matches('/');
        let port = |text: &str| text.parse::<u16>().ok();
        let (host, said) = match rest.rsplit_once(':') {
            Some((host, text)) if !host.contains(':') || host.ends_with(']') => (host, Some(port(text)?)),
            _ => (rest, None),
        };
        (!host.is_empty() && !host.contains(['/', '@', '?', '#'])).then_some((host, said))
    }

    /// Whether the text is the URL of a broker.
    pub fn is_well_formed(&self) -> bool {
        self.address().is_some()
    }
}

/// How sure a delivery is, and what tells the sender of it. Source: MQTT 5.0 §4.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
#[schemars(with = "u8")]
pub enum Qos {
    /// 0: at most once. Nothing tells the sender; the receivers' counts settle it at the end, as with datagrams.
    AtMostOnce,
    /// 1: at least once. The broker's PUBACK is the outcome.
    #[default]
    AtLeastOnce,
    /// 2: exactly once. The broker's PUBCOMP is the outcome, after two round trips.
    ExactlyOnce,
}

impl TryFrom<u8> for Qos {
    type Error = String;

    fn try_from(level: u8) -> Result<Self, String> {
        match level {
            0 => Ok(Qos::AtMostOnce),
            1 => Ok(Qos::AtLeastOnce),
            2 => Ok(Qos::ExactlyOnce),
            _ => Err(format!("{level} is no quality of service: write 0, 1 or 2")),
        }
    }
}

impl From<Qos> for u8 {
    fn from(qos: Qos) -> u8 {
        qos as u8
    }
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MqttVersion {
    /// OASIS standard of 2014.
    #[serde(rename = "3.1.1")]
    V311,
    /// OASIS standard of 2019.
    #[default]
    #[serde(rename = "5")]
    V5,
}
