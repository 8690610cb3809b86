//! Peers that misbehave over HTTP/2, under TLS and over HTTP/3: each is named for what it does, counters add up, and runs end.

mod frames;
mod quic;
mod secure;

use std::net::SocketAddr;

use rehearsal_core::Span;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{LinkSpec, NodePlan, Plan, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{Temper, controller, receivers_at, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// One sensor with three requests of `bytes` to `address`, over a link; at most `in_flight` of them at once.
struct Trial {
    link: LinkSpec,
    address: SocketAddr,
    bytes: u32,
    requests: u64,
    timeout: Span,
    base: std::path::PathBuf,
}

impl Trial {
    fn of(link: LinkSpec, address: SocketAddr) -> Trial {
        let base = std::path::PathBuf::new();
        Trial { link, address, bytes: 10, requests: 3, timeout: Span::from_secs(5), base }
    }

    /// The run's end, and what it says of the target.
    fn run(self) -> (RunEnd, Vec<String>) {
        let Trial { link, address, bytes, requests, timeout, base } = self;
        let receiver = NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, Some(address)) };
        let params = SenderParams { timeout, ..sender("receiver/main", requests) };
        let nodes = vec![sensors("sensor", 1, params, bytes), receiver, controller(1, None)];
        let plan = plan(nodes, link.carrier, link.connection, Stop::AllRequestsDone);
        let plan = Plan { links: vec![link], base, ..plan };
        let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
        check_identities(&end);
        assert_eq!((end.faults.as_slice(), end.reason), (&[][..], StopReason::Done));
        assert_eq!(group(&end, 0).tally.attempts, requests, "no attempt is counted twice");
        let notes = end.notes.iter().filter(|n| n.contains(&address.to_string())).cloned().collect();
        (end, notes)
    }

    /// All its requests are lost, and this is said of the target.
    fn must_be_told(self, says: &str) {
        let (address, requests) = (self.address, self.requests);
        let (end, notes) = self.run();
        let sent = &group(&end, 0).tally;
        assert_eq!((sent.unacknowledged, sent.lost), (requests, requests), "{says}: {notes:?}");
        assert_eq!(notes, [format!("{address} {says}")]);
    }
}
