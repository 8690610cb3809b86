//! The closed forms, for a mean service of 1: a is the offered load, rho the load of each server.

/// Mean time in system of M/M/1: 1/(1 − rho). Source: Kleinrock, Queueing Systems I, §3.2.
pub fn mm1_time(rho: f64) -> f64 {
    1.0 / (1.0 - rho)
}

/// Quantile of the time in system of M/M/1, which is exponential.
pub fn mm1_quantile(rho: f64, share: f64) -> f64 {
    -(1.0 - share).ln() / (1.0 - rho)
}

/// Mean wait of M/G/1 by Pollaczek and Khinchine: rho E[S²] / 2(1 − rho). Source: Kleinrock I, §5.6.
pub fn mg1_wait(rho: f64, second_moment: f64) -> f64 {
    rho * second_moment / (2.0 * (1.0 - rho))
}

/// Erlang's loss formula: the share of customers that find all of `servers` busy. Source: ITU-T E.501, by recursion.
pub fn erlang_b(servers: u32, a: f64) -> f64 {
    (1..=servers).fold(1.0, |b, k| a * b / (f64::from(k) + a * b))
}

/// Erlang's delay formula: the share of customers that wait in M/M/c.
pub fn erlang_c(servers: u32, a: f64) -> f64 {
    let (b, rho) = (erlang_b(servers, a), a / f64::from(servers));
    b / (1.0 - rho * (1.0 - b))
}

/// Mean wait of M/M/c.
pub fn mmc_wait(servers: u32, a: f64) -> f64 {
    erlang_c(servers, a) / (f64::from(servers) - a)
}

/// Share of customers that M/M/1/K turns away.
pub fn mm1k_loss(rho: f64, room: i32) -> f64 {
    (1.0 - rho) * rho.powi(room) / (1.0 - rho.powi(room + 1))
}

#[test]
fn the_formulas_give_the_tabulated_values() {
    let table = [
        (mm1_time(0.8), 5.0),
        (mm1_quantile(0.8, 0.95), 14.979),
        (mg1_wait(0.8, 1.0), 2.0),
        (mg1_wait(0.8, 3.25), 6.5),
        (erlang_b(5, 4.0), 0.19907),
        (erlang_b(10, 12.0), 0.30193),
        (erlang_c(4, 3.2), 0.59643),
        (mmc_wait(16, 14.4), 0.36959),
        (mmc_wait(4, 3.2) + 1.0, 1.7455),
        (mm1k_loss(0.9, 10), 0.05081),
    ];
    for (value, known) in table {
        assert!((value - known).abs() < 6e-4 * known.max(1e-2), "{value} is not {known}");
    }
}
