//! The receiving end: takes publications in, acknowledges them, and connects again when the broker was lost.

use std::collections::BTreeSet;
use std::io;

use bytes::{Buf as _, BytesMut};
use rehearsal_core::plan::{MqttVersion, Qos};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::packet::{Ack, Packet, read, write_ack, write_ping};
use super::session::{BACKOFF, Caller, PING_EVERY, READ_BYTES, Session, foreign};
use crate::losses::Peer;
use crate::shard::Core;

/// Takes in what is published to a receiving actor.
pub(super) async fn run(shard: Core, actor: u32, caller: Caller, topic: String, qos: Qos, mut session: Session) {
    loop {
        let end = serve(&shard, actor, caller.version(), &mut session).await;
        let loss = end.map_or_else(|why| super::publisher::lost(&why), |never| match never {});
        shard.borrow_mut().subscription_lost(actor, Peer::Broker(caller.broker), loss);
        let mut wait = BACKOFF.0;
        session = loop {
            tokio::time::sleep(wait).await;
            match Session::open(&caller, Some((&topic, qos))).await {
                Ok(session) => break session,
                Err(_) => wait = (wait * 2).min(BACKOFF.1),
            }
        };
    }
}

/// Until the connection breaks.
async fn serve(
    shard: &Core,
    actor: u32,
    version: MqttVersion,
    session: &mut Session,
) -> io::Result<std::convert::Infallible> {
    let (mut out, mut pinged) = (BytesMut::new(), false);
    // of QoS 2: taken in, and not released by the broker; it will not send them anew as others
    let mut held = BTreeSet::new();
    loop {
        while let Some((packet, bytes)) = read(&session.read, version).map_err(|_| foreign())? {
            match packet {
                Packet::Publish { qos, id, payload } => {
                    let new = qos != Qos::ExactlyOnce || held.insert(id);
                    if new {
                        shard.borrow_mut().delivered(actor, payload);
                    }
                    match qos {
                        Qos::AtMostOnce => {}
                        Qos::AtLeastOnce => write_ack(&mut out, Ack::Received, id),
                        Qos::ExactlyOnce => write_ack(&mut out, Ack::Held, id),
                    }
                }
                Packet::PubRel { id } => {
                    held.remove(&id);
                    write_ack(&mut out, Ack::Complete, id);
                }
                Packet::PingResp => {}
                _ => return Err(foreign()),
            }
            session.read.advance(bytes);
        }
        if !out.is_empty() {
            session.say(&out).await?;
            out.clear();
        }
        session.read.reserve(READ_BYTES);
        match timeout(PING_EVERY, session.stream.read_buf(&mut session.read)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Ok(_)) => pinged = false,
            Ok(Err(why)) => return Err(why),
            Err(_) if pinged => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {
                pinged = true;
                write_ping(&mut out);
            }
        }
        // a broker that sends without end leaves other tasks their turn
        tokio::task::consume_budget().await;
    }
}
