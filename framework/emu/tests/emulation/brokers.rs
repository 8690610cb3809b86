//! Publications over real brokers, mosquitto and nats-server's gateway, and over a broker that lies. Without a program its
//! tests say so and pass.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rehearsal_core::Span;
use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::plan::{Carrier, Connection, LinkSpec, MqttSpec, MqttVersion, NodePlan, Plan, Qos, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Rate;
use rehearsal_emu::{Control, EmuOptions, preflight};

use crate::actors::{Temper, controller, receivers, sensors};
use crate::datagrams::datagrams_over;
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// A broker of the test's own, in a folder of its own.
struct Broker {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr()).expect("a free port").port()
}

fn program(name: &str, variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let given = std::env::var_os(variable).map(PathBuf::from);
    let found = given.into_iter().chain(folders.map(|folder| folder.join(name))).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: no {name} was found");
    }
    found
}

fn start(program: &Path, flag: &str, config: &str, port: u16) -> Broker {
    let folder = std::env::temp_dir().join(format!("rehearsal-broker-{}-{port}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("broker.conf");
    std::fs::write(&file, config.replace("FOLDER", &folder.display().to_string())).expect("a file");
    let mut command = Command::new(program);
    let child = command.arg(flag).arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let broker = Broker { child, address, folder };
    for _ in 0..1000 {
        if TcpStream::connect(address).is_ok() {
            return broker;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{} does not listen on {address}", program.display());
}

fn mosquitto_at(port: u16) -> Option<Broker> {
    let config = format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n");
    Some(start(&program("mosquitto", "MOSQUITTO")?, "-c", &config, port))
}

fn nats_server() -> Option<Broker> {
    let (port, mqtt) = (free_port(), free_port());
    let config = format!(
        "server_name: broker\nlisten: 127.0.0.1:{port}\njetstream {{ store_dir: \"FOLDER\" }}\n\
         mqtt {{ host: 127.0.0.1, port: {mqtt} }}\n"
    );
    Some(start(&program("nats-server", "NATS_SERVER")?, "-c", &config, mqtt))
}

fn link(broker: SocketAddr, qos: Qos, version: MqttVersion) -> LinkSpec {
    let mqtt = MqttSpec { broker: format!("mqtt://{broker}"), qos, version };
    LinkSpec { carrier: Carrier::Mqtt, mqtt: Some(Box::new(mqtt)), ..LinkSpec::default() }
}

fn planned(link: LinkSpec, params: SenderParams) -> Plan {
    let nodes = vec![sensors("sensor", 2, params, 200), receivers("receiver", 2, Temper::Prompt), controller(1, None)];
    let mut plan = plan(nodes, Carrier::Mqtt, Connection::KeepAlive, Stop::AllRequestsDone);
    plan.links = vec![link];
    plan
}

fn published(link: LinkSpec, params: SenderParams) -> RunEnd {
    let options = EmuOptions { shards: Some(2), ..EmuOptions::default() };
    let end = emulate(planned(link, params), options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    end
}

fn all_arrive(broker: &Broker, versions: &[MqttVersion]) {
    for version in versions.iter().copied() {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let params = SenderParams { streams: 4, ..sender("receiver/main", 25) };
            let end = published(link(broker.address, qos, version), params);
            let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
            assert_eq!((sent.generated, sent.success, sent.attempts), (200, 200, 200), "{qos:?} {version:?}");
            assert_eq!((got.datagrams_received, got.datagrams_duplicate, got.received), (200, 0, 0));
            assert_eq!((sent.bytes_sent, got.bytes_received), (40_000, 40_000));
        }
        let end = datagrams_over(link(broker.address, Qos::AtMostOnce, version), 100);
        let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
        assert_eq!((sent.datagrams_sent, sent.success, got.datagrams_received), (100, 100, 100), "{version:?}");
    }
}

#[test]
fn mosquitto_carries_every_quality_of_service_in_both_versions() {
    let Some(broker) = mosquitto_at(free_port()) else { return };
    all_arrive(&broker, &[MqttVersion::V311, MqttVersion::V5]);
}

#[test]
fn the_gateway_of_nats_server_carries_every_quality_of_service() {
    let Some(broker) = nats_server() else { return };
    all_arrive(&broker, &[MqttVersion::V311]);
}

#[test]
fn a_broker_that_restarts_costs_what_was_under_way_and_no_more() {
    let Some(broker) = mosquitto_at(free_port()) else { return };
    let (address, port) = (broker.address, broker.address.port());
    let restart = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        drop(broker);
        thread::sleep(Duration::from_millis(300));
        mosquitto_at(port)
    });
    let rate = Some(Rate::per_second(100));
    let params =
        SenderParams { rate, in_flight: 50, timeout: Span::from_secs(3), retries: 3, ..sender("receiver/main", 150) };
    let end = published(link(address, Qos::AtLeastOnce, MqttVersion::V5), params);
    let _broker = restart.join().expect("it restarts");
    let (sent, got) = (&group(&end, 0).tally, &group(&end, 1).tally);
    assert_eq!((sent.generated, sent.success, sent.lost), (300, 300, 0));
    // the receiver may come back a little later than the sender
    assert!((200..=sent.attempts).contains(&got.datagrams_received), "{} arrived", got.datagrams_received);
    assert!(end.notes.iter().any(|note| note.contains(&format!("the broker {address}"))), "{:?}", end.notes);
}

#[test]
fn a_broker_that_is_not_there_or_not_allowed_is_refused_before_the_run() {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let build = |at: SocketAddr| {
        let plan = planned(link(at, Qos::AtLeastOnce, MqttVersion::V5), sender("receiver/main", 1));
        Assembly::build(plan, &mut NoMedia).expect("a plan that can be built")
    };
    let run = |at| {
        rehearsal_emu::run(
            build(at),
            EmuOptions::default(),
            Box::new(Records::default()),
            Control::new(),
            Box::new(|_| {}),
        )
    };
    let why = run(nobody).expect_err("nobody listens");
    assert!(why.is_refusal() && why.to_string().contains(&nobody.to_string()), "{why}");
    let abroad = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1883));
    let why = preflight(&build(abroad), &EmuOptions::default()).expect_err("it is not allowed");
    assert!(why.to_string().contains("--allow 192.0.2.1"), "{why}");
}

