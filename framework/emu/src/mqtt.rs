//! The carrier `mqtt` (OASIS MQTT 3.1.1 and 5.0): a sending node has a connection to the broker, and so has each receiving
//! actor, which subscribes to a topic of its own before the run may begin.
//!
//! The topic is the receiver's subject with slashes for dots: `lab/v1/<run>/trf/<node>/<actor>`. The first 32 bytes of the
//! payload are the header of a datagram (see [`crate::udp`]), by which a receiver counts what comes in as it counts
//! datagrams: received, twice, out of order, and how long it was on the way.
//!
//! * QoS 0: a publication is a datagram to the books. Nothing tells its sender what became of it, so that the receivers'
//!   counts settle it at the end.
//! * QoS 1 and 2: it is an exchange whose outcome is the broker's PUBACK or PUBCOMP. That the broker has it does not say
//!   that the receiver has: its count of datagrams does.
//!
//! Above QoS 0 as many messages are under way on a connection as the broker's CONNACK allows. When a connection breaks,
//! what was under way is unacknowledged at once, and the connection is tried again; sessions are clean, so that no state of
//! a former connection is taken up. The packets are written and read here ([`packet`]): this carrier needs nine sorts of
//! them, into buffers that it has anyway, and a client library would bring a task, a queue and a copy of each payload.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use rehearsal_core::Role;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::outside::Url;
use rehearsal_core::plan::{Carrier, LinkSpec, MqttSpec, MqttVersion, Qos};
use rehearsal_core::subject::{Plane, subject};
use tokio::task::AbortHandle;

use crate::error::EmuError;
use crate::http::client::server_name;
use crate::shard::Core;
use crate::world::World;

mod packet;
mod publisher;
mod session;
mod subscriber;

pub(crate) use packet::write_publish;
use publisher::Key;
pub(crate) use publisher::Publishers;
use session::{Caller, Login, Session};

/// The broker's port if none is said. Source: IANA, `mqtt` 1883/tcp.
const PORT: u16 = 1883;

/// Where a broker is.
///
/// # Errors
/// What is wrong with the text, or that the name is not known.
pub fn broker(spec: &MqttSpec) -> Result<SocketAddr, String> {
    let text = &spec.broker;
    let Some((host, port)) = spec.address() else {
        return Err(format!("`{text}` is no broker; write for instance `mqtt://127.0.0.1:{PORT}`"));
    };
    let with_port = format!("{host}:{}", port.unwrap_or(PORT));
    let found = with_port.to_socket_addrs().map_err(|why| format!("the broker `{text}` is not known: {why}"))?;
    found.into_iter().next().ok_or_else(|| format!("the broker `{text}` has no address"))
}

/// What a shard's connections are before there is a shard.
#[derive(Default)]
pub(crate) struct Opened {
    publishers: Vec<(Key, Caller, Session)>,
    subscribers: Vec<(u32, Caller, String, Qos, Session)>,
}

/// Connects the shard at `index` to the brokers of its nodes: every receiver is subscribed then.
///
/// # Errors
/// When a broker is not there, or refuses.
pub(crate) async fn open(world: &World, index: usize) -> Result<Opened, EmuError> {
    let mut opened = Opened::default();
    let here = |node: usize| world.plan.nodes[node].local && world.shard_of[node] == index;
    let mut subscribed = BTreeMap::new();
    for (sender, receiver, link, spec) in routes(world) {
        let failed = |why: String| EmuError::Broker { broker: spec.broker.clone(), why };
        let (sending, receiving) = (&world.groups[sender], &world.groups[receiver]);
        let outside = world.plan.nodes[receiving.node].outside.as_ref();
        let address = match outside {
            // it was looked up, once
            Some(outside) => outside.address.ok_or_else(|| failed("nobody has looked up where it is".to_owned()))?,
            None => broker(spec).map_err(failed)?,
        };
        let five = spec.version == MqttVersion::V5;
        if here(sending.node) {
            let key = (sending.node, spec.broker.clone(), five, sending.dscp, link.outside);
            if opened.publishers.iter().all(|(known, ..)| *known != key) {
                let name = name(world, sending.node, 's', opened.publishers.len());
                let login = outside.map(|outside| login(world, sender, receiving.node, &outside.origin));
                let login = login.transpose().map_err(failed)?.map(Arc::new);
                let caller = Caller { broker: address, five, dscp: sending.dscp, name, login };
                let session = Session::open(&caller, None).await.map_err(|why| failed(why.to_string()))?;
                opened.publishers.push((key, caller, session));
            }
        }
        let members = receiving.base..receiving.base + (receiving.members.end - receiving.members.start);
        for actor in members.filter(|_| here(receiving.node)) {
            let known: &mut Qos = subscribed.entry((actor, address, five)).or_insert(link.qos());
            *known = (*known).max(link.qos());
        }
    }
    for ((actor, address, five), qos) in subscribed {
        let failed = |why: std::io::Error| EmuError::Broker { broker: address.to_string(), why: why.to_string() };
        let node = world.groups[world.group_of(actor)].node;
        let name = name(world, node, 'r', actor as usize);
        let caller = Caller { broker: address, five, dscp: Dscp::DF, name, login: None };
        let topic = topic(world, actor);
        let session = Session::open(&caller, Some((&topic, qos))).await.map_err(failed)?;
        opened.subscribers.push((actor, caller, topic, qos, session));
    }
    Ok(opened)
}

