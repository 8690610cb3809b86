//! Ten thousand misdeeds of peers in one run: each is classified for what it is, the counters add up, the run ends on time, and
//! neither memory nor descriptors grow with what was done to it.

mod dead;
mod peers;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::peers::{Misdeed, Peer};
use crate::support::{Bundle, Running, Scratch, beside};

/// What a run may keep of what happened to it after its first half, kB. Assumed: what an allocator keeps, and the seconds
/// that the bundle has not written yet; a connection that leaked would be some 30 kB, of which there are thousands.
const GROWTH_KB: u64 = 8 * 1024;
/// Descriptors that may be open beyond the most of the first half: connections wait for their peers to close them.
const GROWTH_DESCRIPTORS: usize = 64;
/// No run takes this long, whatever else the machine does: where nobody answers, an attempt has a deadline of 100 ms.
const HANGS: Duration = Duration::from_secs(120);

/// What is done, how often, how each ends, and what is said of it.
const DEEDS: [(Misdeed, u64, &str, &str); 16] = [
    (Misdeed::Reset, 1200, "lost", "reset 1200 connections"),
    (Misdeed::Close, 1320, "lost", "closed 1320 connections without an answer"),
    (Misdeed::Silence, 300, "lost", ""),
    (Misdeed::SlowRead, 40, "lost", ""),
    (Misdeed::Short, 1000, "lost", "closed 1000 connections without an answer"),
    (Misdeed::Long, 600, "success", ""),
    (Misdeed::Interim, 600, "success", ""),
    (Misdeed::InterimFlood, 600, "lost", "answered 600 connections with something else than HTTP"),
    (Misdeed::Redirect, 600, "failed", ""),
    (Misdeed::Trailers, 600, "success", ""),
    (Misdeed::HugeHead, 300, "lost", "answered 300 connections with something else than HTTP"),
    (Misdeed::Garbage, 600, "lost", "answered 600 connections with something else than HTTP"),
    (Misdeed::HalfClose, 600, "lost", "closed 600 connections without an answer"),
    (Misdeed::GoAway, 600, "lost", "ended 600 connections with a reason of its own (GOAWAY)"),
    (Misdeed::StreamReset, 1000, "lost", "reset 1000 streams"),
    (Misdeed::Stall, 40, "lost", "let the rest of 40 requests not through in time (flow control)"),
];

/// Sixteen peers that each do one thing, and a sender for each.
fn experiment(peers: &[Peer]) -> String {
    let mut text = "[experiment]\nname = \"trial\"\nstop = \"all-requests-done\"\n".to_owned();
    for (peer, (deed, requests, ..)) in peers.iter().zip(DEEDS) {
        let name = deed.word();
        let bytes = if matches!(deed, Misdeed::SlowRead | Misdeed::Stall) { "2MB" } else { "1kB" };
        let timeout = if deed.is_silent() { "100ms" } else { "20s" };
        // those that end a connection would take others along
        let in_flight = if matches!(deed, Misdeed::GoAway | Misdeed::Stall) { 1 } else { 4 };
        text += &format!(
            "[nodes.sender.actors.{name}]\nkind = \"sensor\"\nto = \"{name}/main\"\nrequests = {requests}\nin_flight = {in_flight}\n\
             retries = 0\nbackoff = \"1ms\"\ntimeout = \"{timeout}\"\nbytes = \"{bytes}\"\n\
             [nodes.{name}.actors.main]\nkind = \"receiver\"\nlisten = \"{}\"\n\
             [links.\"sender->{name}\"]\ncarrier = \"{}\"\n",
            peer.address,
            if deed.speaks_http2() { "http2" } else { "http1" }
        );
    }
    text
}

/// Resident memory, kB, and open descriptors of a process that runs (proc(5)).
fn look(id: u32) -> Option<(u64, usize)> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some((resident, fs::read_dir(format!("/proc/{id}/fd")).ok()?.count()))
}

/// Looks at a run until it ends: what it used, with how much had been done to it.
fn watch(running: &mut Running, peers: &[Peer]) -> Vec<(u64, u64, usize)> {
    let begun = Instant::now();
    let mut looks = Vec::new();
    while running.runs() {
        assert!(begun.elapsed() < HANGS, "it hangs: {:?}", peers.iter().map(Peer::done).collect::<Vec<_>>());
        let done = peers.iter().map(Peer::done).sum();
        looks.extend(look(running.id()).map(|(resident, open)| (done, resident, open)));
        std::thread::sleep(Duration::from_millis(20));
    }
    looks
}

/// What each sender's exchanges came to, by its name.
fn totals(bundle: &Bundle) -> BTreeMap<String, Value> {
    let groups = bundle.summary["groups"].as_array().expect("groups").iter();
    let named = groups.map(|group| (group["actor"].as_str().unwrap_or_default().to_owned(), group["totals"].clone()));
    named.collect()
}

#[test]
fn ten_thousand_misdeeds_are_classified_and_leave_nothing_behind() {
    let _busy = beside();
    let scratch = Scratch::new();
    let peers: Vec<Peer> = DEEDS.iter().map(|(deed, ..)| Peer::start(*deed)).collect();
    assert!(DEEDS.iter().map(|(_, requests, ..)| requests).sum::<u64>() >= 10_000);
    scratch.write("trial.toml", experiment(&peers));
    let mut running = scratch.start(&["emulate", "trial.toml", "--only", "sender", "--out", "b", "--quiet"]);
    let looks = watch(&mut running, &peers);
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    let totals = totals(&bundle);
    let notes = bundle.manifest.to_string() + &bundle.summary.to_string() + &bundle.verdict.to_string();
    for (peer, (deed, requests, ending, said)) in peers.iter().zip(DEEDS) {
        let of = &totals[deed.word()];
        assert_eq!(of["generated"], requests, "{deed:?}: {of:#}");
        assert_eq!(of[ending], requests, "{deed:?}: {of:#}");
        assert_eq!(of["attempts"], requests, "{deed:?}: nothing is asked twice: {of:#}");
        let told = format!("{} {said}", peer.address);
        assert!(said.is_empty() || notes.contains(&told), "`{told}` is not in {notes}");
    }
    let half = looks.iter().map(|(done, ..)| *done).max().expect("it was looked at") / 2;
    let most = |late: bool| {
        let part = looks.iter().filter(|(done, ..)| (*done > half) == late);
        part.fold((0_u64, 0_usize), |most, (_, resident, open)| (most.0.max(*resident), most.1.max(*open)))
    };
    let (early, late) = (most(false), most(true));
    println!("{} looks; {early:?} kB and descriptors in the first half, {late:?} after it", looks.len());
    assert!(early.0 > 0 && late.0 > 0, "it was looked at in both halves");
    assert!(late.0 <= early.0 + GROWTH_KB, "memory grew from {} kB to {} kB", early.0, late.0);
    assert!(late.1 <= early.1 + GROWTH_DESCRIPTORS, "descriptors grew from {} to {}", early.1, late.1);
}
