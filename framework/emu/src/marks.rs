//! Marks of packets: the code point of a sender's traffic in the IP headers of what its sockets send. Source: RFC 2474 §3;
//! RFC 8622 and others for the names, see [`rehearsal_core::dscp`].

use std::os::fd::AsFd;

use rehearsal_core::dscp::Dscp;
use rustix::net::sockopt;

/// Sets the class of what a socket sends, if it is not the default one that a new socket has.
pub(crate) fn mark(socket: impl AsFd, dscp: Dscp) {
    if !dscp.is_default() {
        remark(socket, dscp);
    }
}

/// Sets the class of what a socket sends: the upper six bits of the IPv4 and IPv6 traffic class; the lower two, of ECN
/// (RFC 3168), stay clear. A system that refuses leaves the packets unmarked, as those of the default class are.
pub(crate) fn remark(socket: impl AsFd, dscp: Dscp) {
    let class = dscp.number() << 2;
    // a socket of IPv6 may carry IPv4 as well, and one of IPv4 has no second mark
    let _ = sockopt::set_ip_tos(&socket, class);
    let _ = sockopt::set_ipv6_tclass(&socket, u32::from(class));
}
