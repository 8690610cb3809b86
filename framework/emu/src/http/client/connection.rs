//! One line: connects when it has something to send, sends one attempt after the other.
//!
//! An attempt counts as sent when its line takes it, so opening a connection is service time. An attempt is sent
//! again on a fresh connection, without being counted twice, only if it is certain that the peer has not begun with it: the
//! peer had closed the old connection and not a single byte had been written (RFC 9112 §9.3.1 allows no more for a POST), or
//! it said so itself (RFC 9113 §8.7, RFC 9114 §4.1.1). Every other loss is the attempt's own.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use rehearsal_core::Status;
use rehearsal_core::plan::Connection;

use super::link::{Ended, Link, linger};
use super::shared::{Guest, Progress};
use super::{Commons, ConnectionId, Line, Target};
use crate::carried::Unopened;
use crate::losses::{Loss, Peer};
use crate::shard::{Answer, Core, Outgoing, Shard, Shortage};

/// No answer: refused, reset, or cut off.
pub(super) const NONE: Answer = Answer { status: Status::Unacknowledged, bytes: 0 };

/// What a line sends over.
enum Seat {
    /// A connection of its own, if it is open.
    Own(Option<Link>),
    /// A stream of a connection.
    Stream(Guest),
}

/// Runs a line until its shard wants it closed.
pub(super) async fn run(shard: Core, id: ConnectionId, line: Rc<Line>, target: Rc<Target>, commons: Commons) {
    let Commons { pool, lingering, endpoints } = commons;
    let mut seat = match pool {
        Some(pool) => Seat::Stream(Guest::of(pool, target.clone(), endpoints)),
        None => Seat::Own(None),
    };
    while let Some(job) = next(&shard, id, &mut seat).await {
        let attempt = job.id;
        line.cut.set(None);
        let progress = Progress::default();
        let answer = tokio::select! {
            biased;
            // how far it is has to be asked before it is let go of
            status = async { (cut(&line).await, progress.is_written()) } => Err(status),
            answer = exchange(&shard, &mut seat, &target, job, &progress) => Ok(answer),
        };
        match (answer, &mut seat) {
            (Ok(answer), Seat::Own(link)) => {
                if target.connection == Connection::PerRequest {
                    linger(link.take(), &lingering);
                }
                shard.borrow_mut().complete(id, attempt, answer);
            }
            (Ok(answer), Seat::Stream(guest)) => {
                guest.leave();
                shard.borrow_mut().complete(id, attempt, answer);
            }
            (Err((status, _)), Seat::Own(link)) => {
                if link.take().is_none() && status == Status::Unacknowledged {
                    lost(&shard, &target, Loss::Late);
                }
            }
            (Err((status, written)), Seat::Stream(guest)) => {
                if let Some(loss) = guest.cut(written).filter(|_| status == Status::Unacknowledged) {
                    lost(&shard, &target, loss);
                }
            }
        }
    }
    drop(seat);
    shard.borrow_mut().closed(id);
}

pub(super) fn lost(shard: &RefCell<Shard>, target: &Target, loss: Loss) {
    shard.borrow_mut().connection_lost(target.node, Peer::Address(target.address), loss);
}

/// A connection could not be opened.
pub(super) fn unopened(shard: &RefCell<Shard>, target: &Target, why: &Unopened) {
    match why {
        Unopened::Handshake(fault) => lost(shard, target, Loss::Tls(*fault)),
        Unopened::Socket(why) => match Shortage::of(why) {
            Some(what) => shard.borrow_mut().short_of(target.node, what),
            None => lost(shard, target, Loss::opening(why)),
        },
    }
}

/// The next attempt. Meanwhile an open link is watched: if the peer closes it, it is gone before it is needed.
async fn next(shard: &RefCell<Shard>, id: ConnectionId, seat: &mut Seat) -> Option<Outgoing> {
    poll_fn(|cx| {
        if let Seat::Own(link) = seat
            && link.as_mut().is_some_and(|l| l.is_over(cx))
        {
            *link = None;
        }
        shard.borrow_mut().poll_job(id, cx)
    })
    .await
}

/// Returns when the shard cuts the attempt off, with its outcome.
async fn cut(line: &Line) -> Status {
    poll_fn(|cx| {
        line.sleeper.listen(cx);
        line.cut.get().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn exchange(shard: &Core, seat: &mut Seat, target: &Target, job: Outgoing, progress: &Progress) -> Answer {
    let link = match seat {
        Seat::Own(link) => link,
        Seat::Stream(guest) => return guest.exchange(shard, job, progress).await,
    };
    loop {
        let reused = link.is_some();
        if !reused {
            match Link::open(shard, target).await {
                Ok(fresh) => *link = Some(fresh),
                Err(why) => {
                    unopened(shard, target, &why);
                    return NONE;
                }
            }
        }
        let Some(open) = link.as_mut() else { return NONE };
        match open.exchange(target, &job).await {
            Ended::Answered(answer) => return answer,
            Ended::Unwritten if reused => *link = None,
            Ended::Unwritten => {
                *link = None;
                lost(shard, target, Loss::Closed);
                return NONE;
            }
            Ended::Broken(loss) => {
                *link = None;
                lost(shard, target, loss);
                return NONE;
            }
        }
    }
}
