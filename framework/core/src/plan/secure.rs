//! What is said of a link's encryption, and of how requests share its connections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Carrier, LinkSpec};
use crate::units::ByteSize;

/// Streams of one connection at a time, unless a file says otherwise. Source: RFC 9113 §6.5.2 recommends no fewer.
pub const STREAMS: u32 = 100;
/// Bytes that may be under way in a stream before its receiver allows more. Source: RFC 9113 §6.5.2; for HTTP/3, whose
/// standard has no default (RFC 9000 §18.2), assumed equal to it, so that both protocols are compared with equal windows.
pub const STREAM_WINDOW: ByteSize = ByteSize(65_535);
/// The same of a whole connection. Source: RFC 9113 §6.9.2; assumed for HTTP/3 as above.
pub const CONNECTION_WINDOW: ByteSize = ByteSize(65_535);

/// TLS on a link: 1.3 (RFC 8446), and to targets outside 1.2 (RFC 5246) where they have no other. Those are trusted as the
/// system trusts unless `ca` names a file. Between actors each process without files makes an authority and a
/// certificate of its own for the run and tells the others of the authority alone; keys stay in its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Who shows a certificate.
    #[serde(default)]
    pub mode: TlsMode,
    /// Whether a new connection takes up where an earlier one to the same target ended.
    #[serde(default)]
    pub handshake: TlsHandshake,
    /// A PEM file of authorities that are trusted, relative to the experiment, in place of those of the run or the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// A PEM file with a certificate and those between it and its authority: of receivers, and of senders where `mode` is
    /// `mutual` or the target is outside. Needs `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// A PEM file with its private key. It is read where the node runs and never travels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether a target outside may show any certificate. The verdict says so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name that a target outside is asked for, and that its certificate must be of, in place of the URL's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(b: &bool) -> bool {
    !*b
}

/// Who shows a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// The receiver.
    #[default]
    Server,
    /// Both: a receiver closes connections of senders without one.
    Mutual,
}

/// How a new connection agrees on its keys. Both take one round trip after TCP's; early data is not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsHandshake {
    /// Always with certificates. Source: RFC 8446 §2.
    #[default]
    Full,
    /// By a ticket of an earlier connection where there is one, without certificates. Source: RFC 8446 §2.2.
    Resumed,
}

impl LinkSpec {
    /// How it is encrypted, if it is.
    pub fn security(&self) -> Option<TlsSpec> {
        self.is_encrypted().then(|| self.tls.clone().unwrap_or_default())
    }

    /// Whether it is encrypted: HTTP/3 always is, carriers that are not HTTP are towards targets outside alone.
    pub fn is_encrypted(&self) -> bool {
        match self.carrier {
            Carrier::Http1 | Carrier::Http2 => self.tls.is_some(),
            Carrier::Tcp | Carrier::Mqtt => self.tls.is_some() && self.outside,
            carrier => carrier == Carrier::Http3,
        }
    }

    /// Round trips before the first request of a connection: what its carrier and its encryption ask for, or `handshake`
    /// where they leave that open. Source: RFC 9293 §3.5, RFC 8446 §2, RFC 9000 §7.
    pub fn round_trips(&self) -> u32 {
        match (self.carrier, self.is_encrypted()) {
            (Carrier::Http3, _) => 1,
            (_, true) => 2,
            (_, false) => self.handshake.round_trips(),
        }
    }

    /// Streams of one connection at a time, [`STREAMS`] by default.
    pub fn streams(&self) -> u32 {
        self.streams.unwrap_or(STREAMS)
    }

    /// Connections between a node and a target, 1 by default.
    pub fn connections(&self) -> u32 {
        self.connections.unwrap_or(1)
    }

    /// Bytes of a stream and of its connection that may be under way before their receiver allows more.
    pub fn windows(&self) -> (ByteSize, ByteSize) {
        (self.stream_window.unwrap_or(STREAM_WINDOW), self.connection_window.unwrap_or(CONNECTION_WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_follow_from_carrier_and_encryption() {
        let link = |carrier, tls: bool| LinkSpec { carrier, tls: tls.then(TlsSpec::default), ..LinkSpec::default() };
        let trips = [(Carrier::Http1, false), (Carrier::Http1, true), (Carrier::Http2, true), (Carrier::Http3, false)];
        assert_eq!(trips.map(|(carrier, tls)| link(carrier, tls).round_trips()), [1, 2, 2, 1]);
        assert!(link(Carrier::Http3, false).security().is_some() && link(Carrier::Http2, false).security().is_none());
    }
}
