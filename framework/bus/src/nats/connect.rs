//! Makes the connection, and finds out why there is none.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::rustls::{AlertDescription, CertificateError, Error as TlsError};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::counts::Counts;
use super::error::{ConnectFailure, NatsError};
use super::settings::{Auth, ConnectSettings};
use super::{CONNECT, INCOMING_MAX};

/// Between two questions whether the server is still there: two without an answer, and the connection is made anew.
/// Assumed: a host that vanishes is noticed within a life cycle's patience, and a process that stands still is not cut off.
const PING: Duration = Duration::from_secs(10);
/// Longest wait between two tries to reach a server that went away. Assumed: a lab's server is near, and back soon.
pub(super) const RECONNECT_MS_MAX: u64 = 250;
/// Longest first line of a server that is read: it lists the servers of its cluster.
const INFO_BYTES_MAX: u64 = 64 << 10;
/// Characters of somebody else's greeting that are shown.
const GREETING_CHARS_MAX: usize = 60;

/// What the client's library says of a certificate and a key that it cannot use together.
const UNFIT: &str = "could not add certificate or key";

/// What a server says before anybody has said anything.
struct Greeting {
    version: String,
    wants_identity: bool,
    encrypts: bool,
}

pub(super) async fn connect(settings: &ConnectSettings, name: &str, counts: &Arc<Counts>) -> Result<Client, NatsError> {
    connect_with(settings, name, counts, |options| options.no_echo().subscription_capacity(INCOMING_MAX)).await
}

/// The same, with options that are this connection's own.
pub(super) async fn connect_with(
    settings: &ConnectSettings,
    name: &str,
    counts: &Arc<Counts>,
    own: impl FnOnce(ConnectOptions) -> ConnectOptions,
) -> Result<Client, NatsError> {
    let url = settings.shown();
    let failed = |why| NatsError::Connect { url: url.clone(), why };
    let options = own(options(settings, name, counts).map_err(failed)?);
    let begun = Instant::now();
    let client = match options.connect(settings.servers()).await {
        Ok(client) => client,
        Err(why) => return Err(explain(settings, &why, begun).await),
    };
    let version = client.server_info().version;
    if super::is_new_enough(&version) { Ok(client) } else { Err(NatsError::Old { url, version }) }
}

fn options(settings: &ConnectSettings, name: &str, counts: &Arc<Counts>) -> Result<ConnectOptions, ConnectFailure> {
    let on_event = counts.clone();
    let options = ConnectOptions::new()
        .name(name)
        .connection_timeout(CONNECT)
        .ping_interval(PING)
        .custom_inbox_prefix(settings.inbox())
        .require_tls(settings.tls.require)
        .reconnect_delay_callback(|tries| Duration::from_millis((1 << tries.min(16)).min(RECONNECT_MS_MAX)))
        .event_callback(move |event| {
            on_event.note(&event);
            std::future::ready(())
        });
    let options = match &settings.tls.ca {
        Some(file) => options.add_root_certificates(file.clone()),
        None => options,
    };
    let options = match &settings.tls.client {
        Some((certificate, key)) => options.add_client_certificate(certificate.clone(), key.clone()),
        None => options,
    };
    Ok(match &settings.auth {
        Auth::Nobody => options,
        Auth::User { name, password } => options.user_and_password(name.clone(), password.reveal().to_owned()),
        Auth::Token(token) => options.token(token.reveal().to_owned()),
        Auth::Nkey(seed) => options.nkey(seed.reveal().to_owned()),
        Auth::Creds(text) => {
            let unusable = |why| ConnectFailure::Unusable(format!("the credentials file is none: {why}"));
            options.credentials(text.reveal()).map_err(unusable)?
        }
    })
}

/// Why a connection that was `begun` failed, as far as the client library and the server's first words tell.
async fn explain(settings: &ConnectSettings, why: &ConnectError, begun: Instant) -> NatsError {
    let url = settings.shown();
    let told = tls(why);
    let greeting = greet(settings).await;
    let late = || ConnectFailure::Late(begun.elapsed().as_secs_f64().round() as u64);
    let why = match (greeting, why.kind()) {
        (Ok(hello), _) if !super::is_new_enough(&hello.version) => {
            return NatsError::Old { url, version: hello.version };
        }
        (_, ConnectErrorKind::ServerParse) => ConnectFailure::Other(chain(why)),
        (Err(Some(failure)), _) => failure,
        (Err(None), _) => late(),
        (Ok(hello), _) if settings.tls.require && !hello.encrypts => ConnectFailure::Plain,
        (Ok(_), _) if told.is_some() => told.unwrap_or_else(late),
        (Ok(_), ConnectErrorKind::Authentication) => {
            ConnectFailure::Unusable("the seed of the nkey is none; it begins with `SU`".to_owned())
        }
        (Ok(hello), ConnectErrorKind::AuthorizationViolation) => unaccepted(settings, hello.wants_identity),
        (Ok(_), ConnectErrorKind::TimedOut) => late(),
        (Ok(_), ConnectErrorKind::Tls) if settings.tls.client.is_some() && chain(why).contains(UNFIT) => {
            let what = "--nats-cert and --nats-key do not fit each other, or one of them cannot be used";
            ConnectFailure::Unusable(what.to_owned())
        }
        (Ok(_), ConnectErrorKind::Tls) => ConnectFailure::Tls(chain(why)),
        _ => ConnectFailure::Other(chain(why)),
    };
    NatsError::Connect { url, why }
}

