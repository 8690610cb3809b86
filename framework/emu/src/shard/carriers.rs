//! How attempts leave: over an imposed link if there is one, then by a connection of their carrier; and how answers over
//! NATS come back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::header::HeaderValue;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::outside::template::Item;
use rehearsal_core::payload::RenderContext;
use rehearsal_core::plan::Carrier;
use rehearsal_core::{ActorId, Head, Payload, Request, Status, SubjectId};
use rehearsal_models::path::Direction;

use super::requests::{Live, Stage};
use super::rides::Cargo;
use super::timers::class;
use super::{Local, Shard, State};
use crate::clock::unix_ns;
use crate::http::client::{ConnectionId, Route};
use crate::http::form::Asked;
use crate::http::step::Stepped;
use crate::losses::{Loss, Peer};
use crate::nats::Out;
use crate::tcp::client::{LaneId, Target};

/// The ways from nodes here to the subjects that they send to, for each class of traffic, each found once.
pub(super) type Ways = BTreeMap<(usize, SubjectId, Dscp), Way>;

/// How an attempt gets to its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    by: By,
    /// The imposed path, if any part of it is imposed.
    pub(super) path: Option<u32>,
}

impl Way {
    /// Whether a publication is delivered to this process.
    pub(super) fn delivers_here(self) -> bool {
        matches!(self.by, By::Mqtt(_, true))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Http(Route),
    Tcp(LaneId),
    Echo(SocketAddr),
    /// Over this connection to a broker; whether the receiver is in this process.
    Mqtt(usize, bool),
    Nats,
}

/// An attempt that a connection is to send.
pub(crate) struct Outgoing {
    /// Its slot and generation, which come back with the answer.
    pub id: (u32, u32),
    pub head: Head,
    pub body: Bytes,
    pub content_type: HeaderValue,
    /// What it looks like, if it goes to a target outside.
    pub asked: Option<Asked>,
    /// What the rest of it looks like, if a user's script makes it.
    pub step: Option<Arc<Stepped>>,
}

/// How an attempt ended, as its connection saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub status: Status,
    pub bytes: u32,
}

impl State {
    /// Sends an attempt on its way: over an imposed link first, or to its carrier at once.
    pub(super) fn transmit(&mut self, slot: u32) {
        let live = self.live.at_mut(slot);
        live.stage = Stage::Ready;
        let group = &self.world.groups[self.books[live.row].group];
        let (to, node, dscp) = (live.request.to, group.node, group.dscp);
        let known = self.ways.get(&(node, to, dscp)).copied().filter(|_| !self.world.has_moved());
        let Some(way) = known.or_else(|| self.find_way(node, to, dscp)) else { return self.refuse(slot, true) };
        let live = self.live.at_mut(slot);
        live.way = Some(way);
        let Some(path) = way.path else { return self.dispatch(slot) };
        live.stage = Stage::Riding;
        let bytes = live.request.payload.bytes;
        self.book(slot);
        let target = self.world.subjects.owner(to).map_or(0, |owner| owner.0);
        let (wait, window) = self.rides.links.connect(self.now(), path, target);
        let live = self.live.at_mut(slot);
        live.window = window;
        let cargo = Cargo::Request(slot, self.live.generation(slot));
        let ride = self.rides.ride(cargo, (path, Direction::Up), bytes, dscp, window);
        self.set_off(ride, wait);
    }

    /// Gives an attempt to a connection of its carrier, or lets it wait for one.
    pub(super) fn dispatch(&mut self, slot: u32) {
        let generation = self.live.generation(slot);
        let live = self.live.at_mut(slot);
        let Some(way) = live.way else { return };
        let rode = live.stage == Stage::Riding;
        match way.by {
            By::Http(route) => {
                let shares = self.client.shares(route);
                live.stage = if rode || shares { Stage::Carried } else { Stage::Ready };
                if shares && !rode {
                    self.book(slot);
                }
                self.client.dispatch(route, (slot, generation), &self.me);
            }
            By::Tcp(lane) => {
                live.stage = if rode { Stage::Carried } else { Stage::Ready };
                self.lanes.dispatch(lane, (slot, generation), &self.me);
            }
            By::Echo(to) => {
                if !rode {
                    self.book(slot);
                }
                self.ask_echo(slot, to);
            }
            By::Mqtt(line, _) => {
                live.stage = Stage::Publishing;
                if !rode {
                    self.book(slot);
                }
                if !self.publishers.at(line).put((slot, generation)) {
                    self.notes.note("publications found no room before the MQTT broker".to_owned());
                    self.queue.push_back(Local::End { slot, generation, status: Status::Unacknowledged });
                }
            }
            By::Nats => {
                live.stage = Stage::Asked { gone: false };
                if !rode {
                    self.book(slot);
                }
                if !self.nats.as_ref().is_some_and(|nats| nats.put(Out::Ask(slot, generation))) {
                    self.notes.note("requests found no room before the NATS server".to_owned());
                    self.queue.push_back(Local::End { slot, generation, status: Status::Unacknowledged });
                }
            }
        }
    }

