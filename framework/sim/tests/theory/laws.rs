//! Laws that hold whatever the chance: Little's, conservation, utilisation; and Burke's theorem, which needs the chance.

use crate::formulas::mm1_time;
use crate::interval::{SEEDS, accept, check, mean, settled};
use crate::station::{Customer, Service, Station, UNIT, poisson};

const COUNT: usize = 100_000;

/// Integral over time of the number of customers, from the times at which it changes.
fn integral(customers: &[Customer]) -> u128 {
    let mut changes: Vec<(u64, i64)> =
        customers.iter().filter_map(|c| Some([(c.came, 1), (c.left?, -1)])).flatten().collect();
    changes.sort_unstable();
    let (mut number, mut last, mut sum) = (0_i64, 0, 0_u128);
    for (at, by) in changes {
        sum += u128::from(at - last) * number.unsigned_abs() as u128;
        number += by;
        last = at;
        assert!(number >= 0);
    }
    assert_eq!(number, 0, "whoever came has left");
    sum
}

#[test]
fn littles_law_is_exact_and_nobody_gets_lost() {
    for station in [
        Station::new(1, true, Service::Exponential),
        Station::new(3, false, Service::Bimodal),
        Station { room: 4, ..Station::new(2, true, Service::Exponential) },
    ] {
        let all = station.run(3, 0.9 * f64::from(station.cores), COUNT);
        let spent: u128 = all.iter().filter_map(|c| Some(u128::from(c.left? - c.came))).sum();
        assert_eq!(integral(&all), spent, "{station:?}");
        let (served, turned_away) =
            (all.iter().filter(|c| c.left.is_some()).count(), all.iter().filter(|c| c.left.is_none()).count());
        assert_eq!(served + turned_away, COUNT);
        assert_eq!(turned_away > 0, station.room < COUNT);
    }
}

/// Core time is the work of those who were served: to 1 ns for each, which is what their ends are rounded by.
#[test]
fn the_utilisation_law_holds() {
    for (cores, fifo) in [(1, true), (4, true), (1, false), (4, false)] {
        let station = Station { room: 40, ..Station::new(cores, fifo, Service::Exponential) };
        let (all, busy) = station.serve(5, &poisson(5, 0.95 * f64::from(cores), COUNT));
        let work: f64 = all.iter().filter(|c| c.left.is_some()).map(|c| c.work).sum();
        assert!((busy - work).abs() < COUNT as f64, "{busy} of {work}");
    }
}

#[test]
fn the_load_of_the_servers_is_what_is_offered() {
    let station = Station::new(4, false, Service::Bimodal);
    check("utilisation", 0.7, 0.03, |seed| {
        let arrivals = poisson(seed, 2.8, COUNT);
        let (all, busy) = station.serve(seed, &arrivals);
        busy / 4.0 / all.iter().filter_map(|c| c.left).max().expect("somebody left") as f64
    });
}

/// What leaves M/M/1 is Poisson again: the gaps have the variance of an exponential and know nothing of each other, so the
/// second of two queues is M/M/1 too, and the times in both are independent.
#[test]
fn burkes_theorem_holds_in_a_tandem() {
    let (first, second) = (Station::new(1, true, Service::Exponential), Station::new(1, true, Service::Exponential));
    let (mut spread, mut memory, mut time, mut tie) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=SEEDS {
        let one = first.run(seed, 0.7, COUNT);
        let leaving: Vec<u64> = one.iter().filter_map(|c| c.left).collect();
        let gaps: Vec<f64> = settled(&leaving).windows(2).map(|w| (w[1] - w[0]) as f64 / UNIT).collect();
        let centre = mean(gaps.iter().copied());
        let variance = mean(gaps.iter().map(|gap| (gap - centre).powi(2)));
        spread.push(variance / centre.powi(2));
        memory.push(1.0 + mean(gaps.windows(2).map(|w| (w[0] - centre) * (w[1] - centre))) / variance);
        let (two, _) = second.serve(seed + 1000, &leaving);
        time.push(mean(settled(&two).iter().filter_map(Customer::time)));
        let pairs: Vec<(f64, f64)> =
            settled(&one).iter().zip(settled(&two)).filter_map(|(a, b)| Some((a.time()?, b.time()?))).collect();
        let (a, b) = (mean(pairs.iter().map(|p| p.0)), mean(pairs.iter().map(|p| p.1)));
        tie.push(1.0 + mean(pairs.iter().map(|p| (p.0 - a) * (p.1 - b))) / (a * b));
    }
    accept("squared variation of the gaps", 1.0, 0.03, &spread);
    accept("1 + correlation of successive gaps", 1.0, 0.03, &memory);
    accept("time in the second queue", mm1_time(0.7), 0.06, &time);
    accept("1 + correlation of the two times", 1.0, 0.06, &tie);
}
