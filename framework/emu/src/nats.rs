//! The carrier `nats`: one connection of a shard to the server, and the tasks that move its traffic. What exchanges look
//! like on the wire is told in [`rehearsal_bus::nats`].
//!
//! Nothing here makes a shard wait. What it sends goes into a bounded queue that a task empties while the server is
//! there. An attempt counts as sent when it enters the queue, so waiting for the server is service time; one that waits
//! too long meets its deadline, and is not sent then. When the connection is lost, attempts that
//! had left are unacknowledged at once, as over a connection that is reset.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use rehearsal_bus::nats::{Answered, Answers, Asked, ConnectSettings, NatsError, ReplyTo, Requests, Service};
use rehearsal_core::plan::Carrier;
use rehearsal_core::subject::{Plane, subject};
use rehearsal_core::{Role, Status};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::EmuError;
use crate::http::{code, status};
use crate::losses::Loss;
use crate::shard::{Answer, Arrival, Core, Outgoing};
use crate::world::World;

/// What may wait for the server: as many as messages between processes.
const WAITING_MAX: usize = 65_536;
/// How long the server may take to know of all subscriptions.
const READY: Duration = Duration::from_secs(5);
/// Between two looks at whether the server is back.
const LOOK: Duration = Duration::from_millis(5);
/// Messages handled before other tasks have their turn.
const BATCH: usize = 64;

/// A shard's way to the server.
pub(crate) struct Outbox {
    queue: mpsc::Sender<Out>,
    requests: Rc<Requests>,
}

/// Something to send.
pub(crate) enum Out {
    /// An attempt, by its slot and generation.
    Ask(u32, u32),
    /// An answer.
    Answer { to: ReplyTo, status: Status, body: Bytes },
}

impl Outbox {
    /// Whether there was room.
    pub(crate) fn put(&self, out: Out) -> bool {
        self.queue.try_send(out).is_ok()
    }

    /// What went wrong on the connection, for the verdict's notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let traffic = self.requests.traffic();
        let mut notes = Vec::new();
        let mut more = |count: u64, what: &str| notes.extend((count > 0).then(|| format!("{count} {what}")));
        more(traffic.dropped, "requests or answers over NATS found a full buffer in the client and were dropped");
        more(traffic.refusals, "errors were told by the NATS server that traffic went over");
        notes
    }
}

/// A connection that serves a shard and has no shard yet.
pub(crate) struct Line {
    requests: Rc<Requests>,
    answers: Answers,
    services: Vec<(u32, Service)>,
    queue: mpsc::Receiver<Out>,
}

/// Connects the shard at `index`, if its nodes have traffic over NATS: subscribed, and known to the server.
///
/// # Errors
/// When there is no server, or it does not permit what is needed.
pub(crate) async fn open(world: &World, index: usize) -> Result<Option<(Outbox, Line)>, EmuError> {
    let here = |node: usize| world.plan.nodes[node].local && world.shard_of[node] == index;
    let served: Vec<u32> = (0..world.groups.len())
        .filter(|row| here(world.groups[*row].node) && is_served(world, *row))
        .flat_map(|row| {
            let group = &world.groups[row];
            group.base..group.base + (group.members.end - group.members.start)
        })
        .collect();
    let asks = world.groups.iter().any(|g| here(g.node) && g.role == Role::Sender && asks(world, g.node));
    if served.is_empty() && !asks {
        return Ok(None);
    }
    let settings = world.options.traffic_server().ok_or(EmuError::ServerMissing)?;
    connect(world, settings, &names(world, index), served).await.map(Some).map_err(EmuError::Traffic)
}

async fn connect(
    world: &World,
    settings: &ConnectSettings,
    nodes: &str,
    served: Vec<u32>,
) -> Result<(Outbox, Line), NatsError> {
    let requests = Requests::connect(settings, &format!("rehearsal traffic {nodes}")).await?;
    let answers = requests.answers().await?;
    let mut services = Vec::new();
    for actor in served {
        let (node, name) = world.names(actor);
        let name = subject(&world.plan.info.run, Plane::Traffic, node, &name, "");
        services.push((actor, requests.serve(&name).await?));
    }
    requests.ready(READY).await?;
    let (sender, queue) = mpsc::channel(WAITING_MAX);
    let requests = Rc::new(requests);
    let outbox = Outbox { queue: sender, requests: requests.clone() };
    Ok((outbox, Line { requests, answers, services, queue }))
}

