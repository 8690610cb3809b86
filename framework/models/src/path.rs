//! Links and connections between node instances, as both engines use them: the simulator for every link, the emulator
//! for those that it imposes.
//!
//! What a link loses or has no room for is not lost to an exchange: its carrier is a stream (TCP, with or without a NATS
//! server between) that sends it again later, so a loss shows as delay ([`crate::transport`]). A datagram is lost.
//!
//! Most links are a queue and the way behind it ([`Fifo`], [`Tail`]), and answer at once. Where packets are chosen one by
//! one, an offer is [`Taken::Queued`]: the engine comes back at [`Links::wake`] and asks [`Links::decided`].

use std::collections::BTreeMap;

use rehearsal_core::parts::links::LinkBook;
use rehearsal_core::plan::{Carrier, Connection, Impose, LinkSpec, Plan, Qos, TlsHandshake};
use rehearsal_core::rng::{RngStream, Seed};
use rehearsal_core::run::{ConnectionEnd, LinkEnd};
use rehearsal_core::{Span, Time};

use crate::link::classes::{Classes, Decided};
use crate::link::{Fifo, Tail};
use crate::transport::{Way, Window, handshake};
use crate::wire::{FRAME_BYTES, Framing};

mod offer;
mod streams;
mod way;

pub use crate::transport::{RETRANSMISSIONS_MAX, retransmission};
pub use offer::{Direction, Offer, Taken};
use streams::{Opened, Place, Streams, limit};
pub use way::Path;

/// All links that traffic has used so far: one for each ordered pair of node instances.
#[derive(Debug)]
pub struct Links {
    links: Vec<Line>,
    rows: BTreeMap<(u32, u32), Option<u32>>,
    paths: Vec<Path>,
    /// By the sender's node: (receiver's node, path). A node has few peers.
    peers: Vec<Vec<(u32, u32)>>,
    books: Vec<LinkBook>,
    /// Capacities that are shared, or whose packets are chosen one by one.
    cells: Vec<Cell>,
    /// By row of the plan's links: the cell of its members and of what shares it.
    shared: BTreeMap<usize, u32>,
    only: Option<Impose>,
    /// What handshakes take beside their round trips: full ones, and those by a ticket.
    handshakes: [Span; 2],
    /// Whether the last connection was opened with a handshake of TLS, and whether that was by a ticket.
    shaken: Option<bool>,
}

#[derive(Debug)]
struct Line {
    before: Before,
    tail: Tail,
    book: usize,
    used: bool,
}

/// What is before the way of a link.
#[derive(Debug)]
enum Before {
    Own(Fifo),
    Cell(u32),
}

#[derive(Debug)]
struct Cell {
    queue: Queue,
    /// When the engine comes back anyhow.
    visit: Option<Time>,
}

#[derive(Debug)]
enum Queue {
    Fifo(Fifo),
    Classes(Box<Classes>),
}

impl Links {
    /// No link yet, between `nodes` nodes; all are modelled.
    pub fn all(nodes: usize) -> Self {
        Links {
            links: Vec::new(),
            rows: BTreeMap::new(),
            paths: Vec::new(),
            peers: vec![Vec::new(); nodes],
            books: Vec::new(),
            cells: Vec::new(),
            shared: BTreeMap::new(),
            only: None,
            handshakes: [Span::ZERO; 2],
            shaken: None,
        }
    }

    /// The same, of the links alone that are imposed in user space; the others are what they are.
    pub fn imposed(nodes: usize) -> Self {
        Links { only: Some(Impose::Userspace), ..Links::all(nodes) }
    }

    /// Handshakes of TLS take so long beside their round trips: full ones, and those by a ticket.
    pub fn with_handshakes(self, full: Span, resumed: Span) -> Self {
        Links { handshakes: [full, resumed], ..self }
    }

    /// Whether the connection that was last asked for was opened with a handshake of TLS since this was last asked, and
    /// whether that was by a ticket.
    #[inline]
    pub fn shaken(&mut self) -> Option<bool> {
        self.shaken.take()
    }

    /// The path between two nodes.
    #[inline]
    pub fn path(&mut self, plan: &Plan, from: u32, to: u32) -> u32 {
        match self.peers[from as usize].iter().find(|(peer, _)| *peer == to) {
            Some((_, path)) => *path,
            None => self.lay(plan, from, to),
        }
    }

    /// The path of that number.
    #[inline]
    pub fn at(&mut self, path: u32) -> &mut Path {
        &mut self.paths[path as usize]
    }

