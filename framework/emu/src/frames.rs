//! The `frames` carrier: whole Ethernet frames of a template, from a node's interface to the one of its receiver.
//!
//! A frame leaves as its template has it, but for its two Ethernet addresses: they say which actor sent it and which one it is
//! for (`06:52`, then the actor's number), so a switch brings it to the receiver's node, and the kernel there, whose own address
//! is another, leaves it alone. Which packet of its sender it is a receiver finds by its content. Nothing in it tells when it
//! left, so there are no times on the way.
//!
//! Sockets for frames are the caller's: [`FramePorts`].

use std::io;
use std::os::fd::OwnedFd;

use rehearsal_core::ActorId;
use rehearsal_core::assembly::{Assembly, Group};
use rehearsal_core::plan::Carrier;
use tokio::io::unix::AsyncFd;

use crate::shard::Core;
use crate::world::World;
use crate::{pacer, preflight};

/// Opens ways to send and take frames at the interface of the network namespace that the calling thread is in.
pub trait FramePorts: Send + Sync {
    /// To send.
    ///
    /// # Errors
    /// What the system says.
    fn mouth(&self) -> io::Result<Box<dyn FrameMouth>>;

    /// To take what comes in.
    ///
    /// # Errors
    /// What the system says.
    fn ear(&self) -> io::Result<Box<dyn FrameEar>>;
}

/// Sends frames.
pub trait FrameMouth: Send {
    /// Sends one without waiting.
    ///
    /// # Errors
    /// When there is no room, or the interface does not take it.
    fn send(&self, frame: &[u8]) -> io::Result<()>;
}

/// Takes frames.
pub trait FrameEar: Send {
    /// What is readable when there are some.
    ///
    /// # Errors
    /// When there is no descriptor left.
    fn descriptor(&self) -> io::Result<OwnedFd>;

    /// Hands out what has come: each frame without its outer VLAN tag, and that tag.
    fn drain(&mut self, each: &mut dyn FnMut(&[u8], Option<u16>));

    /// Frames since the last call that there was no room for.
    fn dropped(&mut self) -> u64;
}

/// Bytes of two Ethernet addresses.
pub(crate) const ADDRESSES: usize = 12;
/// How addresses of actors begin: one for a single station, locally administered (IEEE 802).
const PREFIX: [u8; 2] = [0x06, 0x52];
/// EtherType of what a receiver says of itself. Source: IEEE 802, local experimental.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
/// Shortest frame without its check sequence. Source: IEEE 802.3.
const SHORTEST: usize = 60;

/// The Ethernet address of an actor.
pub(crate) fn address(actor: u32) -> [u8; 6] {
    let [a, b, c, d] = actor.to_be_bytes();
    [PREFIX[0], PREFIX[1], a, b, c, d]
}

/// The actor of an Ethernet address.
pub(crate) fn actor(address: &[u8]) -> Option<u32> {
    let number = address.strip_prefix(&PREFIX)?;
    number.try_into().ok().map(u32::from_be_bytes)
}

/// Whether a group sends or takes frames.
pub(crate) fn uses(assembly: &Assembly, group: &Group) -> bool {
    group.frames.is_some() || (group.serve.is_some() && preflight::carriers(assembly, group).contains(&Carrier::Frames))
}

/// Whether this process's nodes of a shard send frames, and which of their actors take frames.
pub(crate) fn of_shard(world: &World, shard: usize) -> (bool, Vec<u32>) {
    let here = |node: usize| world.plan.nodes[node].local && world.shard_of[node] == shard;
    let sends = world.groups.iter().any(|group| group.frames.is_some() && here(group.node));
    let senders = || world.groups.iter().filter(|group| group.frames.is_some());
    let takes = |node: usize| senders().any(|group| world.plan.link(group.node, node).carrier == Carrier::Frames);
    let receivers = world.groups.iter().filter(|group| group.serve.is_some() && here(group.node) && takes(group.node));
    (sends, receivers.flat_map(|group| group.base..group.base + group.members.len() as u32).collect())
}

/// Switches learn where receivers are: each says something, to nobody.
pub(crate) fn announce(mouth: &dyn FrameMouth, receivers: &[u32]) -> io::Result<()> {
    for receiver in receivers {
        let mut frame = [0; SHORTEST];
        frame[..6].copy_from_slice(&address(*receiver));
        frame[6..ADDRESSES].copy_from_slice(&address(*receiver));
        frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&EXPERIMENT);
        mouth.send(&frame)?;
    }
    Ok(())
}

/// A task that takes what comes in for the shard's receivers.
pub(crate) struct Listening {
    ear: Box<dyn FrameEar>,
    ready: AsyncFd<OwnedFd>,
}

impl Listening {
    /// With this ear.
    ///
    /// # Errors
    /// When the event loop does not take it.
    pub(crate) fn new(ear: Box<dyn FrameEar>) -> io::Result<Self> {
        let ready = pacer::registered(ear.descriptor()?)?;
        Ok(Listening { ear, ready })
    }

    /// Goes on as long as the shard.
    pub(crate) async fn run(mut self, shard: Core) {
        while let Ok(mut ready) = self.ready.readable().await {
            {
                let mut shard = shard.borrow_mut();
                self.ear.drain(&mut |frame, tag| shard.frame_in(frame, tag));
                shard.frames_dropped(self.ear.dropped());
                shard.settle();
            }
            ready.clear_ready();
            tokio::task::yield_now().await;
        }
    }
}

/// Whoever sent a frame, and whom it is for.
pub(crate) fn ends(frame: &[u8]) -> Option<(ActorId, u32)> {
    let (to, from) = (actor(frame.get(..6)?)?, actor(frame.get(6..ADDRESSES)?)?);
    Some((ActorId(from), to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_are_known_by_their_addresses() {
        for number in [0, 7, u32::MAX] {
            assert_eq!(actor(&address(number)), Some(number));
        }
        assert_eq!(address(1)[0] & 0b11, 0b10, "one station, locally administered");
        let frame = [address(3), address(9)].concat();
        assert_eq!(ends(&frame), Some((ActorId(9), 3)));
        assert_eq!(ends(&frame[..11]), None);
        assert_eq!(actor(&[2, 0, 0, 0, 0, 1]), None);
    }
}
