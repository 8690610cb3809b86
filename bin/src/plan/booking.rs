//! The booking as a whole: experiments that run one after the other on the same machines.

use super::arithmetic::{Bounds, HOUR_S, at_least_both, window_s};
use super::estimate::{BUNDLE_BYTES, ROW_BYTES};
use super::facility::Facility;
use super::sheet::{Assumption, Booked, Booking, Cost, Experiment};

/// Puts the experiments together.
pub fn booking(experiments: &[Experiment], facility: &Facility) -> Booking {
    let machines = machines(experiments);
    let nodes = machines.len() as u64;
    let total_s = experiments.iter().fold(facility.once_s(), |sum, e| sum.plus(e.time.total_s));
    let traffic = |e: &Experiment| e.time.run_s.map(|run| run * f64::from(e.time.repetitions));
    let traffic_s = experiments.iter().fold(Bounds::default(), |sum, e| sum.plus(traffic(e)));
    let hours = |seconds: f64| seconds / HOUR_S;
    let window_h = total_s.map(|s| hours(window_s(s, facility.facility.quantum.as_secs_f64())));
    let vcpu: f64 = machines.iter().map(|m| m.vcpu).sum();
    let gib = machines.iter().map(|m| m.memory_bytes as f64).sum::<f64>() / f64::from(1 << 30);
    let (node_h, vcpu_h, gib_h) =
        (window_h.map(|h| h * nodes as f64), window_h.map(|h| h * vcpu), window_h.map(|h| h * gib));
    let cost = facility.tariff.as_ref().map(|tariff| Cost {
        currency: tariff.currency.clone(),
        amount: node_h
            .map(|h| h * tariff.node_hour)
            .plus(vcpu_h.map(|h| h * tariff.vcpu_hour))
            .plus(gib_h.map(|h| h * tariff.gib_hour)),
    });
    let all =
        |of: fn(&Experiment) -> f64| experiments.iter().map(|e| of(e) * f64::from(e.time.repetitions)).sum::<f64>();
    let payload = |e: &Experiment| e.volume.payload_bytes.map(|bytes| bytes * f64::from(e.time.repetitions));
    let (busiest, busiest_mbps) = busiest(experiments);
    let published = experiments.iter().all(|e| e.volume.published_bytes.is_some());
    Booking {
        nodes,
        vcpu_requested: most(experiments, |node| node.requested.vcpu),
        memory_requested_bytes: most(experiments, |node| node.requested.memory_bytes.map(|b| b as f64)) as u64,
        machines,
        runs: experiments.iter().map(|e| u64::from(e.time.repetitions)).sum(),
        total_h: total_s.map(hours),
        traffic_h: traffic_s.map(hours),
        window_h,
        node_h,
        vcpu_h,
        gib_h,
        cost,
        requests: all(|e| e.volume.requests),
        payload_bytes: experiments.iter().map(payload).fold(Bounds::default(), Bounds::plus),
        wire_bytes: all(|e| e.volume.wire_bytes),
        published_payload_bytes: published.then(|| all(|e| e.volume.published_bytes.unwrap_or(0.0))),
        bundle_bytes: experiments.iter().map(|e| e.data.bundle_bytes).sum(),
        busiest_mbps,
        busiest,
    }
}

/// What the nodes with traffic of the most demanding experiment ask for.
fn most(experiments: &[Experiment], of: fn(&super::sheet::Node) -> Option<f64>) -> f64 {
    let each = experiments.iter().map(|e| {
        let traffic = e.nodes.iter().filter(|node| node.role == "traffic");
        traffic.filter_map(|node| Some(of(node)? * f64::from(node.count))).sum::<f64>()
    });
    each.fold(0.0, f64::max)
}

