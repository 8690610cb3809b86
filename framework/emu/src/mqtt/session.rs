//! A connection to a broker, from its first byte to the end of its greetings.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{MqttVersion, Qos};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::packet::{Packet, Welcome, read, write_connect, write_subscribe};
use crate::carried::{Carried, Unopened};
use crate::tls::Agreed;

/// How long a broker may take to greet.
const GREETING: Duration = Duration::from_secs(5);
/// The keep-alive that is promised, s: a broker closes after one and a half of it without a packet.
const KEEP_ALIVE_S: u16 = 30;
/// Between two pings of a connection that has nothing else to say. Source: MQTT 5.0 §3.1.2.10 asks for less than the above.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);
/// First and longest wait between two tries to connect again.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Room for packets.
pub(super) const READ_BYTES: usize = 16 << 10;

/// Who connects, and to whom.
#[derive(Clone)]
pub(super) struct Caller {
    pub broker: SocketAddr,
    pub five: bool,
    pub dscp: Dscp,
    /// Its name at the broker; no two clients may share one.
    pub name: String,
    /// What a broker outside must know.
    pub login: Option<Arc<Login>>,
}

/// How a client makes itself known to a broker outside.
pub(super) struct Login {
    /// The row of the node that stands for it.
    pub to: usize,
    pub user: Option<String>,
    pub password: Option<Vec<u8>>,
    /// How the connection is encrypted, if it is.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Caller {
    pub(super) fn version(&self) -> MqttVersion {
        if self.five { MqttVersion::V5 } else { MqttVersion::V311 }
    }
}

/// A connection that is open.
pub(super) struct Session {
    pub stream: Carried,
    /// What both ends of an encrypted connection agreed on.
    pub agreed: Option<Agreed>,
    pub read: BytesMut,
    pub welcome: Welcome,
}

impl Session {
    /// Connects, and subscribes if there is something to subscribe to.
    ///
    /// # Errors
    /// When the broker is not there, is none, or refuses.
    pub(super) async fn open(caller: &Caller, topic: Option<(&str, Qos)>) -> io::Result<Session> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(GREETING, Session::greet(caller, topic)).await.map_err(late)?
    }

    async fn greet(caller: &Caller, topic: Option<(&str, Qos)>) -> io::Result<Session> {
        let login = caller.login.as_deref();
        let dialled = Carried::dial(caller.broker, caller.dscp, login.and_then(|login| login.tls.clone())).await;
        let (stream, agreed) = dialled.map_err(|why| match why {
            Unopened::Socket(why) => why,
            Unopened::Handshake(fault) => io::Error::other(fault.says("the broker", "the connection")),
        })?;
        let welcome = Welcome { code: 0, receive_max: 1, qos_max: 2, packet_max: 0 };
        let mut session = Session { stream, agreed, read: BytesMut::new(), welcome };
        let mut out = BytesMut::new();
        let known = login.map_or((None, None), |login| (login.user.as_deref(), login.password.as_deref()));
        write_connect(&mut out, caller.version(), &caller.name, KEEP_ALIVE_S, known);
        session.say(&out).await?;
        loop {
            if let Some(end) = session.heard(caller.version(), topic)? {
                match end {
                    Heard::Welcome(welcome) => {
                        session.welcome = welcome;
                        let Some((topic, qos)) = topic else { return Ok(session) };
                        out.clear();
                        write_subscribe(&mut out, caller.version(), 1, topic, qos);
                        session.say(&out).await?;
                    }
                    Heard::Subscribed => return Ok(session),
                }
                continue;
            }
            session.read.reserve(READ_BYTES);
            if session.stream.read_buf(&mut session.read).await? == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Writes all of it.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        // what is encrypted may wait for more
        self.stream.flush().await
    }

    fn heard(&mut self, version: MqttVersion, topic: Option<(&str, Qos)>) -> io::Result<Option<Heard>> {
        let Some((packet, bytes)) = read(&self.read, version).map_err(|_| foreign())? else { return Ok(None) };
        let heard = match packet {
            Packet::ConnAck(welcome) if welcome.code == 0 => {
                let wanted = topic.map_or(0, |(_, qos)| u8::from(qos));
                if welcome.qos_max < wanted {
                    return Err(io::Error::other(format!("the broker grants QoS {} at most", welcome.qos_max)));
                }
                Heard::Welcome(welcome)
            }
            Packet::ConnAck(Welcome { code, .. }) => {
                return Err(io::Error::other(format!("the broker refuses the client: code {code}")));
            }
            Packet::SubAck { refused: false } => Heard::Subscribed,
            Packet::SubAck { refused: true } => return Err(io::Error::other("the broker refuses the subscription")),
            _ => return Err(foreign()),
        };
        self.read.advance(bytes);
        Ok(Some(heard))
    }
}

enum Heard {
    Welcome(Welcome),
    Subscribed,
}

/// The peer speaks something else.
pub(super) fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the broker answered with something else than MQTT")
}
