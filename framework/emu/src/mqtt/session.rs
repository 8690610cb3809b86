//! A connection to a broker, from its first byte to the end of its greetings.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{MqttVersion, Qos};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::packet::{Packet, Welcome, read, write_connect, write_subscribe};
use crate::marks;

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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Caller {
    pub broker: SocketAddr,
    pub five: bool,
    pub dscp: Dscp,
    /// Its name at the broker; no two clients may share one.
    pub name: String,
}

impl Caller {
    pub(super) fn version(&self) -> MqttVersion {
        if self.five { MqttVersion::V5 } else { MqttVersion::V311 }
    }
}

/// A connection that is open.
pub(super) struct Session {
    pub stream: TcpStream,
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
        let stream = TcpStream::connect(caller.broker).await?;
        stream.set_nodelay(true)?;
        marks::mark(&stream, caller.dscp);
        let welcome = Welcome { code: 0, receive_max: 1, qos_max: 2, packet_max: 0 };
        let mut session = Session { stream, read: BytesMut::new(), welcome };
        let mut out = BytesMut::new();
        write_connect(&mut out, caller.version(), &caller.name, KEEP_ALIVE_S);
        session.stream.write_all(&out).await?;
        loop {
            if let Some(end) = session.heard(caller.version(), topic)? {
                match end {
                    Heard::Welcome(welcome) => {
                        session.welcome = welcome;
                        let Some((topic, qos)) = topic else { return Ok(session) };
                        out.clear();
                        write_subscribe(&mut out, caller.version(), 1, topic, qos);
                        session.stream.write_all(&out).await?;
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