/// A broker of version 5 that welcomes, grants subscriptions, and answers publication `n` of a connection with
/// `answers[n]`, by its number.
fn liar(answers: &'static [fn(u16) -> Vec<u8>]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || lie(stream, answers));
        }
    });
    address
}

fn lie(mut stream: TcpStream, answers: &[fn(u16) -> Vec<u8>]) {
    let mut seen = 0;
    loop {
        let mut first = [0; 1];
        if stream.read_exact(&mut first).is_err() {
            return;
        }
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let mut byte = [0; 1];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            length |= usize::from(byte[0] & 0x7F) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let answer = match first[0] >> 4 {
            1 => vec![0x20, 3, 0, 0, 0],
            8 => vec![0x90, 4, body[0], body[1], 0, 2],
            3 => {
                let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                let id = u16::from_be_bytes([body[2 + topic], body[3 + topic]]);
                let Some(answer) = answers.get(seen) else { return };
                seen += 1;
                answer(id)
            }
            _ => Vec::new(),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn ack(id: u16, reason: u8) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0x40, 4, high, low, reason, 0]
}

fn against(broker: SocketAddr, requests: u64) -> RunEnd {
    let params = SenderParams { timeout: Span::from_millis(300), in_flight: 1, ..sender("receiver/main", requests) };
    let nodes: Vec<NodePlan> =
        vec![sensors("sensor", 1, params, 100), receivers("receiver", 1, Temper::Prompt), controller(1, None)];
    let mut plan = plan(nodes, Carrier::Mqtt, Connection::KeepAlive, Stop::AllRequestsDone);
    plan.links = vec![link(broker, Qos::AtLeastOnce, MqttVersion::V5)];
    let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    end
}

#[test]
fn reasons_become_outcomes() {
    let broker = liar(&[
        |id| ack(id, 0),
        |id| ack(id, 0x10),
        |id| ack(id, 0x97),
        |id| ack(id, 0x90),
        |id| ack(id, 0x87),
        |id| ack(id ^ 77, 0),
    ]);
    let end = against(broker, 6);
    let t = &group(&end, 0).tally;
    assert_eq!((t.success, t.rejected, t.invalid, t.failed, t.unacknowledged), (2, 1, 1, 1, 1));
}

/// Silence costs the deadline of each; an end in the middle, and a length that nobody could keep, cost what was under way.
#[test]
fn a_broker_that_is_silent_leaves_or_lies_about_lengths_costs_what_is_under_way() {
    let silent = liar(&[|_| Vec::new(), |_| Vec::new(), |id| ack(id, 0)]);
    let t = group(&against(silent, 3), 0).tally;
    assert_eq!((t.attempts, t.unacknowledged, t.success), (3, 2, 1));
    // it closes at the second publication of each connection
    let leaves = liar(&[|id| ack(id, 0)]);
    let t = group(&against(leaves, 4), 0).tally;
    assert!(t.success >= 1 && t.unacknowledged >= 1 && t.success + t.unacknowledged == 4, "{t:?}");
    // a length of five bytes, of which there may be four (MQTT 5 §1.5.5)
    let lies = liar(&[|_| vec![0x40, 0xff, 0xff, 0xff, 0xff, 0x7f]]);
    let end = against(lies, 2);
    assert_eq!(group(&end, 0).tally.unacknowledged, 2);
    let told = end.notes.iter().find(|note| note.contains(&lies.to_string()));
    assert!(told.is_some_and(|note| note.contains("something else")), "{:?}", end.notes);
}

#[test]
fn a_broker_that_speaks_otherwise_is_left_and_named() {
    let broker = liar(&[|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]);
    let end = against(broker, 2);
    assert_eq!(group(&end, 0).tally.unacknowledged, 2);
    let told = end.notes.iter().find(|note| note.contains(&broker.to_string()));
    assert!(told.is_some_and(|note| note.contains("something else")), "{:?}", end.notes);
}