    /// Takes a connection to `target` at `now`: how long it takes until a request can leave on it, and what it has learnt.
    /// To a NATS server there is one from the beginning.
    #[inline]
    pub fn connect(&mut self, now: Time, number: u32, target: u32) -> (Span, Window) {
        let path = &mut self.paths[number as usize];
        if let Some(streams) = &mut path.streams {
            return match streams.place(target) {
                Place::On(at, ready) => (ready.since(now), Window::on(at)),
                Place::New => self.add_shared(now, number, target),
            };
        }
        if path.shares() || !path.carrier.is_reliable() {
            return (Span::ZERO, Window::default());
        }
        let window = path.idle.pop();
        path.busy += 1;
        // one whose answer never comes keeps its place: its connection is closed
        let has_place = path.pipeline > 1 && path.busy <= path.open.saturating_mul(path.pipeline);
        if has_place || (window.is_some() && path.pipeline == 1) {
            return (Span::ZERO, window.unwrap_or_default());
        }
        path.open += 1;
        (self.dial(now, number), Window::default())
    }

    /// A further connection that requests share.
    #[cold]
    fn add_shared(&mut self, now: Time, number: u32, target: u32) -> (Span, Window) {
        let set_up = self.dial(now, number);
        let streams = self.paths[number as usize].streams.as_mut().expect("it shares connections");
        (set_up, Window::on(streams.add(target, now.saturating_add(set_up))))
    }

    /// How long it takes to open a connection.
    #[cold]
    fn dial(&mut self, now: Time, number: u32) -> Span {
        let path = &self.paths[number as usize];
        let (trips, round_trip, up, down) = (path.trips, path.round_trip, path.up, path.down);
        let mut set_up = self.greet(trips, round_trip, up, down);
        let path = &mut self.paths[number as usize];
        if path.framing.encrypted {
            let resumed = path.resumes && path.opened.has_ticket(now);
            set_up = set_up + self.handshakes[usize::from(resumed)];
            self.shaken = Some(resumed);
        }
        path.opened.add(now, set_up, path.resumes);
        set_up
    }

    /// Offers something at `now`; `window` is that of its connection, where it has one of its own.
    #[inline]
    pub fn offer(&mut self, now: Time, offer: &Offer, window: &mut Window) -> Taken {
        let Some(link) = self.paths[offer.path as usize].link(offer.direction) else { return Taken::Lost };
        let line = &mut self.links[link as usize];
        let book = &mut self.books[line.book];
        if !std::mem::replace(&mut line.used, true) {
            book.pair();
        }
        book.offered(now, offer.again);
        let left = match &mut line.before {
            Before::Own(fifo) => fifo.offer(now, offer.load),
            Before::Cell(cell) => match &mut self.cells[*cell as usize].queue {
                Queue::Fifo(fifo) => fifo.offer(now, offer.load),
                Queue::Classes(classes) => {
                    if classes.offer(now, offer.load, offer.dscp, offer.token) {
                        return Taken::Queued;
                    }
                    None
                }
            },
        };
        let Some(left) = left else {
            book.full();
            return Taken::Full;
        };
        self.travel(now, left, offer, window)
    }

    /// What has left its link at `left` travels on: `now` is when it began to.
    #[inline]
    pub fn travel(&mut self, now: Time, left: Time, offer: &Offer, window: &mut Window) -> Taken {
        let path = &mut self.paths[offer.path as usize];
        let Some(link) = path.link(offer.direction) else { return Taken::Lost };
        let line = &mut self.links[link as usize];
        let book = &mut self.books[line.book];
        if !path.carrier.is_reliable() {
            if line.tail.loses() && line.tail.any_lost(offer.load.packets) {
                book.lost();
                return Taken::Lost;
            }
            return Taken::Out(line.tail.arrival(left));
        }
        let mut shares = path.shares();
        let (round_trip, limit) = (path.round_trip, path.limit);
        let shared = path.streams.as_mut().and_then(|streams| {
            let ordered = streams.is_ordered();
            streams.window(window.connection(), offer.direction).map(|shared| (ordered, shared))
        });
        let window = match (offer.direction, shared) {
            (_, Some((ordered, shared))) => {
                shares = ordered;
                shared
            }
            (Direction::Up, None) if shares => &mut path.common,
            (Direction::Up, None) => window,
            (Direction::Down, None) => &mut path.back,
        };
        if window.passes(now, offer.load.packets, round_trip, limit, &line.tail) {
            let at = line.tail.arrival(left);
            return Taken::Out(if shares { window.in_order(at) } else { at });
        }
        let packet = match &line.before {
            Before::Own(fifo) => fifo.frame(now),
            Before::Cell(cell) => match &self.cells[*cell as usize].queue {
                Queue::Fifo(fifo) => fifo.frame(now),
                // as if it had the link to itself: the share of its class is not known
                Queue::Classes(classes) => classes.frame(now),
            },
        };
        let sent = window.send(now, offer.load.packets, Way { round_trip, packet, limit }, &mut line.tail);
        if sent.lost > 0 {
            book.lost_within(sent.lost, sent.resent);
            let again = sent.resent * FRAME_BYTES;
            match &mut line.before {
                Before::Own(fifo) => fifo.occupy(again),
                Before::Cell(cell) => match &mut self.cells[*cell as usize].queue {
                    Queue::Fifo(fifo) => fifo.occupy(again),
                    Queue::Classes(_) => {}
                },
            }
        }
        let Some(extra) = sent.extra else { return Taken::Lost };
        let at = line.tail.arrival(left).saturating_add(extra);
        Taken::Out(if shares { window.in_order(at) } else { at })
    }

