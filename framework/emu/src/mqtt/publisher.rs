//! The sending end: writes publications, matches their acknowledgements, and connects again when the broker was lost.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use rehearsal_core::Status;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, LinkSpec, MqttVersion, Qos};
use tokio::io::AsyncWrite as _;
use tokio::time::{Instant, Sleep, sleep};

use super::packet::{Ack, Packet, read, write_ack, write_ping, write_publish};
use super::session::{BACKOFF, Caller, PING_EVERY, READ_BYTES, Session, foreign};
use crate::losses::{Loss, Peer};
use crate::shard::Core;
use crate::wake::Sleeper;

/// Attempts that may wait for a connection.
const WAITING_MAX: usize = 65_536;
/// Bytes of QoS 0 that may wait for the network; what comes then is lost, as at a full interface.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Written at most before acknowledgements are looked at.
const WRITE_BYTES: usize = 64 << 10;

/// An attempt's slot and generation.
type Job = (u32, u32);
/// The row of the sending node, the broker as the experiment names it, whether it is spoken to in version 5, the class, and
/// whether it is outside.
pub(super) type Key = (usize, String, bool, Dscp, bool);

/// A shard's connections to publish over.
#[derive(Default)]
pub(crate) struct Publishers {
    lines: Vec<Rc<Line>>,
    known: BTreeMap<Key, usize>,
}

impl Publishers {
    /// A new line.
    pub(super) fn line(&mut self, key: Key, caller: Caller) -> Rc<Line> {
        let line = Rc::new(Line {
            node: key.0,
            caller,
            jobs: RefCell::default(),
            unsent: RefCell::default(),
            refused: Cell::new(0),
            sleeper: Sleeper::default(),
        });
        self.known.insert(key, self.lines.len());
        self.lines.push(line.clone());
        line
    }

    /// The line that there is.
    pub(crate) fn of(&self, node: usize, link: &LinkSpec, dscp: Dscp) -> Option<usize> {
        let spec = link.mqtt.as_deref()?;
        self.known.get(&(node, spec.broker.clone(), spec.version == MqttVersion::V5, dscp, link.outside)).copied()
    }

    /// The line of that number.
    pub(crate) fn at(&self, line: usize) -> &Line {
        &self.lines[line]
    }

    /// Publications of QoS 0 that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.lines.iter().map(|line| line.refused.get()).sum()
    }
}

/// What a shard and the task of a connection tell each other.
pub(crate) struct Line {
    node: usize,
    caller: Caller,
    /// Attempts that are to be written.
    jobs: RefCell<VecDeque<Job>>,
    /// Publications of QoS 0, ready to write.
    unsent: RefCell<BytesMut>,
    refused: Cell<u64>,
    sleeper: Sleeper,
}

impl Line {
    /// Hands an attempt over; whether there was room.
    pub(crate) fn put(&self, job: Job) -> bool {
        let mut jobs = self.jobs.borrow_mut();
        let room = jobs.len() < WAITING_MAX;
        if room {
            jobs.push_back(job);
            self.sleeper.wake();
        }
        room
    }

    /// Hands a publication of QoS 0 over; whether there was room. One that finds none is lost.
    pub(crate) fn send(&self, topic: impl AsRef<[u8]>, payload: &[u8]) -> bool {
        let mut unsent = self.unsent.borrow_mut();
        if unsent.len() + payload.len() > UNSENT_BYTES_MAX {
            self.refused.set(self.refused.get() + 1);
            return false;
        }
        write_publish(&mut unsent, self.caller.version(), Qos::AtMostOnce, 0, topic, payload.len());
        unsent.extend_from_slice(payload);
        self.sleeper.wake();
        true
    }

    /// Tells of a connection to a broker outside.
    fn opened(&self, shard: &Core, session: &Session) {
        if let Some(login) = &self.caller.login {
            shard.borrow_mut().opened(self.node, login.to, Carrier::Mqtt, session.agreed.clone());
        }
    }
}

/// Publishes what a line is handed.
pub(super) async fn run(shard: Core, line: Rc<Line>, mut session: Session) {
    loop {
        let ping = Box::pin(sleep(PING_EVERY));
        let (out, under_way) = (BytesMut::new(), BTreeMap::new());
        line.opened(&shard, &session);
        let (pinged, unflushed) = (false, false);
        let mut talk = Talk { shard: &shard, line: &line, session, out, under_way, next: 1, unflushed, ping, pinged };
        let why = poll_fn(|cx| talk.poll(cx)).await;
        let lost = std::mem::take(&mut talk.under_way).into_values().map(|(job, _)| job).collect();
        drop(talk);
        shard.borrow_mut().broker_lost(line.node, Peer::Broker(line.caller.broker), self::lost(&why), lost);
        let mut wait = BACKOFF.0;
        session = loop {
            tokio::time::sleep(wait).await;
            match Session::open(&line.caller, None).await {
                Ok(session) => break session,
                Err(_) => wait = (wait * 2).min(BACKOFF.1),
            }
        };
    }
}

