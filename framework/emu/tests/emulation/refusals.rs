//! What is refused before anything starts, and what the refusal says.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::plan::{Carrier, Connection, NodePlan, Stop};
use rehearsal_emu::{Control, EmuError, EmuOptions, preflight, run};

use crate::actors::{Temper, controller, receivers_at, sensors};
use crate::lab::{Records, plan, sender};

fn assembly(receiver: NodePlan, carrier: Carrier) -> Assembly {
    let nodes = vec![sensors("sensor", 1, sender("receiver/main", 1), 10), receiver, controller(1, None)];
    Assembly::build(plan(nodes, carrier, Connection::KeepAlive, Stop::AllRequestsDone), &mut NoMedia)
        .expect("a plan that can be built")
}

fn refusal(receiver: NodePlan, options: &EmuOptions) -> EmuError {
    let early = preflight(&assembly(receiver.clone(), Carrier::Http1), options).expect_err("it must be refused");
    let assembly = assembly(receiver, Carrier::Http1);
    let late = run(assembly, options.clone(), Box::new(Records::default()), Control::new(), Box::new(|_| {}))
        .expect_err("the run must refuse what the preflight refuses");
    assert_eq!(early.to_string(), late.to_string());
    assert!(early.is_refusal());
    early
}

fn elsewhere(listen: Option<SocketAddr>) -> NodePlan {
    NodePlan { local: false, ..receivers_at("receiver", 1, Temper::Prompt, listen) }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = taken.local_addr().expect("bound");
    let why = refusal(receivers_at("receiver", 1, Temper::Prompt, Some(address)), &EmuOptions::default());
    assert!(matches!(&why, EmuError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse));
    assert_eq!(why.to_string(), format!("`receiver/main` cannot listen on {address}"));
}

#[test]
fn only_allowed_targets_are_sent_to() {
    let address: SocketAddr = "192.0.2.7:8080".parse().expect("an address");
    let why = refusal(elsewhere(Some(address)), &EmuOptions::default());
    assert_eq!(
        why.to_string(),
        "`sensor/main` would send to 192.0.2.7:8080, which is not allowed; to allow it: --allow 192.0.2.7/32"
    );
    let options = EmuOptions { allow: vec!["192.0.2.0/24".parse().expect("a range")], ..EmuOptions::default() };
    let checked = preflight(&assembly(elsewhere(Some(address)), Carrier::Http1), &options).expect("now it may");
    assert_eq!(checked.elsewhere.iter().map(|(_, a)| *a).collect::<Vec<_>>(), [address]);
}

#[test]
fn only_allowed_addresses_are_listened_on() {
    let address: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let why = refusal(receivers_at("receiver", 1, Temper::Prompt, Some(address)), &EmuOptions::default());
    assert!(matches!(why, EmuError::ListenNotAllowed { .. }), "{why}");
}

#[test]
fn a_target_elsewhere_needs_a_fixed_address() {
    let why = refusal(elsewhere(None), &EmuOptions::default());
    assert!(matches!(&why, EmuError::TargetUnknown { target, .. } if target == "receiver/main"));
    assert!(why.to_string().contains("give `receiver/main` the key `listen`"), "{why}");
}

#[test]
fn instances_count_their_port_up_as_far_as_there_are_ports() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 65_534));
    let why = refusal(receivers_at("receiver", 3, Temper::Prompt, Some(address)), &EmuOptions::default());
    assert_eq!(why.to_string(), "`receiver/main`: instance 2 would listen on port 65536; lower `listen`");
}

#[test]
fn a_preflight_counts_both_ends_of_what_is_here() {
    let here = assembly(receivers_at("receiver", 2, Temper::Prompt, None), Carrier::Http1);
    let options = EmuOptions { shards: Some(2), ..EmuOptions::default() };
    let checked = preflight(&here, &options).expect("a run that may start");
    assert_eq!((checked.shards, checked.listen.len()), (2, 2));
    // the process 32, two shards 4 each, two listeners, one connection with both its ends
    assert_eq!(checked.descriptors, 32 + 8 + 2 + 2);
    assert!(checked.descriptors_allowed >= checked.descriptors);
}