/// For each rank the largest that any experiment needs: cores and memory each sorted downwards. What does not fit the
/// facility is left out; a warning tells of it.
fn machines(experiments: &[Experiment]) -> Vec<Booked> {
    let mut ranks: Vec<Booked> = Vec::new();
    for experiment in experiments {
        let booked = experiment.nodes.iter().filter_map(|node| Some((node.booked.as_ref()?, node.count)));
        let mut machines: Vec<Booked> =
            booked.flat_map(|(machine, count)| std::iter::repeat_n(machine.clone(), count as usize)).collect();
        machines.sort_by(|a, b| b.vcpu.total_cmp(&a.vcpu).then(b.memory_bytes.cmp(&a.memory_bytes)));
        let figures = |of: fn(&Booked) -> f64| {
            let mut both: [Vec<f64>; 2] = [ranks.iter().map(of).collect(), machines.iter().map(of).collect()];
            both.iter_mut().for_each(|list| list.sort_by(|a, b| b.total_cmp(a)));
            at_least_both(&both[0], &both[1])
        };
        let (vcpu, memory) = (figures(|m| m.vcpu), figures(|m| m.memory_bytes as f64));
        let kinds = if ranks.len() >= machines.len() { ranks.clone() } else { machines.clone() };
        ranks = kinds
            .into_iter()
            .zip(vcpu.into_iter().zip(memory))
            .map(|(kind, (vcpu, memory))| Booked { vcpu, memory_bytes: memory as u64, ..kind })
            .collect();
    }
    ranks
}