/// Why a connection broke.
pub(super) fn lost(why: &io::Error) -> Loss {
    match why.kind() {
        io::ErrorKind::InvalidData => Loss::Garbled,
        io::ErrorKind::TimedOut => Loss::Late,
        io::ErrorKind::UnexpectedEof => Loss::Closed,
        _ => Loss::Reset,
    }
}

/// How far a publication has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Published,
    Released,
}

/// An open connection.
struct Talk<'a> {
    shard: &'a Core,
    line: &'a Line,
    session: Session,
    out: BytesMut,
    /// Publications by their number.
    under_way: BTreeMap<u16, (Job, Step)>,
    next: u16,
    /// What was written may not have left yet.
    unflushed: bool,
    ping: Pin<Box<Sleep>>,
    pinged: bool,
}

impl Talk<'_> {
    /// Ready when the connection has broken.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.line.sleeper.listen(cx);
        loop {
            if let Poll::Ready(why) = self.hear(cx) {
                return Poll::Ready(why);
            }
            if self.out.is_empty() {
                self.fill();
            }
            if self.out.is_empty() && !self.unflushed {
                ready!(self.ping.as_mut().poll(cx));
                self.ping.as_mut().reset(Instant::now() + PING_EVERY);
                if std::mem::replace(&mut self.pinged, true) {
                    return Poll::Ready(io::ErrorKind::TimedOut.into());
                }
                write_ping(&mut self.out);
            }
            if let Err(why) = ready!(self.write(cx)) {
                return Poll::Ready(why);
            }
        }
    }

    /// What waits, as far as the broker and the buffer allow.
    fn fill(&mut self) {
        let unsent = &mut *self.line.unsent.borrow_mut();
        if !unsent.is_empty() {
            std::mem::swap(&mut self.out, unsent);
        }
        while self.out.len() < WRITE_BYTES && self.under_way.len() < usize::from(self.session.welcome.receive_max) {
            let Some(job) = self.line.jobs.borrow_mut().pop_front() else { return };
            let id = self.free_number();
            let most = self.session.welcome.packet_max as usize;
            if self.shard.borrow_mut().publish(job, id, self.line.caller.version(), most, &mut self.out) {
                self.under_way.insert(id, (job, Step::Published));
            }
        }
    }

    /// A number that no publication under way has; there is one, since fewer are under way than there are numbers.
    fn free_number(&mut self) -> u16 {
        loop {
            let id = self.next;
            self.next = self.next.checked_add(1).unwrap_or(1);
            if !self.under_way.contains_key(&id) {
                return id;
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let bytes = ready!(self.session.stream.poll_put(cx, &self.out))?;
            self.out.advance(bytes);
            self.unflushed = true;
        }
        ready!(Pin::new(&mut self.session.stream).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn hear(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if let Err(why) = self.take() {
                return Poll::Ready(why);
            }
            let Session { stream, read, .. } = &mut self.session;
            match ready!(stream.poll_fill(cx, read, READ_BYTES)) {
                Ok(0) => return Poll::Ready(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.pinged = false,
                Err(why) => return Poll::Ready(why),
            }
        }
    }

    /// Takes what was read.
    fn take(&mut self) -> Result<(), io::Error> {
        let version = self.line.caller.version();
        while let Some((packet, bytes)) = read(&self.session.read, version).map_err(|_| foreign())? {
            let done = match packet {
                Packet::PubAck { id, reason } | Packet::PubComp { id, reason } => Some((id, reason)),
                Packet::PubRec { id, reason: 0x80.. } => Some((id, 0x80)),
                Packet::PubRec { id, .. } => {
                    if let Some((_, step)) = self.under_way.get_mut(&id) {
                        *step = Step::Released;
                    }
                    write_ack(&mut self.out, Ack::Release, id);
                    None
                }
                Packet::PingResp => None,
                _ => return Err(foreign()),
            };
            self.session.read.advance(bytes);
            if let Some((job, reason)) = done.and_then(|(id, reason)| Some((self.under_way.remove(&id)?.0, reason))) {
                self.shard.borrow_mut().published(job, outcome(reason));
            }
        }
        Ok(())
    }
}

/// What a reason code says of a publication. Source: MQTT 5.0 §3.4.2.1, §3.5.2.1.
fn outcome(reason: u8) -> Status {
    match reason {
        // nobody who subscribes is a success of the broker's
        0x00..0x80 => Status::Success,
        // quota exceeded
        0x97 => Status::Rejected,
        // topic name or payload format invalid
        0x90 | 0x99 => Status::Invalid,
        _ => Status::Failed,
    }
}
