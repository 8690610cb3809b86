//! URLs of targets outside: how each scheme is read, and what it makes of the link to its target.

use core::net::{IpAddr, SocketAddr};
use std::fmt;

use super::request::RequestSpec;
use crate::plan::{Carrier, DatagramMode, Impose, LinkSpec, MqttSpec};

/// How a target outside is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// HTTP in clear (RFC 9110 §4.2.1).
    Http,
    /// HTTP under TLS, or over QUIC (RFC 9110 §4.2.2).
    Https,
    /// Datagrams, as they are.
    Udp,
    /// Bytes over a connection, as they are.
    Tcp,
    /// The same under TLS.
    Tls,
    /// Publications to a broker.
    Mqtt,
    /// The same under TLS.
    Mqtts,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Scheme; 7] =
        [Scheme::Http, Scheme::Https, Scheme::Udp, Scheme::Tcp, Scheme::Tls, Scheme::Mqtt, Scheme::Mqtts];

    /// The word before `://`.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Udp => "udp",
            Scheme::Tcp => "tcp",
            Scheme::Tls => "tls",
            Scheme::Mqtt => "mqtt",
            Scheme::Mqtts => "mqtts",
        }
    }

    /// The port if none is written; bare bytes have none. Source: RFC 9110 §4.2; IANA, `mqtt` and `secure-mqtt`.
    pub const fn port(self) -> Option<u16> {
        match self {
            Scheme::Http => Some(80),
            Scheme::Https => Some(443),
            Scheme::Mqtt => Some(1883),
            Scheme::Mqtts => Some(8883),
            Scheme::Udp | Scheme::Tcp | Scheme::Tls => None,
        }
    }

    /// Whether requests have a method, headers and a status.
    pub const fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// Whether a broker takes what is sent.
    pub const fn is_mqtt(self) -> bool {
        matches!(self, Scheme::Mqtt | Scheme::Mqtts)
    }

    /// Whether bytes go as they are.
    pub const fn is_bare(self) -> bool {
        matches!(self, Scheme::Udp | Scheme::Tcp | Scheme::Tls)
    }

    /// Whether certificates are checked.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Tls | Scheme::Mqtts)
    }

    /// The carrier of its traffic, on a link that says `link`.
    pub const fn carrier(self, link: Carrier) -> Carrier {
        match (self, link) {
            (Scheme::Http | Scheme::Https, Carrier::Http2) => Carrier::Http2,
            (Scheme::Https, Carrier::Http3) => Carrier::Http3,
            (Scheme::Http | Scheme::Https, _) => Carrier::Http1,
            (Scheme::Udp, _) => Carrier::Udp,
            (Scheme::Tcp | Scheme::Tls, _) => Carrier::Tcp,
            (Scheme::Mqtt | Scheme::Mqtts, _) => Carrier::Mqtt,
        }
    }
}

/// A `to` that names a place outside the experiment: `scheme://host[:port][/path]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Url {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// A name, or an address; one of IPv6 without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query as they go into a request, `/` at least; of a broker, `/` and the topic.
    pub path: String,
}

impl Url {
    /// Whether a `to` is one.
    pub fn is(to: &str) -> bool {
        to.contains("://")
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn read(text: &str) -> Result<Url, String> {
        let (name, rest) = text.split_once("://").ok_or_else(|| format!("`{text}` is no URL"))?;
        let Some(scheme) = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name) else {
            let known = Scheme::ALL.map(|scheme| format!("`{}://`", scheme.name())).join(", ");
            return Err(format!("`{name}://` cannot be sent to; these can: {known}"));
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            let instead = if scheme.is_mqtt() {
                "write `mqtt = { user = \"…\", password_file = \"…\" }` into `request`"
            } else {
                "write a header `authorization` into `request`"
            };
            return Err(format!("a URL holds no user here; {instead}"));
        }
        let (host, port) = split_port(authority)?;
        let port = match port.or(scheme.port()) {
            Some(0) => return Err("port 0 is no place to send to".to_owned()),
            Some(port) => port,
            None => {
                return Err(format!("`{name}://` has no usual port; write for instance `{name}://{authority}:9000`"));
            }
        };
        let path = read_path(path)?;
        if scheme.is_bare() && path != "/" {
            return Err(format!("`{name}://` has no path: what is sent is the body alone; leave `{path}` out"));
        }
        Ok(Url { scheme, host: host.to_owned(), port, path })
    }

    /// Scheme, host and port: what one target is known by, whatever the path.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.authority())
    }

    /// Host and port as a `Host` header has them (RFC 9110 §7.2): the usual port is left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.scheme.port() == Some(self.port) { host } else { format!("{host}:{}", self.port) }
    }

    /// The address, if no name has to be looked up.
    pub fn literal(&self) -> Option<SocketAddr> {
        let address = self.host.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(address, self.port))
    }

    /// The link of `request`s to it, where the file says `written`. Nobody imposes it: what is outside is as it is.
    pub fn link(&self, written: &LinkSpec, request: Option<&RequestSpec>) -> LinkSpec {
        let carrier = self.scheme.carrier(written.carrier);
        let mut link = LinkSpec { carrier, impose: Impose::None, outside: true, mqtt: None, ..written.clone() };
        link.tls = self.scheme.is_encrypted().then(|| link.tls.unwrap_or_default());
        link.pipeline = 1;
        link.mode = DatagramMode::OneWay;
        if self.scheme == Scheme::Udp && request.is_some_and(RequestSpec::is_answered) {
            link.mode = DatagramMode::Echo;
        }
        if self.scheme.is_mqtt() {
            let said = request.and_then(|request| request.mqtt.clone()).unwrap_or_default();
            let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
            let broker = format!("mqtt://{host}:{}", self.port);
            link.mqtt = Some(Box::new(MqttSpec { broker, qos: said.qos, version: said.version }));
        }
        link
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme.is_bare() { f.write_str(&self.origin()) } else { write!(f, "{}{}", self.origin(), self.path) }
    }
}

