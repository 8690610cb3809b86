//! Targets outside of the experiment: a URL in place of `node/actor`, what a request to it looks like, and what is known of
//! the service there.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Carrier;
use crate::time::Span;
use crate::units::ByteSize;

pub mod template;

/// Most headers of one request. Assumed: ten times what browsers send.
pub const HEADERS_MAX: usize = 100;
/// The name that links have for every target outside: `[links."users->outside"]`.
pub const OUTSIDE: &str = "outside";
/// The one actor of a node that stands for a target outside.
pub const SERVICE: &str = "service";

/// How a target outside is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// `http://`, port 80 unless another is written (RFC 9110 §4.2.1).
    Http,
}

impl Scheme {
    /// The word before `://`.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
        }
    }

    /// The carrier of its traffic, on a link that says `link`.
    pub const fn carrier(self, link: Carrier) -> Carrier {
        match (self, link) {
            (Scheme::Http, Carrier::Http2) => Carrier::Http2,
            (Scheme::Http, _) => Carrier::Http1,
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
    /// Path and query as they go into a request, `/` at least.
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
        let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("`{text}` is no URL"))?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            other => return Err(format!("`{other}://` cannot be sent to; `http://` can")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a URL holds no user here; write a header `authorization` into `request`".to_owned());
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            Some(0) => return Err("port 0 is no place to send to".to_owned()),
            Some(port) => port,
            None => 80,
        };
        Ok(Url { scheme, host: host.to_owned(), port, path: read_path(path)? })
    }

    /// Scheme, host and port: what one target is known by, whatever the path.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.authority())
    }

    /// Host and port as a `Host` header has them (RFC 9110 §7.2): the usual port is left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }

    /// The address, if no name has to be looked up.
    pub fn literal(&self) -> Option<SocketAddr> {
        let address = self.host.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(address, self.port))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
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

/// What requests to a target outside look like: the key `request` of a sender whose `to` is a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestSpec {
    /// The method; without it GET where there is nothing to send, and POST where there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query, unless the URL has them. `{seq}`, `{member}`, `{time}` and `{uuid}` are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers beside `host` and `content-length`, which follow from the rest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What a `client` sends; other kinds have a payload of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodySpec>,
    /// Which answers are a success, instead of those with 2xx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// A body: one of `file`, `text`, `template` and `generator`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BodySpec {
    /// The bytes of a file, relative to the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// This text, the same each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// This text with `{seq}` (the request's number within its instance, from 0), `{member}` (the instance, from 1), `{time}`
    /// (Unix seconds with three decimals) and `{uuid}` (RFC 9562, version 8, of the instance and the number) filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Bytes that differ from request to request, `bytes` of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// How many bytes a generator makes; 1 kB if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
}

/// What a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// A JSON object with the instance, the number and letters to fill it up.
    Json,
    /// Bytes that look random, and are the same for the same number.
    Random,
}

/// Which answers are a success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The codes that are; without any, 2xx. Any other is what it usually is, but for a success: that is a failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    /// Text that the body must hold within its first 64 KiB; without it the answer is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
}

/// What is known of the service at a target outside: the key `service`, which dry runs go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// How long it takes for one request, without waiting.
    pub time: Span,
    /// Requests that it serves at the same time; further ones wait. Assumed: as many as a receiver's.
    #[serde(default = "sixteen")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub workers: u32,
    /// Bytes of its answers, without heads.
    #[serde(default)]
    pub bytes: ByteSize,
}

/// A target outside, as a run knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Scheme, host and port.
    pub origin: String,
    /// Where it is, once that has been looked up.
    pub address: Option<SocketAddr>,
    /// Whether its service time is known; without it a dry run has no times of exchanges with it.
    pub known: bool,
}

const fn sixteen() -> u32 {
    16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_they_are_sent() {
        for (text, origin, path, authority) in [
            ("http://a.example", "http://a.example", "/", "a.example"),
            ("http://a.example:80/x?y=1", "http://a.example", "/x?y=1", "a.example"),
            ("http://127.0.0.1:8080?q", "http://127.0.0.1:8080", "/?q", "127.0.0.1:8080"),
            ("http://[::1]:8080/", "http://[::1]:8080", "/", "[::1]:8080"),
        ] {
            let url = Url::read(text).expect(text);
            assert_eq!((url.origin().as_str(), url.path.as_str(), url.authority().as_str()), (origin, path, authority));
        }
        assert_eq!(Url::read("http://[::1]:81").expect("a URL").literal(), "[::1]:81".parse().ok());
        assert_eq!(Url::read("http://a.example").expect("a URL").literal(), None);
    }

    #[test]
    fn what_is_no_url_says_what_to_write() {
        for (text, part) in [
            ("ftp://a", "`ftp://` cannot be sent to"),
            ("http://", "is no host"),
            ("http://a:b", "is no port"),
            ("http://a:0", "port 0"),
            ("http://u@a/", "authorization"),
            ("http://a/#x", "fragment"),
            ("http://a/ x", "%20"),
            ("http://[::1]x", "after `:`"),
        ] {
            let why = Url::read(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