    /// The cell of a path's link, if its offers are [`Taken::Queued`].
    #[inline]
    pub fn cell(&self, path: u32, direction: Direction) -> Option<u32> {
        let link = self.paths[path as usize].link(direction)?;
        match self.links[link as usize].before {
            Before::Cell(cell) if matches!(self.cells[cell as usize].queue, Queue::Classes(_)) => Some(cell),
            _ => None,
        }
    }

    /// When the engine has to visit a cell that it would not visit before then anyhow; it has to ask after each offer and
    /// each visit.
    pub fn wake(&mut self, cell: u32, now: Time) -> Option<Time> {
        let cell = &mut self.cells[cell as usize];
        let Queue::Classes(classes) = &cell.queue else { return None };
        let at = classes.wake()?.max(now);
        if cell.visit.is_some_and(|visit| visit <= at) {
            return None;
        }
        cell.visit = Some(at);
        Some(at)
    }

    /// The engine visits a cell. A visit that is no longer wanted does no harm.
    pub fn visit(&mut self, cell: u32, now: Time) {
        let cell = &mut self.cells[cell as usize];
        if cell.visit.is_some_and(|visit| visit <= now) {
            cell.visit = None;
        }
        if let Queue::Classes(classes) = &mut cell.queue {
            classes.advance(now);
        }
    }

    /// The next thing that has been decided in a cell.
    #[inline]
    pub fn decided(&mut self, cell: u32) -> Option<Decided> {
        match &mut self.cells[cell as usize].queue {
            Queue::Classes(classes) => classes.decided(),
            Queue::Fifo(_) => None,
        }
    }

    /// Something that was offered comes out at `at`.
    #[inline]
    pub fn delivered(&mut self, link: u32, offered: Time, at: Time, bytes: u64) {
        self.books[self.links[link as usize].book].delivered(offered, at, bytes);
    }

    /// Something that was offered could not be kept until it would have come out.
    pub fn dropped(&mut self, link: u32) {
        self.books[self.links[link as usize].book].full();
    }

    /// A link chose to drop an offer that waited.
    pub fn drop_one(&mut self, offer: &Offer) -> Taken {
        if let Some(link) = self.paths[offer.path as usize].link(offer.direction) {
            self.dropped(link);
        }
        Taken::Full
    }

    /// What those did that were used, in the order of their making.
    pub fn ends(&self) -> Vec<LinkEnd> {
        self.books.iter().map(LinkBook::end).filter(|end| end.offered > 0).collect()
    }

    /// Connections that were opened over those links, in the order of the paths' first use.
    pub fn connections(&self, plan: &Plan) -> Vec<ConnectionEnd> {
        let end = |path: &Path| {
            let (all, resumed) = (path.opened.all, path.opened.resumed);
            let full = if path.framing.encrypted { all - resumed } else { 0 };
            let name = |row: u32| plan.nodes[row as usize].template.clone();
            let (from, to) = (name(path.ends.0), name(path.ends.1));
            let (tls, alpn) = path.framing.agreed();
            let cipher = String::new();
            ConnectionEnd { from, to, carrier: path.carrier, opened: all, full, resumed, tls, cipher, alpn }
        };
        ConnectionEnd::merge(self.paths.iter().filter(|path| path.opened.all > 0).map(end).collect())
    }

