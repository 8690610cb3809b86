//! Messages between two connections of a real server: wildcards, order, bounds.

use bytes::Bytes;
use rehearsal_bus::nats::{Nats, NatsError};

use crate::lab::{PATIENCE, at, server};

#[tokio::test]
async fn wildcards_reach_and_order_holds_and_nothing_comes_back() {
    let Some(server) = server() else { return };
    let (sender, mut echo) = Nats::connect(&at(server.url()), "sender").await.expect("a connection");
    let (receiver, mut received) = Nats::connect(&at(server.url()), "receiver").await.expect("a connection");
    sender.subscribe("lab.v1.>").await.expect("a subscription");
    receiver.subscribe("lab.v1.r.*.a.>").await.expect("a subscription");
    assert!(receiver.settle(PATIENCE).await && sender.settle(PATIENCE).await);
    for number in 0..1000_u32 {
        let subject =
            ["lab.v1.r.ctl.a.main.one", "lab.v1.r.tel.a.main", "lab.v1.r.ctl.b.main.one"][number as usize % 3];
        sender.publish(subject, Bytes::from(number.to_be_bytes().to_vec())).await.expect("it leaves");
    }
    assert!(sender.settle(PATIENCE).await);
    let mut numbers = Vec::new();
    while numbers.len() < 667 {
        let next = tokio::time::timeout(PATIENCE, received.recv()).await.expect("in time").expect("a message");
        assert!(!next.subject.contains(".b."), "{}", next.subject);
        numbers.push(u32::from_be_bytes(next.payload[..].try_into().expect("four bytes")));
    }
    let wanted: Vec<u32> = (0..1000).filter(|n| n % 3 != 2).collect();
    assert_eq!(numbers, wanted);
    assert!(echo.try_recv().is_err(), "what a connection publishes does not come back");
    assert_eq!((sender.traffic().sent, receiver.traffic().received, receiver.traffic().dropped), (1000, 667, 0));
}

#[tokio::test]
async fn an_answer_is_waited_for_and_its_absence_told() {
    let Some(server) = server() else { return };
    let (asking, _) = Nats::connect(&at(server.url()), "asking").await.expect("a connection");
    let nobody = asking.request("lab.v1.r.ctl.a.host.end", Bytes::new(), PATIENCE).await;
    assert!(matches!(nobody, Err(NatsError::Request { .. })), "{nobody:?}");
    let (answering, mut asked) = Nats::connect(&at(server.url()), "answering").await.expect("a connection");
    answering.subscribe("lab.v1.r.ctl.>").await.expect("a subscription");
    answering.settle(PATIENCE).await;
    let answer = async {
        let question = asked.recv().await.expect("a question");
        answering.publish(&question.reply.expect("where to"), question.payload).await.expect("it leaves");
    };
    let question = asking.request("lab.v1.r.ctl.a.host.end", Bytes::from("end"), PATIENCE);
    let both = async { tokio::join!(question, answer) };
    let (got, ()) = tokio::time::timeout(PATIENCE, both).await.expect("in time");
    assert_eq!(&got.expect("an answer")[..], b"end");
}

#[tokio::test]
async fn a_message_above_the_servers_limit_is_refused_at_once() {
    let Some(server) = server() else { return };
    let (nats, _) = Nats::connect(&at(server.url()), "large").await.expect("a connection");
    let large = nats.publish("lab.v1.r.tel.a.main", Bytes::from(vec![0; (1 << 20) + 1])).await;
    assert!(matches!(large, Err(NatsError::TooLarge { bytes: 1_048_577, bytes_max: 1_048_576, .. })), "{large:?}");
    assert_eq!(nats.traffic().sent, 0);
}

#[tokio::test]
async fn a_server_leaves_nothing_behind() {
    let Some(server) = server() else { return };
    let (url, id) = (server.url().to_owned(), server.id());
    assert!(url.starts_with("nats://127.0.0.1:"), "{url}");
    drop(server);
    assert!(!std::fs::exists(format!("/proc/{id}")).unwrap_or(true), "it has ended");
    assert!(matches!(Nats::connect(&at(&url), "late").await, Err(NatsError::Connect { .. })));
    let left = std::fs::read_dir(std::env::temp_dir()).expect("the temporary folder").flatten();
    let own = format!("rehearsal-nats-{}-", std::process::id());
    let mine = left.filter(|e| e.file_name().to_string_lossy().starts_with(&own)).count();
    assert!(mine <= 3, "only those of the tests beside this one: {mine}");
}