fn unaccepted(settings: &ConnectSettings, wants_identity: bool) -> ConnectFailure {
    let who = match &settings.auth {
        Auth::Nobody if wants_identity && settings.tls.client.is_none() => return ConnectFailure::Nameless,
        Auth::Nobody => "this client's certificate; its subject must be a user of the server".to_owned(),
        Auth::User { name, .. } => format!("user `{name}` with this password"),
        Auth::Token(_) => "this token".to_owned(),
        Auth::Nkey(_) => "this nkey; its public part must be a user of the server".to_owned(),
        Auth::Creds(_) => "these credentials: they have expired, or their account is not known there".to_owned(),
    };
    ConnectFailure::Unaccepted(who)
}

/// What TLS itself had against the connection, if it had.
fn tls(why: &ConnectError) -> Option<ConnectFailure> {
    let mut next: Option<&(dyn Error + 'static)> = why.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<TlsError>() {
            return Some(certificate(found));
        }
        next = match error.downcast_ref::<io::Error>() {
            // an error inside an I/O error is not its source
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn certificate(error: &TlsError) -> ConnectFailure {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    match error {
        TlsError::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => ConnectFailure::Expired,
        TlsError::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => ConnectFailure::Early,
        TlsError::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => ConnectFailure::UnknownAuthority,
        TlsError::InvalidCertificate(why @ (Bad::NotValidForName | Bad::NotValidForNameContext { .. })) => {
            ConnectFailure::WrongName(why.to_string())
        }
        TlsError::AlertReceived(Alert::CertificateExpired) => ConnectFailure::ClientExpired,
        TlsError::AlertReceived(
            Alert::CertificateRequired | Alert::BadCertificate | Alert::UnknownCA | Alert::HandshakeFailure,
        ) => ConnectFailure::ClientCertificate,
        other => ConnectFailure::Tls(other.to_string()),
    }
}

/// Asks who listens. A server greets first, and before encryption. Without a failure nobody said anything in time.
async fn greet(settings: &ConnectSettings) -> Result<Greeting, Option<ConnectFailure>> {
    let mut failure = None;
    for server in settings.servers() {
        let Ok(address) = server.parse::<async_nats::ServerAddr>() else { continue };
        let greeted = async {
            let mut stream = TcpStream::connect((address.host(), address.port()))
                .await
                .map_err(|why| ConnectFailure::Nobody(why.to_string()))?;
            first_line(&mut stream).await
        };
        failure = match tokio::time::timeout(CONNECT, greeted).await {
            Ok(Ok(line)) => match read(&line) {
                Some(greeting) => return Ok(greeting),
                None => Some(ConnectFailure::Stranger(shown(&line))),
            },
            Ok(Err(why)) => Some(why),
            Err(_) => None,
        };
    }
    Err(failure)
}

async fn first_line(stream: &mut TcpStream) -> Result<Vec<u8>, ConnectFailure> {
    let mut line = Vec::new();
    let mut stream = stream.take(INFO_BYTES_MAX);
    while !line.contains(&b'\n') {
        let read = stream.read_buf(&mut line).await.map_err(|why| ConnectFailure::Nobody(why.to_string()))?;
        if read == 0 {
            break;
        }
    }
    Ok(line)
}

/// `INFO {…}`.
fn read(line: &[u8]) -> Option<Greeting> {
    let json = line.strip_prefix(b"INFO ")?;
    let json: serde_json::Value = serde_json::from_slice(json.split(|b| *b == b'\n').next()?).ok()?;
    let is = |key: &str| json[key].as_bool().unwrap_or(false);
    Some(Greeting {
        version: json["version"].as_str()?.to_owned(),
        wants_identity: is("auth_required"),
        encrypts: is("tls_required") || is("tls_available"),
    })
}

fn shown(line: &[u8]) -> String {
    if line.is_empty() {
        return "nothing, and closes".to_owned();
    }
    let text = String::from_utf8_lossy(line);
    let first: String = text.lines().next().unwrap_or_default().chars().take(GREETING_CHARS_MAX).collect();
    format!("`{}`", first.escape_debug())
}

/// An error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |e| (*e).source()).map(ToString::to_string) {
        // some errors tell their cause themselves
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
