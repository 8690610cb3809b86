//! A connection that a line has for itself: one of HTTP/1.1, or one of bare bytes to a target outside.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Context;

use rehearsal_core::plan::Carrier;

use super::{LINGERING_MAX, Target, bare, one};
use crate::carried::Unopened;
use crate::losses::Loss;
use crate::shard::{Answer, Core, Outgoing};

/// How long a connection that was used once waits for its peer to close it. Assumed: several times any round trip in a
/// lab.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);

/// Counts connections of a shard that wait for their peer to close them.
pub(super) type Lingering = Rc<Cell<usize>>;

/// How an attempt ended on its connection.
pub(super) enum Ended {
    Answered(Answer),
    /// Not a byte was written.
    Unwritten,
    Broken(Loss),
}

/// A connection.
pub(super) enum Link {
    Http(one::Link),
    Bare(bare::Link),
}

impl Link {
    /// Opens one.
    pub(super) async fn open(shard: &Core, target: &Target) -> Result<Link, Unopened> {
        match target.carrier {
            Carrier::Tcp | Carrier::Udp => bare::Link::open(shard, target).await.map(Link::Bare),
            _ => one::Link::open(shard, target).await.map(Link::Http),
        }
    }

    /// Whether it is over. While nothing is under way, there is nothing that the peer could say.
    pub(super) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Link::Http(link) => link.is_over(cx),
            Link::Bare(link) => link.is_over(cx),
        }
    }

    /// Sends a request and reads its answer.
    pub(super) async fn exchange(&mut self, target: &Target, job: &Outgoing) -> Ended {
        match self {
            Link::Http(link) => link.exchange(target, job).await,
            Link::Bare(link) => link.exchange(job).await,
        }
    }

    async fn linger(self) {
        let ending = async {
            match self {
                Link::Http(link) => link.linger().await,
                Link::Bare(link) => link.linger().await,
            }
        };
        let _ = tokio::time::timeout(LINGER, ending).await;
    }
}

/// Lets a connection that was used once end on its own, if few do so.
pub(super) fn linger(link: Option<Link>, lingering: &Lingering) {
    let others = lingering.get();
    if let Some(link) = link.filter(|_| others < LINGERING_MAX) {
        lingering.set(others + 1);
        let lingering = lingering.clone();
        tokio::task::spawn_local(async move {
            link.linger().await;
            lingering.set(lingering.get() - 1);
        });
    }
}
