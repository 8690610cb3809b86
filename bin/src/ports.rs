//! Whole frames at an interface, for the emulator: that of a node's own network namespace, or one that an agent's operator names.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rehearsal_emu::{FrameEar, FrameMouth, FramePorts};
use rehearsal_host::network::NODE_END;
use rehearsal_replay::port::{Mouth, Port};
use rehearsal_replay::send::Interface;

/// Ports at the node's end of its veth pair, or at an interface of the host.
#[derive(Debug)]
pub struct NodePorts(String);

impl NodePorts {
    /// Those of a node with a network namespace of its own, or with an interface of its host.
    pub fn of(own_network: bool, interface: Option<String>) -> Option<NodePorts> {
        if own_network { Some(NodePorts(NODE_END.to_owned())) } else { interface.map(NodePorts) }
    }
}

/// Whether frames can be sent and taken at an interface.
///
/// # Errors
/// Why not, in words.
pub fn probe(name: &str) -> Result<(), String> {
    let interface = Interface::read(name).map_err(|why| format!("there is no such interface ({why})"))?;
    if !interface.up {
        return Err(format!("it is down; `ip link set {name} up` switches it on"));
    }
    Port::open(name).map(drop).map_err(|why| match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "whole frames need the capability CAP_NET_RAW: run the agent as root".to_owned()
        }
        _ => why.to_string(),
    })
}

struct Out(Mouth);

struct In(Port);

impl FramePorts for NodePorts {
    fn mouth(&self) -> io::Result<Box<dyn FrameMouth>> {
        Ok(Box::new(Out(Mouth::open(&self.0)?)))
    }

    fn ear(&self) -> io::Result<Box<dyn FrameEar>> {
        Ok(Box::new(In(Port::open(&self.0)?)))
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
