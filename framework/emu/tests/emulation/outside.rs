//! Targets outside of the experiment: what they are asked, and how they are judged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rehearsal_core::assembly::{Assembly, NoMedia};
use rehearsal_core::outside::{Outside, RequestSpec};
use rehearsal_core::plan::{Carrier, Connection, NodePlan, Plan, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_emu::{Control, EmuError, EmuOptions, doubts, preflight};

use crate::actors::{Temper, controller, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// Sensors that send to a URL at `address`.
fn towards(url: &str, address: Option<SocketAddr>, params: SenderParams) -> Plan {
    let origin = rehearsal_core::outside::Url::read(url).expect("a URL").origin();
    let outside = Some(Outside { origin, address, known: false });
    let target = NodePlan { local: false, measured: false, outside, ..receivers("outside", 1, Temper::Prompt) };
    let params = SenderParams { to: url.to_owned(), ..params };
    let nodes = vec![sensors("sensor", 1, params, 10), controller(1, None), target];
    plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::AllRequestsDone)
}

fn assembly(plan: Plan) -> Assembly {
    Assembly::build(plan, &mut NoMedia).expect("a plan that can be built")
}

fn request(json: &str) -> Option<Box<RequestSpec>> {
    Some(Box::new(serde_json::from_str(json).expect("a request")))
}

/// Answers each request in turn with one of `answers`; tells heads and bodies.
fn server(answers: &'static [&'static str]) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (told, heard) = sync_channel(1000);
    thread::spawn(move || {
        let mut next = answers.iter().cycle();
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = BufReader::new(stream);
            while let Some(asked) = read(&mut stream) {
                if told.send(asked).is_err() {
                    return;
                }
                let answer = next.next().expect("it never ends");
                let gone = stream.get_mut().write_all(answer.as_bytes()).is_err();
                if gone {
                    break;
                }
            }
        }
    });
    (address, heard)
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}

#[test]
fn a_request_is_as_it_is_written_and_says_nothing_of_ours() {
    let (address, heard) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]);
    let json = r#"{"method":"PUT","path":"/items/{seq}?of={member}","headers":{"x-token":"t","content-type":"a/b"}}"#;
    let params = SenderParams { request: request(json), ..sender("", 2) };
    let plan = towards(&format!("http://{address}"), Some(address), params);
    let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(group(&end, 0).tally.success, 2);
    let asked: Vec<(String, String)> = heard.try_iter().collect();
    let expected = format!(
        "PUT /items/1?of=1 HTTP/1.1\r\nhost: {address}\r\ncontent-type: a/b\r\nx-token: t\r\ncontent-length: 10\r\n"
    );
    assert_eq!(asked[1].0, expected);
    assert_eq!(asked[1].1.len(), 10);
}

#[test]
fn answers_are_judged_by_what_was_expected() {
    let (address, _heard) = server(&[
        "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nready",
        "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nready",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nbusy",
        "HTTP/1.1 500 No\r\ncontent-length: 5\r\n\r\nready",
    ]);
    let json = r#"{"expect":{"status":[404],"body_contains":"ready"}}"#;
    let params = SenderParams { request: request(json), ..sender("", 5) };
    let plan = towards(&format!("http://{address}/x"), Some(address), params);
    let end = emulate(plan, EmuOptions::default(), &Records::default(), Control::new());
    check_identities(&end);
    let t = &group(&end, 0).tally;
    assert_eq!((t.success, t.failed, t.invalid), (2, 2, 1));
}

#[test]
fn where_nobody_may_send_or_knows_where_is_refused() {
    let far = "192.0.2.1:80".parse().expect("an address");
    let refusal = |address| {
        let plan = towards("http://a.example/", address, sender("", 1));
        preflight(&assembly(plan), &EmuOptions::default()).expect_err("it is refused")
    };
    assert!(matches!(refusal(Some(far)), EmuError::TargetNotAllowed { address, .. } if address == far));
    assert!(matches!(refusal(None), EmuError::TargetUnresolved { target, .. } if target == "http://a.example"));
}

#[test]
fn a_target_that_does_not_answer_is_a_doubt() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let of = || {
        let assembly = assembly(towards(&format!("http://{address}"), Some(address), sender("", 1)));
        let checked = preflight(&assembly, &EmuOptions::default()).expect("it may");
        doubts(&assembly, &EmuOptions::default(), &checked)
    };
    assert_eq!(of(), Vec::<String>::new());
    drop(listener);
    let found = of();
    assert!(found.len() == 1 && found[0].contains("does not accept a connection"), "{found:?}");
}