/// Whether anybody sends to this group over NATS.
fn is_served(world: &World, row: usize) -> bool {
    let group = &world.groups[row];
    group.serve.is_some()
        && world
            .groups
            .iter()
            .any(|g| g.role == Role::Sender && world.plan.link(g.node, group.node).carrier == Carrier::Nats)
}

/// Whether a node has a link that goes over NATS.
fn asks(world: &World, node: usize) -> bool {
    let served = world.groups.iter().filter(|g| g.serve.is_some());
    served.into_iter().any(|g| world.plan.link(node, g.node).carrier == Carrier::Nats)
}

/// The nodes of a shard, for the server's tools.
fn names(world: &World, index: usize) -> String {
    let here = world.plan.nodes.iter().enumerate().filter(|(row, n)| n.local && world.shard_of[*row] == index);
    let names: Vec<&str> = here.map(|(_, node)| node.name.as_str()).collect();
    match &names[..] {
        [first, rest @ ..] if rest.len() > 3 => format!("{first} and {} more", rest.len()),
        names => names.join(", "),
    }
}

/// Begins to move a shard's traffic. The first tasks take in requests, and end when the books are closed.
pub(crate) fn begin(shard: &Core, line: Line) -> Vec<AbortHandle> {
    let Line { requests, answers, services, queue } = line;
    tokio::task::spawn_local(hear(shard.clone(), answers));
    tokio::task::spawn_local(watch(shard.clone(), requests.losses()));
    tokio::task::spawn_local(send(shard.clone(), requests, queue));
    let serve = |(actor, service)| tokio::task::spawn_local(serve(shard.clone(), service, actor)).abort_handle();
    services.into_iter().map(serve).collect()
}

/// Sends what waits, for as long as the server is there.
async fn send(shard: Core, requests: Rc<Requests>, mut queue: mpsc::Receiver<Out>) {
    while let Some(out) = queue.recv().await {
        while !requests.is_connected() {
            tokio::time::sleep(LOOK).await;
        }
        let sent = match out {
            Out::Ask(slot, generation) => {
                // one whose deadline has passed meanwhile stays here
                let Some((subject, outgoing)) = shard.borrow_mut().ask(slot, generation) else { continue };
                let Outgoing { id, head, body, content_type, .. } = outgoing;
                let media_type = content_type.to_str().unwrap_or_default();
                let sent = requests.ask(&subject, id, &head, media_type, body).await;
                if sent.is_err() {
                    shard.borrow_mut().answered(id, NONE);
                }
                sent
            }
            Out::Answer { to, status, body } => requests.answer(to, code(status).as_u16(), body).await,
        };
        if let Err(why) = sent {
            shard.borrow().note(format!("traffic over NATS: {}", chain(&why)));
        }
    }
}

/// No answer.
const NONE: Answer = Answer { status: Status::Unacknowledged, bytes: 0 };

/// An error and its causes.
fn chain(why: &NatsError) -> String {
    let causes = std::iter::successors(Some(why as &dyn std::error::Error), |why| why.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Takes in answers.
async fn hear(shard: Core, mut answers: Answers) {
    let mut turn = 0;
    while let Some(Answered { id, code, bytes }) = answers.next().await {
        match code.map(StatusCode::from_u16) {
            None => shard.borrow_mut().nobody_answers(id),
            Some(code) => {
                let status = code.map_or(Status::Failed, status);
                shard.borrow_mut().answered(id, Answer { status, bytes: bytes as u32 });
            }
        }
        rest(&mut turn).await;
    }
}

/// Takes in requests for a receiving actor.
async fn serve(shard: Core, mut service: Service, actor: u32) {
    let mut turn = 0;
    while let Some(Asked { head, media_type, payload, reply }) = service.next().await {
        // nobody waits for an answer: this is no request
        let Some(reply) = reply else { continue };
        let content_type = media_type.and_then(|text| text.try_into().ok());
        let bytes = payload.len() as u32;
        shard.borrow_mut().asked(Arrival { actor, head, content_type, body: vec![payload], bytes }, reply);
        rest(&mut turn).await;
    }
}

/// Lets other tasks have their turn now and then.
async fn rest(turn: &mut usize) {
    *turn = (*turn + 1) % BATCH;
    if *turn == 0 {
        tokio::task::yield_now().await;
    }
}

/// Tells the shard each time that the connection is lost.
async fn watch(shard: Core, mut losses: tokio::sync::watch::Receiver<u64>) {
    while losses.changed().await.is_ok() {
        shard.borrow_mut().server_lost(Loss::Reset);
    }
}