fn busiest(experiments: &[Experiment]) -> (String, f64) {
    let loads = experiments.iter().flat_map(|e| {
        e.nodes.iter().map(move |node| (format!("{} of {}", node.name, e.name), node.in_mbps.max(node.out_mbps)))
    });
    loads.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// What every sheet for this facility rests on.
pub fn assumptions(experiments: &[Experiment], facility: &Facility) -> Vec<Assumption> {
    let about = &facility.facility;
    let once = facility.once_s();
    let mut told = vec![
        (format!("bookings are multiples of {}", about.quantum), facility.source("quantum")),
        (format!("each node has an interface of {}", about.nic), facility.source("nic")),
        (format!("each node needs {} of disk", about.disk), facility.source("disk")),
        (
            format!("a node that does not say gets {} vCPU and {}", facility.default.vcpu, facility.default.memory),
            facility.source("default"),
        ),
        (format!("{} before and {} after each run", facility.run.setup, facility.run.teardown), facility.source("run")),
        (
            format!("once {:.0} s to get ready ({:.0} to {:.0} s)", once.expected, once.low, once.high),
            facility.source("once"),
        ),
    ];
    if facility.sizes.is_some() {
        told.push(("machines come in set sizes; the next larger is booked".to_owned(), facility.source("sizes")));
    }
    if !facility.machines.is_empty() {
        told.push(("whole machines are booked, one for each node".to_owned(), facility.source("machines")));
    }
    let mut all: Vec<Assumption> =
        told.into_iter().map(|(what, source)| Assumption { what, source: source.to_owned() }).collect();
    all.extend(ours(experiments));
    all
}

/// What rests on ourselves.
fn ours(experiments: &[Experiment]) -> Vec<Assumption> {
    let assume = |what: String, source: &str| Assumption { what, source: source.to_owned() };
    let mut all = vec![
        assume(
            "request sizes are those of a short dry run of each file, with its own clips".to_owned(),
            "a dry run of some 20,000 requests, seed and repetition of the file",
        ),
        assume(
            "headers on the wire: HTTP or NATS, TCP or UDP, IPv4, Ethernet with preamble and gap; handshakes, acknowledgements \
             and retransmissions are left out"
                .to_owned(),
            "RFC 9293, RFC 768, RFC 791, IEEE 802.3; the HTTP head of 150 bytes is assumed",
        ),
        assume(
            "peaks are the 99th percentile of the whole seconds of that dry run, scaled to the expected rate".to_owned(),
            "assumed",
        ),
        assume(
            format!("bundles: {:.0} kB, and {ROW_BYTES} B for each second of a node or actor", BUNDLE_BYTES / 1e3),
            "bundles of the shipped experiments",
        ),
        assume(
            "high: every request just keeps its limit if it has one, else half as long again; a duration with all of its grace"
                .to_owned(),
            "assumed",
        ),
        assume("experiments run one after the other on the same machines".to_owned(), "assumed"),
    ];
    for e in experiments {
        all.push(assume(format!("{}: {:.0} s of traffic", e.name, e.time.run_s.expected), &e.time.because));
        let source = e.volume.published_bytes.zip(e.volume.published_source.as_deref());
        all.extend(
            source.map(|(bytes, source)| assume(format!("{}: published volume {:.0} GB", e.name, bytes / 1e9), source)),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Basis;
    use super::super::sheet::{Data, Node, Requested, Times, Volume};
    use super::*;

    fn booked(vcpu: f64, gib: u64) -> Booked {
        Booked { machine: None, vcpu, memory_bytes: gib << 30, disk_bytes: 0, nic_mbps: 1000.0 }
    }

    fn experiment(nodes: &[(u32, f64, u64)], run_s: f64, repetitions: u32) -> Experiment {
        let node = |(count, vcpu, gib): &(u32, f64, u64)| Node {
            name: format!("n{vcpu}"),
            count: *count,
            role: "traffic".to_owned(),
            requested: Requested { vcpu: Some(*vcpu), memory_bytes: Some(*gib << 30) },
            booked: Some(booked(*vcpu, *gib)),
            in_mbps: 10.0 * vcpu,
            out_mbps: 1.0,
            utilisation: None,
        };
        Experiment {
            name: "e".to_owned(),
            file: "e.toml".to_owned(),
            nodes: nodes.iter().map(node).collect(),
            links: Vec::new(),
            time: Times {
                basis: Basis::Duration,
                because: String::new(),
                run_s: Bounds::exact(run_s),
                setup_s: 5.0,
                teardown_s: 30.0,
                repetitions,
                total_s: Bounds::exact((run_s + 35.0) * f64::from(repetitions)),
                bound_s: None,
            },
            volume: Volume {
                requests: 1000.0,
                payload_bytes: Bounds { low: 1e6, expected: 2e6, high: 3e6 },
                wire_bytes: 2.1e6,
                published_bytes: None,
                published_source: None,
            },
            data: Data { bundle_bytes: 5.0, recorded_requests: 0.0, capture_bytes: 0.0 },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_booking_holds_the_largest_and_lasts_as_long_as_all() {
        // two of 4 vCPU and one of 1, then three of 2 and one of 1: ranks 4, 4, 2, 1
        let both =
            [experiment(&[(2, 4.0, 1), (1, 1.0, 8)], 685.0, 10), experiment(&[(3, 2.0, 2), (1, 1.0, 1)], 145.0, 20)];
        let facility = Facility::named("generic-lab").expect("shipped");
        let of = booking(&both, &facility);
        assert_eq!(of.machines.iter().map(|m| m.vcpu).collect::<Vec<_>>(), [4.0, 4.0, 2.0, 1.0]);
        assert_eq!(of.machines.iter().map(|m| m.memory_bytes >> 30).collect::<Vec<_>>(), [8, 2, 2, 1]);
        assert_eq!((of.nodes, of.vcpu_requested, of.memory_requested_bytes >> 30), (4, 9.0, 10));
        // 10 × 720 s and 20 × 180 s: three hours; ten minutes more at worst
        assert_eq!(
            (of.total_h.expected, of.window_h, of.runs),
            (3.0, Bounds { low: 3.0, expected: 3.0, high: 4.0 }, 30)
        );
        assert_eq!((of.node_h.expected, of.vcpu_h.expected, of.gib_h.expected), (12.0, 33.0, 39.0));
        assert_eq!((of.requests, of.payload_bytes.high, of.cost.is_none()), (30_000.0, 9e7, true));
        assert_eq!((of.busiest.as_str(), of.busiest_mbps), ("n4 of e", 40.0));
    }

    #[test]
    fn a_tariff_is_summed_over_nodes_cores_and_memory() {
        let mut facility = Facility::named("generic-lab").expect("shipped");
        facility.tariff = Some(super::super::facility::Tariff {
            currency: "EUR".to_owned(),
            node_hour: 0.5,
            vcpu_hour: 0.1,
            gib_hour: 0.01,
        });
        // two nodes of 2 vCPU and 4 GiB for an hour: 1.00 + 0.40 + 0.08
        let cost = booking(&[experiment(&[(2, 2.0, 4)], 100.0, 1)], &facility).cost.expect("a tariff");
        assert!((cost.amount.expected - 1.48).abs() < 1e-9, "{cost:?}");
    }
}