    #[cold]
    fn greet(&mut self, trips: u32, round_trip: Span, up: Option<u32>, down: Option<u32>) -> Span {
        let (up, down) = (up.map(|row| row as usize), down.map(|row| row as usize));
        match (up, down) {
            (Some(up), Some(down)) if up != down => {
                let [up, down] = self.links.get_disjoint_mut([up, down]).expect("two links that exist");
                handshake(trips, round_trip, Some(&mut up.tail), Some(&mut down.tail))
            }
            (up, down) => {
                let one = up.or(down).map(|row| &mut self.links[row].tail);
                handshake(trips, round_trip, one, None)
            }
        }
    }

    #[cold]
    fn lay(&mut self, plan: &Plan, from: u32, to: u32) -> u32 {
        let (up, down) = (self.link(plan, from, to), self.link(plan, to, from));
        let spec = plan.link(from as usize, to as usize);
        let back = plan.link(to as usize, from as usize);
        let delay = |link: Option<u32>, spec: &LinkSpec| if link.is_some() { spec.delay } else { Span::ZERO };
        let (round_trip, keep_alive) = (delay(up, spec) + delay(down, back), spec.connection == Connection::KeepAlive);
        let path = self.paths.len() as u32;
        self.paths.push(Path {
            up,
            down,
            delay_up: delay(up, spec),
            delay_down: delay(down, back),
            round_trip,
            carrier: spec.carrier,
            exchange: spec.is_exchange(),
            answered: spec.is_answered(),
            confirm: if spec.qos() == Qos::ExactlyOnce && spec.carrier == Carrier::Mqtt {
                round_trip
            } else {
                Span::ZERO
            },
            pipeline: if spec.carrier == Carrier::Tcp && keep_alive { spec.pipeline } else { 1 },
            busy: 0,
            open: 0,
            reorder: spec.reorder,
            keep_alive,
            trips: spec.round_trips(),
            streams: Streams::of(spec),
            framing: Framing::of(spec),
            framed: [Direction::Up, Direction::Down].map(|way| ((0, 0), Framing::of(spec).load(way, 0, 0))),
            limit: limit(spec),
            ends: (from, to),
            resumes: spec.security().is_some_and(|tls| tls.handshake == TlsHandshake::Resumed),
            opened: Opened::default(),
            idle: Vec::new(),
            common: Window::default(),
            back: Window::default(),
        });
        self.peers[from as usize].push((to, path));
        path
    }

    /// The link from one node to another, made at its first use; `None` if nobody makes it.
    fn link(&mut self, plan: &Plan, from: u32, to: u32) -> Option<u32> {
        if let Some(row) = self.rows.get(&(from, to)) {
            return *row;
        }
        let spec = plan.link(from as usize, to as usize);
        let row = self.only.is_none_or(|only| only == spec.impose).then(|| {
            let before = self.before(plan, from, to);
            let tail = Tail::of(spec, random(plan, from, to));
            let book = self.book(&plan.nodes[from as usize].template, &plan.nodes[to as usize].template);
            self.links.push(Line { before, tail, book, used: false });
            self.links.len() as u32 - 1
        });
        self.rows.insert((from, to), row);
        row
    }

    /// What stands before the way from one node to another.
    fn before(&mut self, plan: &Plan, from: u32, to: u32) -> Before {
        let own = plan.link_row(&plan.nodes[from as usize].template, &plan.nodes[to as usize].template);
        let of = plan.queue_row(own);
        let spec = &plan.links[of];
        if spec.members.is_empty() && !spec.schedules() {
            return Before::Own(Fifo::of(spec));
        }
        if let Some(cell) = self.shared.get(&of) {
            return Before::Cell(*cell);
        }
        let queue =
            if spec.schedules() { Queue::Classes(Box::new(Classes::of(spec))) } else { Queue::Fifo(Fifo::of(spec)) };
        let cell = self.cells.len() as u32;
        self.cells.push(Cell { queue, visit: None });
        if !spec.members.is_empty() {
            self.shared.insert(of, cell);
        }
        Before::Cell(cell)
    }

    fn book(&mut self, from: &str, to: &str) -> usize {
        let imposed = self.only.unwrap_or_default();
        self.books.iter().position(|book| book.is(from, to)).unwrap_or_else(|| {
            self.books.push(LinkBook::new(from, to, imposed));
            self.books.len() - 1
        })
    }
}

/// What feeds jitter and loss of the link between two node instances: the same in both engines, and on every host.
fn random(plan: &Plan, from: u32, to: u32) -> RngStream {
    let name = |node: u32| plan.nodes[node as usize].name.as_str();
    let group = format!("{}->{}", name(from), name(to));
    let (seed, repetition) = (plan.seed, plan.repetition);
    RngStream::new(Seed { seed, repetition, group: &group, member: 0, stream: 0, purpose: "link" })
}
