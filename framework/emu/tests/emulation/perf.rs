//! temporary
use rehearsal_core::messages::{GroupSnapshot, Metric};
use rehearsal_core::plan::{Carrier, Connection, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::Rate;
use rehearsal_core::Span;
use rehearsal_emu::{Control, EmuOptions};
use crate::actors::{Temper, controller, logger, receivers, sensors};
use crate::lab::{Records, check_identities, emulate, group, plan, sender};

fn cpu() -> f64 {
    let t = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = t.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
fn q(records: &Records, metric: Metric) -> String {
    use rehearsal_core::parts::ledger::histogram;
    let mut all = histogram();
    let mut d = hdrhistogram::serialization::Deserializer::new();
    for b in records.all() {
        if let Ok(s) = b.get::<GroupSnapshot>() { if s.second == 0 { continue; } for h in &s.histograms { if h.metric == metric { all.add(d.deserialize::<u64, _>(&mut &h.v2[..]).unwrap()).unwrap(); } } }
    }
    format!("p50 {:.0} p99 {:.0} max {:.0} us", all.value_at_quantile(0.5) as f64 / 1e3, all.value_at_quantile(0.99) as f64 / 1e3, all.max() as f64 / 1e3)
}
fn go(name: &str, params: SenderParams, count: u32, connection: Connection, options: EmuOptions, bytes: u32) {
    let secs = 4.0;
    let nodes = vec![sensors("sensor", count, SenderParams { requests: None, ..params }, bytes), receivers("receiver", 1, Temper::Prompt), controller(1, Some(Span::from_secs(4))), logger()];
    let plan = plan(nodes, Carrier::Http1, connection, Stop::After(Span::from_secs(4)));
    let records = Records::default();
    let c0 = cpu();
    let end = emulate(plan, options, &records, Control::new());
    let c = cpu() - c0;
    check_identities(&end);
    let t = &group(&end, 0).tally;
    println!("{name}: {:.0}/s cpu/req {:.2} us lost {} | lag {} | response {} | {:?}", t.success as f64 / secs, c * 1e6 / t.success as f64, t.lost, q(&records, Metric::Lag), q(&records, Metric::Response), end.notes);
}
#[test]
#[ignore]
fn perf() {
    for shards in [1, 2] {
        let o = EmuOptions { shards: Some(shards), ..EmuOptions::default() };
        go(&format!("closed 32, {shards}"), SenderParams { streams: 32, ..sender("receiver/main", 0) }, 1, Connection::KeepAlive, o.clone(), 1000);
        go(&format!("per-request 32, {shards}"), SenderParams { streams: 32, ..sender("receiver/main", 0) }, 1, Connection::PerRequest, o.clone(), 1000);
        go(&format!("open 1000 x 10/s, {shards}"), SenderParams { rate: Some(Rate::per_second(10)), in_flight: 4, ..sender("receiver/main", 0) }, 1000, Connection::KeepAlive, o.clone(), 1000);
        go(&format!("open 10 x 100/s, {shards}"), SenderParams { rate: Some(Rate::per_second(100)), in_flight: 4, ..sender("receiver/main", 0) }, 10, Connection::KeepAlive, o.clone(), 1000);
        go(&format!("closed 32 x 150kB, {shards}"), SenderParams { streams: 32, ..sender("receiver/main", 0) }, 1, Connection::KeepAlive, o.clone(), 150_000);
        go(&format!("overload 1M/s, {shards}"), SenderParams { rate: Some(Rate::per_second(10_000)), in_flight: 4, ..sender("receiver/main", 0) }, 100, Connection::KeepAlive, o, 100);
    }
}
