//! Whole frames at the interface of a node's own network namespace, for the emulator.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rehearsal_emu::{FrameEar, FrameMouth, FramePorts};
use rehearsal_host::network::NODE_END;
use rehearsal_replay::port::{Mouth, Port};

/// Ports at the node's end of its veth pair.
#[derive(Debug)]
pub struct NodePorts;

struct Out(Mouth);

struct In(Port);

impl FramePorts for NodePorts {
    fn mouth(&self) -> io::Result<Box<dyn FrameMouth>> {
        Ok(Box::new(Out(Mouth::open(NODE_END)?)))
    }

    fn ear(&self) -> io::Result<Box<dyn FrameEar>> {
        Ok(Box::new(In(Port::open(NODE_END)?)))
    }
}

impl FrameMouth for Out {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame)
    }
}

impl FrameEar for In {
    fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    fn drain(&mut self, each: &mut dyn FnMut(&[u8], Option<u16>)) {
        self.0.drain(each);
    }

    fn dropped(&mut self) -> u64 {
        self.0.dropped()
    }
}
