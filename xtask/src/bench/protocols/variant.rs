//! What is measured: variants of one experiment, by part.

use std::fmt;

/// A question that variants answer together; they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Full, resumed and kept-alive connections
    Handshakes,
    /// A megabyte, in clear and encrypted
    Bulk,
    /// HTTP/1.1, HTTP/2, HTTP/3
    Versions,
    /// The host's network, a bridge, translated addresses; needs root
    Networks,
    /// Shares of malformed requests
    Malformed,
    /// With and without nginx in between
    Proxy,
}

impl Part {
    /// All of them, in their order.
    pub const ALL: [Part; 6] =
        [Part::Handshakes, Part::Bulk, Part::Versions, Part::Networks, Part::Malformed, Part::Proxy];

    /// What its keys begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Part::Handshakes => "handshakes",
            Part::Bulk => "bulk",
            Part::Versions => "versions",
            Part::Networks => "networks",
            Part::Malformed => "malformed",
            Part::Proxy => "proxy",
        }
    }

    /// Variants that are held against each other: which, against which, and what that tells.
    pub fn differences(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Part::Handshakes => &[
                ("fresh", "kept", "a connection of TCP"),
                ("full", "fresh", "a full handshake of TLS"),
                ("resumed", "fresh", "a resumed handshake"),
                ("tls", "kept", "TLS on a kept connection"),
                ("quic_full", "quic", "a full handshake of QUIC"),
                ("quic_resumed", "quic", "a resumed handshake of QUIC"),
            ],
            Part::Bulk => &[
                ("tls", "clear", "a megabyte encrypted, HTTP/1.1"),
                ("h2", "h2c", "a megabyte encrypted, HTTP/2"),
                ("h2", "tls", "HTTP/2 against HTTP/1.1, encrypted"),
                ("h3", "tls", "HTTP/3 against HTTP/1.1, encrypted"),
                ("h3", "h2", "HTTP/3 against HTTP/2"),
            ],
            Part::Versions => &[
                ("h2c", "h1c", "HTTP/2 against HTTP/1.1, in clear"),
                ("h2", "h1", "HTTP/2 against HTTP/1.1, encrypted"),
                ("h3", "h1", "HTTP/3 against HTTP/1.1, encrypted"),
                ("h3", "h2", "HTTP/3 against HTTP/2"),
            ],
            Part::Networks => &[
                ("bridge", "host", "a bridge, 1 kB"),
                ("nat", "host", "translated addresses, 1 kB"),
                ("bridge_fresh", "host_fresh", "a bridge, a connection each"),
                ("nat_fresh", "host_fresh", "translated addresses, a connection each"),
                ("bridge_large", "host_large", "a bridge, 1 MB"),
                ("nat_large", "host_large", "translated addresses, 1 MB"),
            ],
            Part::Malformed => &[("five", "none", "5 % malformed"), ("half", "none", "50 % malformed")],
            Part::Proxy => &[
                ("nginx", "direct", "nginx between"),
                ("nginx_tls", "direct_tls", "nginx between, TLS up to it"),
                ("nginx_h2", "direct_h2", "nginx between, HTTP/2 up to it"),
            ],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

/// How sender and receiver are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The host's loopback.
    Host,
    /// Two namespaces and a bridge.
    Bridge,
    /// Two namespaces and a router that translates the sender's addresses.
    Nat,
}

/// What nginx is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// HTTP/1.1 in clear.
    Clear,
    /// HTTP/1.1 or HTTP/2 under TLS.
    Encrypted,
}

/// One way to send the same requests.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub part: Part,
    /// Its key within the part.
    pub key: &'static str,
    /// In words.
    pub title: &'static str,
    pub carrier: &'static str,
    /// The handshake of TLS, where there is any.
    pub tls: Option<&'static str>,
    pub per_request: bool,
    /// A megabyte instead of a kilobyte.
    pub large: bool,
    pub malformed: &'static str,
    pub network: Network,
    pub proxy: Option<Front>,
}

impl Variant {
    /// What costs are told of, and how many of these a request is, as a factor.
    pub fn unit(&self) -> (&'static str, f64) {
        if self.large { ("MB", 1e6 / super::LARGE) } else { ("request", 1.0) }
    }

    const fn of(part: Part, key: &'static str, title: &'static str, carrier: &'static str) -> Variant {
        let (tls, network) = (None, Network::Host);
        let (per_request, large, malformed, proxy) = (false, false, "0%", None);
        Variant { part, key, title, carrier, tls, per_request, large, malformed, network, proxy }
    }

    const fn tls(self) -> Variant {
        Variant { tls: Some("full"), ..self }
    }

    const fn resumed(self) -> Variant {
        Variant { tls: Some("resumed"), ..self }
    }

