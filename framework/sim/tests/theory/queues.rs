//! The classical queues, of a node's cores by themselves.

use crate::formulas::{erlang_b, erlang_c, mg1_wait, mm1_quantile, mm1_time, mm1k_loss, mmc_wait};
use crate::interval::{check, mean, settled};
use crate::station::{Customer, Service, Station, UNIT};

const COUNT: usize = 100_000;

fn times(customers: &[Customer]) -> impl Iterator<Item = f64> + '_ {
    settled(customers).iter().filter_map(Customer::time)
}

fn waits(customers: &[Customer]) -> impl Iterator<Item = f64> + '_ {
    settled(customers).iter().filter_map(|customer| Some(customer.time()? - customer.work / UNIT))
}

fn lost(customers: &[Customer]) -> f64 {
    mean(settled(customers).iter().map(|customer| f64::from(u8::from(customer.left.is_none()))))
}

#[test]
fn one_server_with_random_service() {
    let station = Station::new(1, true, Service::Exponential);
    check("M/M/1 time", mm1_time(0.8), 0.05, |seed| mean(times(&station.run(seed, 0.8, COUNT))));
    check("M/M/1 p95", mm1_quantile(0.8, 0.95), 0.06, |seed| {
        let mut all: Vec<f64> = times(&station.run(seed, 0.8, COUNT)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() * 95 / 100]
    });
}

#[test]
fn one_server_with_other_services() {
    let fixed = Station::new(1, true, Service::Fixed);
    check("M/D/1 wait", mg1_wait(0.8, 1.0), 0.05, |seed| mean(waits(&fixed.run(seed, 0.8, COUNT))));
    let bimodal = Station::new(1, true, Service::Bimodal);
    check("M/G/1 wait", mg1_wait(0.8, 3.25), 0.1, |seed| mean(waits(&bimodal.run(seed, 0.8, COUNT))));
}

#[test]
fn several_servers() {
    let four = Station::new(4, true, Service::Exponential);
    check("M/M/4 share that waits", erlang_c(4, 3.2), 0.03, |seed| {
        // 1 ns is what rounding can add
        mean(waits(&four.run(seed, 3.2, COUNT)).map(|wait| f64::from(u8::from(wait * UNIT > 1.5))))
    });
    let sixteen = Station::new(16, true, Service::Exponential);
    check("M/M/16 wait", mmc_wait(16, 14.4), 0.15, |seed| mean(waits(&sixteen.run(seed, 14.4, COUNT))));
}

#[test]
fn losses() {
    for (servers, a, service) in
        [(5, 4.0, Service::Exponential), (5, 4.0, Service::Fixed), (10, 12.0, Service::Exponential)]
    {
        let station = Station { room: servers as usize, ..Station::new(servers, true, service) };
        let name = format!("M/{service:?}/{servers}/{servers} loss");
        check(&name, erlang_b(servers, a), 0.04, |seed| lost(&station.run(seed, a, COUNT)));
    }
    let station = Station { room: 10, ..Station::new(1, true, Service::Exponential) };
    check("M/M/1/10 loss", mm1k_loss(0.9, 10), 0.08, |seed| lost(&station.run(seed, 0.9, COUNT)));
}

#[test]
fn shared_cores_do_not_care_how_long_services_are() {
    for service in [Service::Exponential, Service::Bimodal] {
        let station = Station::new(1, false, service);
        check(&format!("M/{service:?}/1-PS time"), mm1_time(0.8), 0.06, |seed| {
            mean(times(&station.run(seed, 0.8, COUNT)))
        });
    }
    // each is slowed down alike: time = work / (1 − rho)
    let station = Station::new(1, false, Service::Bimodal);
    for (name, large) in [("small", false), ("large", true)] {
        check(&format!("M/G/1-PS slowdown of {name} ones"), mm1_time(0.8), 0.08, |seed| {
            let all = station.run(seed, 0.8, COUNT);
            let of = settled(&all).iter().filter(|customer| (customer.work > UNIT) == large);
            mean(of.filter_map(|customer| Some(customer.time()? / (customer.work / UNIT))))
        });
    }
    let four = Station::new(4, false, Service::Exponential);
    check("M/M/4-PS time", mmc_wait(4, 3.2) + 1.0, 0.03, |seed| mean(times(&four.run(seed, 3.2, COUNT))));
}
