//! The Markov chain behind a modulated Poisson process.

use std::collections::BTreeMap;

use super::{STATES_MAX, State};

/// A checked chain; states are numbered in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Exchanges per ns in each state.
    pub rates: Vec<f64>,
    /// Transitions per ns out of each state, to which and how often.
    pub exits: Vec<Vec<(usize, f64)>>,
    /// The share of time in each state, in the long run.
    pub shares: Vec<f64>,
}

impl Chain {
    pub(super) fn new(states: &BTreeMap<String, State>) -> Result<Chain, String> {
        if !(2..=STATES_MAX).contains(&states.len()) {
            return Err(format!("`states` has 2 to {STATES_MAX} states"));
        }
        let names: Vec<&String> = states.keys().collect();
        let mut exits = Vec::new();
        for (name, state) in states {
            let mut row = Vec::new();
            for (to, rate) in &state.to {
                let index = names.iter().position(|known| *known == to).filter(|_| to != name);
                let index = index.ok_or_else(|| format!("state `{name}` goes to `{to}`, which is no other state"))?;
                row.push((index, rate.as_f64() / 1e9));
            }
            exits.push(row);
        }
        for (index, from) in names.iter().enumerate() {
            if let Some(lost) = (0..names.len()).find(|to| !reaches(&exits, index, *to)) {
                return Err(format!("no way leads from state `{from}` to `{}`; give it in `to`", names[lost]));
            }
        }
        let rates: Vec<f64> = states.values().map(|s| s.rate.map_or(0.0, |rate| rate.as_f64() / 1e9)).collect();
        let shares = shares(&exits);
        let chain = Chain { rates, exits, shares };
        let turns: f64 =
            chain.exits.iter().zip(&chain.shares).map(|(row, p)| p * row.iter().map(|e| e.1).sum::<f64>()).sum();
        match chain.mean() {
            mean if mean <= 0.0 => Err("no state has a `rate`".to_owned()),
            mean if turns > mean * super::course::TURNS_MAX => {
                Err(format!("it changes state more than {} times for each exchange", super::course::TURNS_MAX))
            }
            _ => Ok(chain),
        }
    }

    /// Exchanges per ns in the long run.
    pub fn mean(&self) -> f64 {
        self.rates.iter().zip(&self.shares).map(|(rate, share)| rate * share).sum()
    }

    /// Index of dispersion of counts over a long time, variance by mean; `None` with more than two states.
    ///
    /// 1 + 2 (λ₁ − λ₂)² r₁ r₂ / ((r₁ + r₂)² (λ₁ r₂ + λ₂ r₁)). Source: Heffes & Lucantoni, A Markov modulated
    /// characterization of packetized voice and data traffic, IEEE JSAC 4(6), 1986; Fischer & Meier-Hellstern, The
    /// Markov-modulated Poisson process (MMPP) cookbook, Performance Evaluation 18, 1993.
    pub fn dispersion(&self) -> Option<f64> {
        let ([l1, l2], [a, b]) = (self.rates.as_slice(), self.exits.as_slice()) else { return None };
        let (r1, r2) = (a.first()?.1, b.first()?.1);
        Some(1.0 + 2.0 * (l1 - l2).powi(2) * r1 * r2 / ((r1 + r2).powi(2) * (l1 * r2 + l2 * r1)))
    }
}

/// Whether a way leads from one state to another.
fn reaches(exits: &[Vec<(usize, f64)>], from: usize, to: usize) -> bool {
    let (mut seen, mut open) = (vec![false; exits.len()], vec![from]);
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(exits[at].iter().map(|(next, _)| *next));
        }
    }
    seen[to]
}

/// The stationary distribution, by elimination without subtractions. Source: Grassmann, Taksar & Heyman, Regenerative
/// analysis and steady state distributions for Markov chains, Operations Research 33(5), 1985.
fn shares(exits: &[Vec<(usize, f64)>]) -> Vec<f64> {
    let n = exits.len();
    let mut q = vec![vec![0.0; n]; n];
    for (from, row) in exits.iter().enumerate() {
        for (to, rate) in row {
            q[from][*to] = *rate;
        }
    }
    for k in (1..n).rev() {
        let out: f64 = q[k][..k].iter().sum();
        for i in 0..k {
            q[i][k] /= out;
            for j in (0..k).filter(|j| *j != i) {
                q[i][j] += q[i][k] * q[k][j];
            }
        }
    }
    let mut shares = vec![1.0; n];
    for k in 1..n {
        shares[k] = (0..k).map(|i| shares[i] * q[i][k]).sum();
    }
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}