    const fn fresh(self) -> Variant {
        Variant { per_request: true, ..self }
    }

    const fn large(self) -> Variant {
        Variant { large: true, ..self }
    }

    const fn over(self, network: Network) -> Variant {
        Variant { network, ..self }
    }

    const fn malformed(self, malformed: &'static str) -> Variant {
        Variant { malformed, ..self }
    }

    const fn via(self, front: Front) -> Variant {
        Variant { proxy: Some(front), ..self }
    }
}

/// All of them.
pub const VARIANTS: [Variant; 36] = {
    use Part::{Bulk, Handshakes, Malformed, Networks, Proxy, Versions};
    [
        Variant::of(Handshakes, "kept", "TCP, kept alive", "http1"),
        Variant::of(Handshakes, "fresh", "TCP, a connection each", "http1").fresh(),
        Variant::of(Handshakes, "tls", "TLS, kept alive", "http1").tls(),
        Variant::of(Handshakes, "full", "TLS, full handshakes", "http1").tls().fresh(),
        Variant::of(Handshakes, "resumed", "TLS, resumed", "http1").resumed().fresh(),
        Variant::of(Handshakes, "quic", "QUIC, kept alive", "http3").tls(),
        Variant::of(Handshakes, "quic_full", "QUIC, full handshakes", "http3").tls().fresh(),
        Variant::of(Handshakes, "quic_resumed", "QUIC, resumed", "http3").resumed().fresh(),
        Variant::of(Bulk, "clear", "HTTP/1.1 in clear, 1 MB", "http1").large(),
        Variant::of(Bulk, "tls", "HTTP/1.1 over TLS, 1 MB", "http1").tls().large(),
        Variant::of(Bulk, "h2c", "HTTP/2 in clear, 1 MB", "http2").large(),
        Variant::of(Bulk, "h2", "HTTP/2 over TLS, 1 MB", "http2").tls().large(),
        Variant::of(Bulk, "h3", "HTTP/3, 1 MB", "http3").tls().large(),
        Variant::of(Versions, "h1c", "HTTP/1.1 in clear", "http1"),
        Variant::of(Versions, "h2c", "HTTP/2 in clear", "http2"),
        Variant::of(Versions, "h1", "HTTP/1.1 over TLS", "http1").tls(),
        Variant::of(Versions, "h2", "HTTP/2 over TLS", "http2").tls(),
        Variant::of(Versions, "h3", "HTTP/3", "http3").tls(),
        Variant::of(Networks, "host", "loopback", "http1"),
        Variant::of(Networks, "bridge", "bridge", "http1").over(Network::Bridge),
        Variant::of(Networks, "nat", "translated", "http1").over(Network::Nat),
        Variant::of(Networks, "host_fresh", "loopback, a connection each", "http1").fresh(),
        Variant::of(Networks, "bridge_fresh", "bridge, a connection each", "http1").fresh().over(Network::Bridge),
        Variant::of(Networks, "nat_fresh", "translated, a connection each", "http1").fresh().over(Network::Nat),
        Variant::of(Networks, "host_large", "loopback, 1 MB", "http1").large(),
        Variant::of(Networks, "bridge_large", "bridge, 1 MB", "http1").large().over(Network::Bridge),
        Variant::of(Networks, "nat_large", "translated, 1 MB", "http1").large().over(Network::Nat),
        Variant::of(Malformed, "none", "none malformed", "http1"),
        Variant::of(Malformed, "five", "5 % malformed", "http1").malformed("5%"),
        Variant::of(Malformed, "half", "50 % malformed", "http1").malformed("50%"),
        Variant::of(Proxy, "direct", "direct", "http1"),
        Variant::of(Proxy, "nginx", "via nginx", "http1").via(Front::Clear),
        Variant::of(Proxy, "direct_tls", "direct, TLS", "http1").tls(),
        Variant::of(Proxy, "nginx_tls", "via nginx, TLS", "http1").tls().via(Front::Encrypted),
        Variant::of(Proxy, "direct_h2", "direct, HTTP/2", "http2").tls(),
        Variant::of(Proxy, "nginx_h2", "via nginx, HTTP/2", "http2").tls().via(Front::Encrypted),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_against_each_other_is_measured_in_its_part_and_once() {
        for part in Part::ALL {
            let keys: Vec<_> = VARIANTS.iter().filter(|variant| variant.part == part).map(|v| v.key).collect();
            for (over, base, _) in part.differences() {
                assert!(keys.contains(over) && keys.contains(base), "{part}: {over} and {base} of {keys:?}");
            }
            for key in &keys {
                assert_eq!(keys.iter().filter(|other| other == &key).count(), 1, "{part}: {key}");
            }
        }
    }
}