    /// The way from a node to a subject, found once for each pair while nobody moves; `None` if there is none yet, or only for datagrams.
    fn find_way(&mut self, node: usize, to: SubjectId, dscp: Dscp) -> Option<Way> {
        let owner = self.world.subjects.owner(to)?;
        let there = self.world.groups[self.world.group_of(owner.0)].node;
        let link = self.world.plan.link(node, there);
        let by = match link.carrier {
            Carrier::Http1 | Carrier::Http2 | Carrier::Http3 => {
                let address = self.world.address(owner)?;
                let target = crate::http::client::Target::of(&self.world, node, there, address, dscp);
                By::Http(self.client.open_route(target))
            }
            // bare bytes have a connection or a socket for each attempt, as requests of HTTP/1.1 have
            Carrier::Tcp | Carrier::Udp if link.outside && link.is_exchange() => {
                let address = self.world.address(owner)?;
                let target = crate::http::client::Target::of(&self.world, node, there, address, dscp);
                By::Http(self.client.open_route(target))
            }
            Carrier::Nats => By::Nats,
            Carrier::Tcp => {
                let address = self.world.address(owner)?;
                By::Tcp(self.lanes.lane(Target::of(&self.world, (node, there), address, dscp)))
            }
            Carrier::Udp if link.is_exchange() => By::Echo(self.world.address(owner)?),
            Carrier::Mqtt if link.is_exchange() => {
                By::Mqtt(self.publishers.of(node, link, dscp)?, self.world.plan.nodes[there].local)
            }
            Carrier::Udp | Carrier::Mqtt | Carrier::Frames => return None,
        };
        let way = Way { by, path: self.imposed_path(node, to) };
        self.ways.insert((node, to, dscp), way);
        Some(way)
    }

    /// An attempt is sent now: into the books, and its deadline begins.
    pub(super) fn book(&mut self, slot: u32) {
        let now = self.now();
        let generation = self.live.generation(slot);
        let live = self.live.at_mut(slot);
        live.times.sent = now;
        let request = live.request;
        let books = &mut self.books[live.row];
        books.ledger.sent(&request, books.first + live.who - books.base, &live.times, &books.spec);
        let (ring, first) = self.deadlines.set(now, request.deadline, slot, generation);
        if first {
            self.timers.push(now.saturating_add(request.deadline), class::DEADLINE, 0, ring as u64);
        }
        let table = &self.live;
        self.deadlines.trim(ring, 2, |s, g| !table.live(s, g));
    }