/// Host and port of an authority; an address of IPv6 stands in brackets (RFC 3986 §3.2.2).
fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("a port follows `]` after `:`")?)),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(good) {
        return Err(format!("`{authority}` is no host; write for instance `http://127.0.0.1:8080/`"));
    }
    let port = port.map(|text| text.parse().map_err(|_| format!("`{text}` is no port: 1 to 65535")));
    Ok((host, port.transpose()?))
}

fn read_path(text: &str) -> Result<String, String> {
    if text.contains('#') {
        return Err("a fragment (`#…`) is not sent; leave it out".to_owned());
    }
    check_path(text)?;
    Ok(match text.chars().next() {
        None => "/".to_owned(),
        Some('/') => text.to_owned(),
        Some(_) => format!("/{text}"),
    })
}

/// Whether a path or query can be sent as it is.
///
/// # Errors
/// Names the character that cannot.
pub fn check_path(text: &str) -> Result<(), String> {
    match text.chars().find(|c| !c.is_ascii_graphic()) {
        Some(c) => Err(format!("a path holds no {c:?}; write it as %{:02X}", u32::from(c).min(255))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::MqttRequest;
    use crate::plan::{Qos, TlsSpec};

    #[test]
    fn urls_are_read_as_they_are_sent() {
        for (text, origin, path, authority) in [
            ("http://a.example", "http://a.example", "/", "a.example"),
            ("http://a.example:80/x?y=1", "http://a.example", "/x?y=1", "a.example"),
            ("http://127.0.0.1:8080?q", "http://127.0.0.1:8080", "/?q", "127.0.0.1:8080"),
            ("http://[::1]:8080/", "http://[::1]:8080", "/", "[::1]:8080"),
            ("https://a.example:443/x", "https://a.example", "/x", "a.example"),
            ("https://a.example:80", "https://a.example:80", "/", "a.example:80"),
            ("udp://127.0.0.1:9", "udp://127.0.0.1:9", "/", "127.0.0.1:9"),
            ("mqtt://broker/a/b", "mqtt://broker", "/a/b", "broker"),
        ] {
            let url = Url::read(text).expect(text);
            assert_eq!((url.origin().as_str(), url.path.as_str(), url.authority().as_str()), (origin, path, authority));
        }
        assert_eq!(Url::read("http://[::1]:81").expect("a URL").literal(), "[::1]:81".parse().ok());
        assert_eq!(Url::read("http://a.example").expect("a URL").literal(), None);
        let ports = ["https://a", "mqtt://a", "mqtts://a"].map(|text| Url::read(text).expect(text).port);
        assert_eq!(ports, [443, 1883, 8883]);
        assert_eq!(Url::read("tcp://a:7").expect("a URL").to_string(), "tcp://a:7");
    }

    #[test]
    fn what_is_no_url_says_what_to_write() {
        for (text, part) in [
            ("ftp://a", "`ftp://` cannot be sent to"),
            ("http://", "is no host"),
            ("http://a:b", "is no port"),
            ("http://a:0", "port 0"),
            ("http://u@a/", "authorization"),
            ("mqtt://u:p@a/", "password_file"),
            ("http://a/#x", "fragment"),
            ("http://a/ x", "%20"),
            ("http://[::1]x", "after `:`"),
            ("udp://a", "udp://a:9000"),
            ("tcp://a:1/x", "has no path"),
        ] {
            let why = Url::read(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_scheme_says_what_its_link_is_like_and_a_link_how_http_is_spoken() {
        let of = |to: &str, carrier, request: Option<&RequestSpec>| {
            let written = LinkSpec { carrier, tls: Some(TlsSpec::default()), ..LinkSpec::default() };
            let link = Url::read(to).expect(to).link(&written, request);
            assert!(link.outside && link.impose == Impose::None);
            (link.carrier, link.is_encrypted(), link.is_exchange(), link.is_answered())
        };
        assert_eq!(of("http://a", Carrier::Http1, None), (Carrier::Http1, false, true, true));
        assert_eq!(of("http://a", Carrier::Http3, None), (Carrier::Http1, false, true, true));
        assert_eq!(of("https://a", Carrier::Udp, None), (Carrier::Http1, true, true, true));
        assert_eq!(of("https://a", Carrier::Http3, None), (Carrier::Http3, true, true, true));
        assert_eq!(of("udp://a:1", Carrier::Http1, None), (Carrier::Udp, false, false, true));
        assert_eq!(of("tls://a:1", Carrier::Http1, None), (Carrier::Tcp, true, true, true));
        let at =
            |qos| RequestSpec { mqtt: Some(MqttRequest { qos, ..MqttRequest::default() }), ..RequestSpec::default() };
        assert_eq!(of("mqtt://a/t", Carrier::Http1, None), (Carrier::Mqtt, false, true, true));
        assert_eq!(of("mqtts://a/t", Carrier::Mqtt, Some(&at(Qos::AtMostOnce))), (Carrier::Mqtt, true, false, true));
    }
}
