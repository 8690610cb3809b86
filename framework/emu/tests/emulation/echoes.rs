//! Datagrams that come back, trains of a flow, and marks of packets, as sockets of the test see them.

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use rehearsal_core::Span;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, Connection, DatagramMode, Impose, LinkSpec, NodePlan, Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Fraction;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, receivers, receivers_at, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

fn echoing(link: LinkSpec, nodes: Vec<NodePlan>) -> Plan {
    let mut plan = plan(nodes, Carrier::Udp, Connection::KeepAlive, Stop::AllRequestsDone);
    plan.links = vec![LinkSpec { carrier: Carrier::Udp, mode: DatagramMode::Echo, ..link }];
    plan
}

fn run(link: LinkSpec, params: SenderParams) -> RunEnd {
    let nodes = vec![sensors("sensor", 2, params, 200), receivers("receiver", 1, Temper::Prompt), controller(1, None)];
    let options = EmuOptions { shards: Some(2), ..EmuOptions::default() };
    let end = emulate(echoing(link, nodes), options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    end
}

#[test]
fn every_echo_is_an_outcome_and_every_datagram_is_counted() {
    let params = SenderParams { streams: 3, ..sender("receiver/main", 50) };
    let end = run(LinkSpec::default(), params);
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.success, sent.attempts, sent.datagrams_sent), (300, 300, 300, 0));
    assert_eq!((sent.bytes_sent, sent.bytes_replied), (60_000, 300 * 40));
    assert_eq!((got.datagrams_received, got.datagrams_duplicate, got.received), (300, 0, 0));
    assert_eq!(got.bytes_received, 60_000);
}

#[test]
fn what_a_link_loses_is_not_sent_again() {
    let link = LinkSpec { loss: Fraction(0.2), impose: Impose::Userspace, ..LinkSpec::default() };
    let params = SenderParams { streams: 10, timeout: Span::from_millis(150), ..sender("receiver/main", 20) };
    let end = run(link, params);
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.attempts), (400, 400));
    // there: 400 · 0.8 = 320, standard deviation 8; back as well: 256, standard deviation 9.6
    assert!((280..360).contains(&got.datagrams_received), "{}", got.datagrams_received);
    assert!((208..304).contains(&sent.success), "{}", sent.success);
    assert!(sent.success < got.datagrams_received, "some echoes were lost");
    assert_eq!(sent.lost, 400 - sent.success);
}

/// A peer that takes every fourth away, sends every third back twice, and answers nonsense in between.
#[test]
fn a_foreign_reflector_is_believed_as_far_as_its_headers_go() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        for n in 0_u32.. {
            let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { return };
            assert_eq!((bytes, &buffer[..3]), (200, [0x52, 0x48, 2].as_slice()));
            let mut echo = buffer[..40].to_vec();
            echo[2] = 3;
            let _ = socket.send_to(b"nonsense", from);
            if n % 4 != 3 {
                let _ = socket.send_to(&echo, from);
            }
            if n % 3 == 0 {
                let _ = socket.send_to(&echo, from);
            }
        }
    });
    let receiver = NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, Some(address)) };
    let params = SenderParams { timeout: Span::from_millis(100), ..sender("receiver/main", 12) };
    let nodes = vec![sensors("sensor", 1, params, 200), receiver, controller(1, None)];
    let end = emulate(echoing(LinkSpec::default(), nodes), EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    let sent = &group(&end, 0).tally;
    // 3, 7 and 11 are taken away, of which none is a third; 0, 3, 6, 9 come back once more
    assert_eq!((sent.success, sent.lost), (10, 2), "3 comes back by its second echo");
    assert_eq!(end.late_replies, 3);
}

/// Receives one datagram, or what the kernel holds together; its bytes and the traffic class of its packet.
fn class_of(socket: &UdpSocket) -> (usize, u8) {
    let mut buffer = [0; 2000];
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let mut control = nix::cmsg_space!(u8);
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty());
    let message = message.expect("a datagram");
    let class = message.cmsgs().expect("it fits").find_map(|control| match control {
        ControlMessageOwned::Ipv4Tos(class) => Some(class),
        _ => None,
    });
    (message.bytes, class.expect("the kernel tells"))
}

#[test]
fn packets_carry_the_class_of_their_sender() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    setsockopt(&socket, sockopt::IpRecvTos, &true).expect("Linux tells");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let address: SocketAddr = socket.local_addr().expect("bound");
    let receiver = |name: &str| NodePlan { local: false, ..receivers_at(name, 1, Temper::Prompt, Some(address)) };
    let ask = |name: &str, dscp: Dscp| {
        let params = SenderParams { dscp, timeout: Span::from_millis(20), ..sender("receiver/main", 1) };
        sensors(name, 1, params, 100)
    };
    let nodes = vec![ask("urgent", Dscp::EF), ask("plain", Dscp::DF), receiver("receiver"), controller(2, None)];
    let reader = thread::spawn(move || [class_of(&socket), class_of(&socket)]);
    emulate(echoing(LinkSpec::default(), nodes), EmuOptions::default(), &Records::default(), Control::new());
    let mut seen = reader.join().expect("both came");
    seen.sort_unstable();
    assert_eq!(seen, [(100, 0), (100, 46 << 2)], "EF is 46, in the upper six bits");
}
