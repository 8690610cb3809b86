//! How to connect to a server: where it is, how it is trusted, and who connects. What is secret is never shown.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where answers come in, unless somebody chose otherwise.
const INBOX: &str = "_INBOX";
/// Servers that may be named: more are found by asking one of them.
const SERVERS_MAX: usize = 16;

/// A connection that is not made yet. Its serialised form holds the secrets: it may only travel through a pipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectSettings {
    /// URLs of servers of one cluster, without credentials.
    servers: Vec<String>,
    /// How the server is trusted, and what it is shown.
    pub tls: Tls,
    /// Who connects.
    pub auth: Auth,
    /// First tokens of the subjects that answers come in on, where it is not `_INBOX` or, for a user, `_INBOX.<name>`.
    pub inbox: Option<String>,
}

/// Encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// Whether a server that does not encrypt is refused.
    pub require: bool,
    /// Certificates (PEM) that sign the server's, in place of the operating system's.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and its key (PEM), for a server that asks for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Who connects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Auth {
    /// Nobody in particular, or whom the client certificate names.
    #[default]
    Nobody,
    /// A user with a password.
    User {
        /// The name.
        name: String,
        /// The password.
        password: Secret,
    },
    /// A token that all share.
    Token(Secret),
    /// The seed of a public key that the server knows, `SU…`.
    Nkey(Secret),
    /// The text of a credentials file: a signed user and its seed.
    Creds(Secret),
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// A URL or a file that no connection can be made with.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// Not the URL of a NATS server.
    #[error(
        "`{url}` is no URL of a NATS server: {why}; write for instance nats://127.0.0.1:4222, or tls://… for encryption"
    )]
    Url {
        /// What was given, without credentials.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two identities.
    #[error("the URLs name more than one identity; give all servers the same, or use --nats-user")]
    Identities,
    /// A file that is not what it should be.
    #[error("{} {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl ConnectSettings {
    /// Reads one URL, or several of one cluster between commas. Credentials in them, `nats://name:password@host`, move
    /// to [`Auth`]; a scheme `tls` requires encryption.
    ///
    /// # Errors
    /// When one is none, when they name different users, or when there are more than 16.
    pub fn new(urls: &str) -> Result<ConnectSettings, SettingsError> {
        let mut settings =
            ConnectSettings { servers: Vec::new(), tls: Tls::default(), auth: Auth::Nobody, inbox: None };
        for text in urls.split(',') {
            let (server, auth) = server(text.trim())?;
            if settings.auth != Auth::Nobody && auth != Auth::Nobody && settings.auth != auth {
                return Err(SettingsError::Identities);
            }
            if auth != Auth::Nobody {
                settings.auth = auth;
            }
            settings.tls.require |= server.starts_with("tls://");
            settings.servers.push(server);
        }
        if settings.servers.len() > SERVERS_MAX {
            let why = format!("only {SERVERS_MAX} servers can be named");
            return Err(SettingsError::Url { url: settings.servers.swap_remove(SERVERS_MAX), why });
        }
        Ok(settings)
    }

    /// The same servers for somebody else, whose answers come in elsewhere.
    #[must_use]
    pub fn identified(self, auth: Auth) -> ConnectSettings {
        ConnectSettings { auth, inbox: None, ..self }
    }

    /// The same for a client that reaches the loopback of this host at `address`, and the ports of the servers that this
    /// holds for.
    pub fn moved(&self, address: IpAddr) -> (ConnectSettings, Vec<u16>) {
        let (mut moved, mut ports) = (self.clone(), Vec::new());
        for server in &mut moved.servers {
            let Ok(parsed) = server.parse::<async_nats::ServerAddr>() else { continue };
            let host = parsed.host().trim_matches(['[', ']']);
            if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
                let scheme = server.split_once("://").map_or("nats", |(scheme, _)| scheme);
                *server = format!("{scheme}://{}", SocketAddr::new(address, parsed.port()));
                ports.push(parsed.port());
            }
        }
        (moved, ports)
    }

    /// The name of the user who connects, if it has one.
    pub fn user(&self) -> Option<&str> {
        match &self.auth {
            Auth::User { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The servers' URLs, without credentials.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }

    /// The same as one text for people.
    pub fn shown(&self) -> String {
        self.servers.join(",")
    }

    /// First tokens of the subjects that answers come in on. A server's configuration can keep them apart: what is asked
    /// under one name is then not heard under another.
    pub fn inbox(&self) -> String {
        match (&self.inbox, &self.auth) {
            (Some(inbox), _) => inbox.clone(),
            (None, Auth::User { name, .. }) if is_plain(name) => format!("{INBOX}.{name}"),
            (None, _) => INBOX.to_owned(),
        }
    }
}

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Reads a file, without the blanks around its text.
    ///
    /// # Errors
    /// When it cannot be read, is empty, or has more than 64 KiB.
    pub fn read(path: &Path) -> Result<Secret, SettingsError> {
        let failed = |why: String| SettingsError::File { path: path.to_owned(), why };
        let size = std::fs::metadata(path).map_err(|why| failed(format!("cannot be read: {why}")))?.len();
        if size > 1 << 16 {
            return Err(failed("has more than 64 KiB, and is no secret".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|why| failed(format!("cannot be read: {why}")))?;
        match text.trim() {
            "" => Err(failed("is empty; its text is the secret".to_owned())),
            secret => Ok(Secret::new(secret)),
        }
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The server in a URL, and who connects to it. Nothing of the credentials is in an error.
fn server(text: &str) -> Result<(String, Auth), SettingsError> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
    // a password may hold any character, so the last `@` counts
    let (identity, place) = rest.rsplit_once('@').map_or((None, rest), |(identity, place)| (Some(identity), place));
    let place = place.trim_end_matches('/');
    let wrong = |why: &str| SettingsError::Url { url: format!("{scheme}://{place}"), why: why.to_owned() };
    if !matches!(scheme, "nats" | "tls") {
        return Err(wrong("its scheme is neither `nats` nor `tls`"));
    }
    if place.is_empty() {
        return Err(wrong("it names no host"));
    }
    let server = format!("{scheme}://{place}");
    let parsed: async_nats::ServerAddr = server.parse().map_err(|why: std::io::Error| wrong(&why.to_string()))?;
    if parsed.host().is_empty() || place.contains(['/', '?', '#']) {
        return Err(wrong("only a host and a port belong into it"));
    }
    let decoded = |text: &str| decode(text).ok_or_else(|| wrong("its credentials have a `%` without two digits"));
    let auth = match identity.map(|i| i.split_once(':').map_or((i, None), |(name, password)| (name, Some(password)))) {
        None | Some(("", None)) => Auth::Nobody,
        Some((token, None)) => Auth::Token(Secret(decoded(token)?)),
        Some((name, Some(password))) => Auth::User { name: decoded(name)?, password: Secret(decoded(password)?) },
    };
    Ok((server, auth))
}

/// Percent-encoded bytes (RFC 3986 §2.1) as they were meant.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(more.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

/// Whether a name can be a token of a subject.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_the_loopback_are_reached_elsewhere() {
        let settings =
            ConnectSettings::new("nats://u:p@127.0.0.1:4300,localhost,nats://[::1]:5,nats://lab:1").expect("four");
        let (moved, ports) = settings.moved(IpAddr::from([198, 18, 0, 1]));
        let there = ["nats://198.18.0.1:4300", "nats://198.18.0.1:4222", "nats://198.18.0.1:5", "nats://lab:1"];
        assert_eq!((moved.servers(), &ports[..]), (&there.map(str::to_owned)[..], &[4300, 4222, 5][..]));
        assert_eq!(moved.auth, settings.auth);
    }

    #[test]
    fn credentials_leave_the_url_and_are_not_shown() {
        let settings = ConnectSettings::new("nats://ann:p%40ss@a:4222, tls://b").expect("two servers");
        assert_eq!(settings.servers(), ["nats://a:4222", "tls://b"]);
        assert_eq!(settings.auth, Auth::User { name: "ann".to_owned(), password: Secret::new("p@ss") });
        assert!(settings.tls.require, "one of them asks for it");
        assert_eq!(settings.inbox(), "_INBOX.ann");
        let shown = format!("{settings:?} {}", settings.shown());
        assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
        let token = ConnectSettings::new("nats://s3cr3t@a").expect("a server");
        assert_eq!((token.auth.clone(), token.inbox()), (Auth::Token(Secret::new("s3cr3t")), "_INBOX".to_owned()));
        assert!(!format!("{token:?}").contains("s3cr3t"));
    }

    #[test]
    fn what_is_no_server_is_refused_without_its_secret() {
        for bad in [
            "http://ann:s3cr3t@a",
            "nats://ann:s3cr3t@",
            "nats://ann:s3cr3t@a:99999",
            "nats://ann:s3cr3t@a/path",
            "nats://ann:s3cr3t%zz@a",
            "ann:s3cr3t@a b",
            "nats://a,,nats://b",
            "",
        ] {
            let why = ConnectSettings::new(bad).expect_err(bad).to_string();
            assert!(why.contains("nats://127.0.0.1:4222") && !why.contains("s3cr3t"), "{bad}: {why}");
        }
        assert_eq!(ConnectSettings::new("nats://a:b@x,nats://c:d@y"), Err(SettingsError::Identities));
        assert!(ConnectSettings::new(&["nats://a"; 17].join(",")).is_err());
    }

    #[test]
    fn settings_survive_the_pipe_to_a_process() {
        let mut settings = ConnectSettings::new("nats://ann:s3cr3t@[::1]:4222").expect("a server");
        settings.tls.client = Some((PathBuf::from("a.pem"), PathBuf::from("a.key")));
        let text = serde_json::to_string(&settings).expect("JSON");
        assert_eq!(serde_json::from_str::<ConnectSettings>(&text).expect("the same"), settings);
    }
}