/// Begins to move a shard's traffic. The first tasks take in publications, and end when the books are closed.
pub(crate) fn begin(shard: &Core, opened: Opened) -> Vec<AbortHandle> {
    for (key, caller, session) in opened.publishers {
        let line = shard.borrow_mut().publishers().line(key, caller);
        tokio::task::spawn_local(publisher::run(shard.clone(), line, session));
    }
    let subscribe = |(actor, caller, topic, qos, session)| {
        tokio::task::spawn_local(subscriber::run(shard.clone(), actor, caller, topic, qos, session)).abort_handle()
    };
    opened.subscribers.into_iter().map(subscribe).collect()
}

/// Sending and receiving groups that a broker lies between.
fn routes(world: &World) -> Vec<(usize, usize, &LinkSpec, &MqttSpec)> {
    let mut routes = Vec::new();
    for (from, sender) in world.groups.iter().enumerate().filter(|(_, g)| g.role == Role::Sender) {
        for (to, receiver) in world.groups.iter().enumerate().filter(|(_, g)| g.serve.is_some()) {
            let link = world.plan.link(sender.node, receiver.node);
            if let Some(spec) = link.mqtt.as_deref().filter(|_| link.carrier == Carrier::Mqtt && aims(world, from, to))
            {
                routes.push((from, to, link, spec));
            }
        }
    }
    routes
}

/// Whether the senders of one group aim at another.
fn aims(world: &World, from: usize, to: usize) -> bool {
    let (sender, receiver) = (&world.groups[from], &world.groups[to]);
    let planned = world.plan.nodes[sender.node].groups.iter().find(|g| g.actor == sender.actor);
    let wanted = format!("{}/{}", world.plan.nodes[receiver.node].template, receiver.actor);
    let to = planned.and_then(|g| g.sender.as_ref()).and_then(|s| world.plan.path_to(&s.to));
    to.is_some_and(|to| to == wanted)
}

/// How the senders of a group make themselves known to a broker outside, for which the node at row `to` stands.
fn login(world: &World, sender: usize, to: usize, origin: &str) -> Result<Login, String> {
    let group = &world.groups[sender];
    let said = group.form.as_ref().map(|form| form.mqtt.clone()).unwrap_or_default();
    let password = said.password_file.as_ref().map(|path| -> Result<Vec<u8>, String> {
        let text = std::fs::read(world.plan.base.join(path)).map_err(|why| format!("{}: {why}", path.display()))?;
        let line = text.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
        // what a packet holds. Source: MQTT 5.0 §1.5.6
        Ok(line[..line.len().min(usize::from(u16::MAX))].to_vec())
    });
    let password = password.transpose()?;
    let names = |row: usize| world.plan.nodes[row].template.as_str();
    let row = world.plan.link_row(names(group.node), names(to));
    let link = &world.plan.links[row];
    let tls = if link.is_encrypted() {
        let side = world.trust.client(row, link).map_err(|why| why.to_string())?;
        let said = link.tls.as_ref().and_then(|tls| tls.server_name.clone());
        let host = said.or_else(|| Some(Url::read(origin).ok()?.host)).unwrap_or_default();
        let name = server_name(&host).ok_or_else(|| format!("`{host}` is no name that a certificate could be of"))?;
        Some((side.config, name))
    } else {
        None
    };
    Ok(Login { to, user: said.user, password, tls })
}

/// The topic of a receiving actor.
pub(crate) fn topic(world: &World, actor: u32) -> String {
    let (node, name) = world.names(actor);
    subject(&world.plan.info.run, Plane::Traffic, node, &name, "").replace('.', "/")
}

/// A client's name: at most 23 letters and digits, as every broker takes. Source: MQTT 3.1.1 §3.1.3.1.
fn name(world: &World, node: usize, role: char, number: usize) -> String {
    format!("rh{:04x}{:x}{role}{node:x}{role}{number:x}", world.run_hash, world.incarnation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_url_with_or_without_a_port() {
        let of = |text: &str| {
            let (qos, version) = (Qos::AtLeastOnce, MqttVersion::V5);
            broker(&MqttSpec { broker: text.to_owned(), qos, version })
        };
        assert_eq!(of("mqtt://127.0.0.1").map(|a| a.to_string()), Ok("127.0.0.1:1883".to_owned()));
        assert_eq!(of("mqtt://127.0.0.1:7/").map(|a| a.to_string()), Ok("127.0.0.1:7".to_owned()));
        assert_eq!(of("mqtt://[::1]").map(|a| a.to_string()), Ok("[::1]:1883".to_owned()));
        for bad in ["127.0.0.1:1883", "mqtts://x", "mqtt://", "mqtt://a/b", "mqtt://me:secret@127.0.0.1"] {
            assert!(of(bad).is_err_and(|why| why.contains("mqtt://127.0.0.1:1883")), "{bad}");
        }
    }
}
