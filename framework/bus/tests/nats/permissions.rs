//! The configuration that comes with the project: each role can do what it must, and is refused what it must not.

use bytes::Bytes;
use rehearsal_bus::nats::{Nats, NatsError};

use crate::lab::{Lab, PATIENCE, connect, refusal, words};

/// Longest wait for a refusal. Who hears its own inbox waits as long: there is a responder then, itself.
const WAIT: std::time::Duration = std::time::Duration::from_secs(1);
const USERS: [&str; 5] = ["controller", "node", "agent-1", "aggregator", "viewer"];

/// What is told of a deed that is not permitted; `None` if it is.
async fn told(nats: &Nats) -> Option<String> {
    let why = nats.permitted(WAIT).await.err()?;
    assert!(matches!(why, NatsError::Forbidden(_)), "{why:?}");
    eprintln!("{}", words(&why));
    Some(words(&why))
}

async fn publishes(lab: &Lab, user: &str, subject: &str) -> bool {
    let (nats, _) = connect(&lab.user(user)).await;
    nats.publish(subject, Bytes::from_static(b"x")).await.expect("the call itself goes well");
    let told = told(&nats).await;
    assert!(told.iter().all(|t| t.contains(&format!("permit this user to publish on `{subject}`"))), "{told:?}");
    assert_eq!(nats.traffic().refusals, u64::from(told.is_some()));
    told.is_none()
}

async fn hears(lab: &Lab, user: &str, pattern: &str) -> bool {
    let (nats, _) = connect(&lab.user(user)).await;
    nats.subscribe(pattern).await.expect("the call itself goes well");
    let told = told(&nats).await;
    assert!(told.iter().all(|t| t.contains(&format!("permit this user to subscribe to `{pattern}`"))), "{told:?}");
    told.is_none()
}

#[tokio::test]
async fn each_role_says_what_it_must_and_nothing_else() {
    let Some(lab) = Lab::roles("") else { return };
    let subjects = [
        // by whom it may be published: controller, node, agent-1, aggregator, viewer
        ("lab.v1.trial.ctl.control.controller.start", [true, false, false, false, false]),
        ("lab.v1.trial.ctl.aggregator.aggregator.ack", [true, false, false, true, false]),
        ("lab.v1.trial.ctl.camera-1.logger.ready", [true, true, false, false, false]),
        ("lab.v1.trial.tel.camera-1.logger", [true, true, false, false, false]),
        ("lab.v1.trial.trf.camera-1.main", [true, true, false, false, false]),
        ("lab.v1.fleet.ctl.agent-1.reserve", [true, false, true, false, false]),
        ("lab.v1.fleet.ctl.agent-2.reserve", [true, false, false, false, false]),
        ("$KV.rehearsal-agents.agent-2", [true, false, false, false, false]),
        ("$JS.API.STREAM.DELETE.REHEARSAL-trial", [true, false, false, true, false]),
        ("elsewhere", [false; 5]),
    ];
    for (subject, expected) in subjects {
        for (user, may) in USERS.iter().zip(expected) {
            assert_eq!(publishes(&lab, user, subject).await, may, "{user} on {subject}");
        }
    }
}

#[tokio::test]
async fn each_role_hears_what_it_must_and_nothing_else() {
    let Some(lab) = Lab::roles("") else { return };
    let patterns = [
        ("lab.v1.trial.ctl.>", [true, true, false, true, true]),
        ("lab.v1.trial.tel.>", [true, false, false, true, true]),
        ("lab.v1.trial.trf.camera-1.main", [true, true, false, false, true]),
        ("lab.v1.fleet.ctl.agent-1.>", [true, false, true, false, true]),
        ("lab.v1.fleet.ctl.agent-2.>", [true, false, false, false, true]),
        ("_INBOX.controller.>", [true, false, false, false, false]),
        ("_INBOX.node.>", [false, true, false, false, false]),
        ("_INBOX.agent-1.>", [false, false, true, false, false]),
        ("_INBOX.>", [false; 5]),
        (">", [false; 5]),
    ];
    for (pattern, expected) in patterns {
        for (user, may) in USERS.iter().zip(expected) {
            assert_eq!(hears(&lab, user, pattern).await, may, "{user} on {pattern}");
        }
    }
}

#[tokio::test]
async fn an_answer_to_a_question_is_permitted_where_a_word_of_ones_own_is_not() {
    let Some(lab) = Lab::roles("") else { return };
    let (asking, _) = connect(&lab.user("controller")).await;
    let (node, mut asked) = connect(&lab.user("node")).await;
    node.subscribe("lab.v1.trial.ctl.>").await.expect("a subscription");
    node.permitted(PATIENCE).await.expect("it may");
    let answer = async {
        let question = asked.recv().await.expect("a question");
        let inbox = question.reply.expect("where to");
        assert!(inbox.starts_with("_INBOX.controller."), "{inbox}");
        node.publish(&inbox, question.payload).await.expect("it leaves");
    };
    let question = asking.request("lab.v1.trial.ctl.control.host.end", Bytes::from("end"), PATIENCE);
    let (got, ()) = tokio::join!(question, answer);
    assert_eq!(&got.expect("an answer")[..], b"end");
    assert!(!publishes(&lab, "node", "_INBOX.controller.abc").await, "without a question there is no answer");
}

#[tokio::test]
async fn a_wrong_password_of_a_role_is_refused() {
    let Some(lab) = Lab::roles("") else { return };
    connect(&lab.user("node")).await;
    let said = refusal(&crate::lab::at(&format!("nats://node:s3cr3t@{}", lab.place()))).await;
    assert!(said.ends_with("does not accept user `node` with this password"), "{said}");
    let said = refusal(&lab.settings()).await;
    assert!(said.contains("wants to know who connects"), "{said}");
}

#[tokio::test]
async fn jetstream_is_for_those_who_keep_telemetry() {
    let Some(lab) = Lab::roles("") else { return };
    for (user, may) in USERS.iter().zip([true, false, true, true, false]) {
        let (nats, _) = connect(&lab.user(user)).await;
        let state = nats.jetstream_state(std::time::Duration::from_secs(1)).await;
        assert_eq!(state.is_ok(), may, "{user}: {state:?}");
        if let Err(why) = state {
            assert!(words(&why).contains("publish on `$JS.API.INFO`"), "{why}");
        }
    }
}

/// The client library would wait for an answer until its patience is over.
#[tokio::test]
async fn who_may_not_lead_is_told_so_at_once() {
    let Some(lab) = Lab::roles("") else { return };
    let (viewer, _) = connect(&lab.user("viewer")).await;
    let said = tokio::time::timeout(PATIENCE, viewer.jetstream_state(10 * PATIENCE)).await.expect("at once");
    let said = said.expect_err("it only looks on").to_string();
    assert!(said.contains("does not permit this user to publish on `$JS.API.INFO`"), "{said}");
}

#[tokio::test]
async fn more_refusals_than_are_kept_are_all_counted_as_far_as_the_client_library_tells() {
    let Some(lab) = Lab::roles("") else { return };
    let (viewer, _) = connect(&lab.user("viewer")).await;
    for number in 0..100 {
        viewer.publish(&format!("lab.v1.trial.ctl.n{number}.main.go"), Bytes::new()).await.expect("the call");
        viewer.settle(PATIENCE).await;
    }
    assert_eq!((viewer.violations().len(), viewer.traffic().refusals), (64, 100));
}