    /// The next attempt for a connection, or `None` if it is to close.
    pub(crate) fn poll_job(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            match self.client.next(id, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some((slot, generation))) => {
                    let free = |l: &Live| matches!(l.stage, Stage::Ready | Stage::Carried);
                    if self.live.get(slot, generation).is_some_and(free) {
                        return Poll::Ready(Some(self.send(id, slot, generation)));
                    }
                }
            }
        }
    }

    fn send(&mut self, id: ConnectionId, slot: u32, generation: u32) -> Outgoing {
        if self.live.at(slot).stage == Stage::Ready {
            self.book(slot);
        }
        self.live.at_mut(slot).stage = Stage::Sent(id);
        self.outgoing(slot, generation)
    }

    /// What an attempt is to its carrier.
    fn outgoing(&self, slot: u32, generation: u32) -> Outgoing {
        let live = self.live.at(slot);
        let (request, who, books) = (live.request, live.who, &self.books[live.row]);
        let Request { stream, seq, limit, reply_bytes, .. } = request;
        let head = Head { from: Some(ActorId(who)), stream, class: 0, seq, limit, reply_bytes };
        let member = books.first + who - books.base;
        let (body, content_type) = self.render(request.payload, member);
        let asked = self.world.groups[books.group].form.as_ref().map(|form| {
            let item = Item { seq: request.payload.seq, member, epoch_ns: unix_ns() };
            Asked { form: form.clone(), item }
        });
        let (recipe, number) = (request.payload.recipe, request.payload.seq);
        let step = self.world.steps.get(&recipe.0).map(|form| Arc::new(form.write(member, number, unix_ns())));
        Outgoing { id: (slot, generation), head, body, content_type, asked, step }
    }

    /// The bytes of a payload and its media type.
    pub(super) fn render(&self, payload: Payload, member: u32) -> (Bytes, HeaderValue) {
        let Some(recipe) = self.world.recipes.get(usize::from(payload.recipe.0)) else {
            return (Bytes::new(), HeaderValue::from_static("application/octet-stream"));
        };
        let content_type = HeaderValue::from_static(recipe.content_type());
        if let Some(bytes) = recipe.shared(payload.seq) {
            return (bytes, content_type);
        }
        let mut bytes = BytesMut::with_capacity(payload.bytes as usize);
        self.render_into(payload, member, &mut bytes);
        (bytes.freeze(), content_type)
    }

    /// Appends the bytes of a payload.
    pub(super) fn render_into(&self, payload: Payload, member: u32, out: &mut BytesMut) {
        self.render_at(unix_ns(), payload, member, out);
    }

    /// The same, at a time that was read before.
    pub(super) fn render_at(&self, epoch_ns: u64, payload: Payload, member: u32, out: &mut BytesMut) {
        let Some(recipe) = self.world.recipes.get(usize::from(payload.recipe.0)) else { return };
        let before = out.len();
        match recipe.shared(payload.seq) {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => {
                let cx = RenderContext { seq: payload.seq, member, epoch_ns, bytes: payload.bytes };
                recipe.render(cx, out);
            }
        }
        debug_assert_eq!(out.len() - before, payload.bytes as usize, "a recipe renders what it announced");
    }
}

impl Shard {
    /// The next attempt for a connection; see [`State::poll_job`].
    pub(crate) fn poll_job(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<Option<Outgoing>> {
        self.state.poll_job(id, cx)
    }

    /// An attempt leaves over NATS now, unless it is over: the receiver's subject, and what to send.
    pub(crate) fn ask(&mut self, slot: u32, generation: u32) -> Option<(String, Outgoing)> {
        let state = &mut self.state;
        let live = state.live.get_mut(slot, generation)?;
        if !matches!(live.stage, Stage::Asked { .. }) {
            return None;
        }
        live.stage = Stage::Asked { gone: true };
        let subject = state.world.subjects.name(live.request.to).into_owned();
        Some((subject, state.outgoing(slot, generation)))
    }

    /// An answer to an attempt came in over NATS, or it could not be sent.
    pub(crate) fn answered(&mut self, (slot, generation): (u32, u32), answer: Answer) {
        match self.state.live.get_mut(slot, generation).filter(|l| matches!(l.stage, Stage::Asked { .. })) {
            Some(live) => {
                live.stage = Stage::Answered;
                self.outcome(slot, answer.status, answer.bytes);
            }
            None => self.state.late_replies += 1,
        }
        self.settle();
    }

    /// Nobody takes requests on an attempt's subject.
    pub(crate) fn nobody_answers(&mut self, (slot, generation): (u32, u32)) {
        let Some(live) = self.state.live.get(slot, generation) else { return };
        let (to, node) = (live.request.to, self.state.world.groups[self.state.books[live.row].group].node);
        let subject = self.state.world.subjects.name(to).into_owned();
        self.answered((slot, generation), Answer { status: Status::Unacknowledged, bytes: 0 });
        self.connection_lost(node, Peer::Subject(subject), Loss::Refused);
    }

    /// The connection to the NATS server was lost: what had left will not be answered.
    pub(crate) fn server_lost(&mut self, loss: Loss) {
        let gone = |l: &Live| l.stage == Stage::Asked { gone: true };
        let lost: Vec<u32> = self.state.live.iter().filter(|(_, l)| gone(l)).map(|(slot, _)| slot).collect();
        let Some(node) = self.state.nodes.first().map(|n| n.node) else { return };
        self.connection_lost(node, Peer::NatsServer, loss);
        for slot in lost {
            self.outcome(slot, Status::Unacknowledged, 0);
        }
        self.settle();
    }

    /// Tells a fact for the verdict's notes.
    pub(crate) fn note(&self, text: String) {
        self.state.notes.note(text);
    }
}
