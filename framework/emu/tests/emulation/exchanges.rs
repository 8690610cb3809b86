//! Exchanges over HTTP: every request has one outcome, and both ends agree.

use std::sync::Arc;

use bytes::Bytes;
use rehearsal_core::Span;
use rehearsal_core::messages::StopReason;
use rehearsal_core::plan::{Carrier, Connection, Stop};
use rehearsal_core::run::RunEnd;
use rehearsal_core::sender::{OnLate, SenderParams};
use rehearsal_core::units::Rate;
use rehearsal_emu::{Control, EmuOptions};

use crate::actors::{ANSWER_BYTES, Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

/// Rows of the groups of [`one_to_one`].
const SENSOR: usize = 0;
const RECEIVER: usize = 1;

/// Sensors, a receiver, a controller and a logger.
fn one_to_one(params: SenderParams, count: u32, temper: Temper, connection: Connection, options: EmuOptions) -> RunEnd {
    let nodes =
        vec![sensors("sensor", count, params, 1000), receivers("receiver", 1, temper), controller(1, None), logger()];
    let plan = plan(nodes, Carrier::Http1, connection, Stop::AllRequestsDone);
    let end = emulate(plan, options, &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!(end.faults, []);
    assert_eq!(end.reason, StopReason::Done);
    end
}

fn shards(shards: usize) -> EmuOptions {
    EmuOptions { shards: Some(shards), ..EmuOptions::default() }
}

#[test]
fn a_closed_loop_ends_with_all_done_on_one_shard_and_on_two() {
    for count in [1, 2] {
        let params = SenderParams { streams: 4, ..sender("receiver/main", 50) };
        let end = one_to_one(params, 2, Temper::Prompt, Connection::KeepAlive, shards(count));
        let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
        assert_eq!((sent.generated, sent.success, sent.attempts), (400, 400, 400));
        assert_eq!((got.received, got.served), (400, 400));
        assert_eq!((sent.bytes_sent, got.bytes_received), (400_000, 400_000));
        assert_eq!(sent.bytes_replied, 400 * u64::from(ANSWER_BYTES));
        assert_eq!((end.messages_dropped, end.late_replies), (0, 0));
    }
}

#[test]
fn a_connection_for_each_attempt_carries_as_many() {
    let params = SenderParams { streams: 8, ..sender("receiver/main", 40) };
    let end = one_to_one(params, 1, Temper::Prompt, Connection::PerRequest, shards(2));
    let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
    assert_eq!((sent.success, sent.attempts, got.served), (320, 320, 320));
}

#[test]
fn a_schedule_is_the_same_whatever_the_threads_and_wakes() {
    let digest = |options: EmuOptions| {
        let params = SenderParams { rate: Some(Rate::per_second(1000)), ..sender("receiver/main", 200) };
        let end = one_to_one(params, 3, Temper::Prompt, Connection::KeepAlive, options);
        assert_eq!(group(&end, SENSOR).tally.success, 600);
        end.schedule_digest()
    };
    let one = digest(shards(1));
    assert_ne!(one, 0);
    assert_eq!(one, digest(shards(2)));
    assert_eq!(one, digest(EmuOptions { quantum: Span::ZERO, ..shards(2) }));
    assert_eq!(one, digest(EmuOptions { spin: true, ..shards(1) }));
}

#[test]
fn a_missing_answer_is_unacknowledged_and_tried_again() {
    let params = SenderParams { timeout: Span::from_millis(40), retries: 2, ..sender("receiver/main", 6) };
    // requests 0, 3, 6, 9 … are not answered: each exchange needs at most two attempts
    let end = one_to_one(params, 1, Temper::SilentEvery(3), Connection::KeepAlive, shards(2));
    let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
    assert_eq!((sent.generated, sent.success, sent.lost), (6, 6, 0));
    assert_eq!((sent.attempts, sent.unacknowledged), (9, 3), "0, 3 and 6 had to be sent again");
    assert_eq!((got.received, got.served, got.unserved), (9, 6, 3), "whose connection was closed is not served");
}

#[test]
fn silence_loses_every_exchange_after_its_last_attempt() {
    let params = SenderParams { timeout: Span::from_millis(20), retries: 1, streams: 2, ..sender("receiver/main", 2) };
    let end = one_to_one(params, 1, Temper::Silent, Connection::PerRequest, shards(1));
    let sent = &group(&end, SENSOR).tally;
    assert_eq!((sent.generated, sent.lost, sent.attempts, sent.unacknowledged), (4, 4, 8, 8));
}

#[test]
fn a_rejection_is_tried_again_and_holds_its_place() {
    let params = SenderParams { retries: 3, ..sender("receiver/main", 10) };
    let end = one_to_one(params, 1, Temper::RejectsEvery(2), Connection::KeepAlive, shards(2));
    let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
    assert_eq!((sent.generated, sent.success, sent.rejected, sent.attempts), (10, 10, 10, 20));
    assert_eq!((got.turned_away, got.served), (10, 10));
}

#[test]
fn what_finds_no_room_is_lost_and_what_waits_is_sent() {
    // ten due at once, one under way, four may wait
    let rate = Some(Rate::per_second(1_000_000));
    let params = SenderParams { rate, queue: 4, ..sender("receiver/main", 10) };
    let end = one_to_one(params, 1, Temper::Paused(Span::from_millis(50)), Connection::KeepAlive, shards(2));
    let sent = &group(&end, SENSOR).tally;
    assert_eq!((sent.generated, sent.success, sent.queue_full, sent.lost), (10, 5, 5, 5));
    assert_eq!(sent.attempts, 5, "what never left is no attempt");

    let params = SenderParams { rate, queue: 4, on_late: OnLate::Burst, ..sender("receiver/main", 10) };
    let end = one_to_one(params, 1, Temper::Paused(Span::from_millis(50)), Connection::KeepAlive, shards(2));
    let sent = &group(&end, SENSOR).tally;
    assert_eq!((sent.success, sent.queue_full), (5, 5), "a burst has as many under way");
}

#[test]
fn fewer_connections_than_exchanges_serve_them_one_after_the_other() {
    let params = SenderParams { streams: 20, ..sender("receiver/main", 5) };
    for connection in [Connection::KeepAlive, Connection::PerRequest] {
        let options = EmuOptions { connections_max: 3, ..shards(2) };
        let end = one_to_one(params.clone(), 1, Temper::Prompt, connection, options);
        assert_eq!(group(&end, SENSOR).tally.success, 100);
    }
}

#[test]
fn an_analyzer_refuses_what_its_validator_does() {
    let validate = |kind: &str, body: &[Bytes], _: bool| {
        assert_eq!((kind, body.iter().map(Bytes::len).sum::<usize>()), ("text/plain", 1000));
        body[0][0] != b'a'
    };
    for refuses in [true, false] {
        let options = if refuses { EmuOptions { validate: Arc::new(validate), ..shards(2) } } else { shards(2) };
        let temper = Temper::Analyzing(Span::from_millis(1));
        let params = SenderParams { retries: 3, streams: 3, ..sender("receiver/main", 4) };
        let end = one_to_one(params, 1, temper, Connection::KeepAlive, options);
        let (sent, got) = (&group(&end, SENSOR).tally, &group(&end, RECEIVER).tally);
        let (good, bad) = if refuses { (0, 12) } else { (12, 0) };
        assert_eq!((sent.success, sent.invalid, sent.attempts), (good, bad, 12), "a refusal is not tried again");
        assert_eq!((got.served, got.refused), (good, bad));
    }
}

#[test]
fn several_receivers_have_an_address_each() {
    let params = SenderParams { streams: 6, ..sender("receiver/main", 10) };
    let nodes = vec![sensors("sensor", 1, params, 10), receivers("receiver", 3, Temper::Prompt), controller(1, None)];
    let plan = plan(nodes, Carrier::Http1, Connection::KeepAlive, Stop::AllRequestsDone);
    let end = emulate(plan, shards(2), &Records::default(), Control::new());
    check_identities(&end);
    assert_eq!((group(&end, SENSOR).tally.success, group(&end, RECEIVER).tally.served), (60, 60));
    assert!(group(&end, RECEIVER).listen.is_some_and(|a| a.ip().is_loopback() && a.port() != 0));
}
