//! Which packets are lost: each by itself, or in bursts.
//!
//! Independent losses (Bernoulli) are drawn as the gap to the next one, which is geometric, so that a message of many
//! packets costs one draw and not one each. Bursts follow Gilbert (1960, doi 10.1002/j.1538-7305.1960.tb03959.x) and
//! Elliott (1963): a chain of two states that moves with every packet. It begins in its stationary distribution.
//!
//! What a stream sends again after a timeout is decided at once, though it comes 200 ms or more later: by then the burst
//! that caused it is over. Assumed: more packets than a burst is long pass meanwhile, or a burst is one of time, such as a
//! shadow. So it is drawn from the stationary distribution ([`Loss::leave`]), and the burst goes on for the packets that do
//! come next ([`Loss::back`]). A lone sender with one message under way, on a chain that really stands still meanwhile,
//! would meet the same burst again.

use rehearsal_core::RngStream;
use rehearsal_core::plan::{GilbertElliott, LinkSpec};

/// The process that decides on packet after packet.
#[derive(Clone, Debug)]
pub struct Loss(Model);

#[derive(Clone, Debug)]
enum Model {
    None,
    Independent { share: f64, until: u64 },
    Bursts { spec: GilbertElliott, within: bool },
}

impl Loss {
    /// That of a link.
    pub fn of(spec: &LinkSpec, rng: &mut RngStream) -> Self {
        Loss(match spec.gilbert_elliott {
            Some(spec) => Model::Bursts { spec, within: rng.unit() < spec.within() },
            None if spec.loss.0 > 0.0 => Model::Independent { share: spec.loss.0, until: gap(spec.loss.0, rng) },
            None => Model::None,
        })
    }

    /// Whether it never loses anything.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self.0, Model::None)
    }

    /// The first of the next `packets` packets that is lost. The process has then moved past it, else past all of them.
    #[inline]
    pub fn first(&mut self, packets: u64, rng: &mut RngStream) -> Option<u64> {
        match &mut self.0 {
            Model::None => None,
            Model::Independent { share, until } => {
                if *until >= packets {
                    *until -= packets;
                    return None;
                }
                Some(std::mem::replace(until, gap(*share, rng)))
            }
            Model::Bursts { spec, within } => (0..packets).find(|_| step(spec, within, rng)),
        }
    }

    /// Goes to a time so much later that nothing is known of it; where it was, if that matters.
    pub fn leave(&mut self, rng: &mut RngStream) -> Option<Place> {
        let Model::Bursts { spec, within } = &mut self.0 else { return None };
        let later = rng.unit() < spec.within();
        Some(Place { within: std::mem::replace(within, later) })
    }

    /// Goes back to where it was left.
    pub fn back(&mut self, place: Option<Place>) {
        if let (Model::Bursts { within, .. }, Some(place)) = (&mut self.0, place) {
            *within = place.within;
        }
    }

    /// Whether any of the next `packets` packets is lost; the process moves past all of them.
    #[inline]
    pub fn any(&mut self, packets: u64, rng: &mut RngStream) -> bool {
        let (mut left, mut any) = (packets, false);
        while let Some(lost) = self.first(left, rng) {
            left -= lost + 1;
            any = true;
        }
        any
    }
}

/// Where a process of bursts was when it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    within: bool,
}

/// Packets before the next loss. Inverse transform of the geometric distribution.
fn gap(share: f64, rng: &mut RngStream) -> u64 {
    // in (0, 1]: its logarithm is finite
    let unit = 1.0 - rng.unit();
    // a float beyond u64 is held at its largest value by the conversion
    (unit.ln() / (1.0 - share).ln()).max(0.0) as u64
}

/// One packet through the chain: whether it is lost.
fn step(spec: &GilbertElliott, within: &mut bool, rng: &mut RngStream) -> bool {
    let moves = if *within { spec.end.0 } else { spec.begin.0 };
    *within ^= rng.unit() < moves;
    let share = if *within { spec.loss_within.0 } else { spec.loss_between.0 };
    share > 0.0 && rng.unit() < share
}

#[cfg(test)]
mod tests {
    use rehearsal_core::rng::Seed;
    use rehearsal_core::units::Fraction;

    use super::*;

    fn rng() -> RngStream {
        RngStream::new(Seed { seed: 11, repetition: 0, group: "link/a-b", member: 0, stream: 0, purpose: "link" })
    }

    /// Lengths of the runs of lost packets among `n`.
    fn bursts(spec: &LinkSpec, n: u64) -> Vec<u64> {
        let mut rng = rng();
        let mut loss = Loss::of(spec, &mut rng);
        let (mut runs, mut length) = (Vec::new(), 0);
        for _ in 0..n {
            if loss.any(1, &mut rng) {
                length += 1;
            } else if length > 0 {
                runs.push(std::mem::take(&mut length));
            }
        }
        runs
    }

    #[test]
    fn bursts_have_the_share_and_the_length_that_theory_says() {
        let share = Fraction;
        let spec =
            GilbertElliott { begin: share(0.01), end: share(0.2), loss_between: share(0.0), loss_within: share(1.0) };
        let n = 400_000;
        let runs = bursts(&LinkSpec { gilbert_elliott: Some(spec), ..LinkSpec::default() }, n);
        // stationary share 0.01 / 0.21; autocorrelation 1 − 0.21 widens its variance by (2 − 0.21) / 0.21 = 8.5
        let lost = runs.iter().sum::<u64>() as f64 / n as f64;
        let (wanted, bound) = (spec.loss(), 5.0 * (0.0476 * 0.9524 * 8.5 / n as f64).sqrt());
        assert!((lost - wanted).abs() < bound, "{lost}, not {wanted} ± {bound}");
        // geometric length: mean 5, standard deviation sqrt(20)
        let mean = runs.iter().sum::<u64>() as f64 / runs.len() as f64;
        let bound = 5.0 * (20.0 / runs.len() as f64).sqrt();
        assert!((mean - 5.0).abs() < bound, "{mean}, not 5 ± {bound}");
    }

    #[test]
    fn independent_losses_are_as_frequent_one_by_one_and_in_messages() {
        let spec = LinkSpec { loss: Fraction(0.03), ..LinkSpec::default() };
        let n = 200_000;
        let runs = bursts(&spec, n);
        let mean = runs.iter().sum::<u64>() as f64 / runs.len() as f64;
        // a run goes on with probability 0.03: mean 1 / 0.97 = 1.031
        assert!((mean - 1.031).abs() < 0.02, "{mean}");
        let mut rng = rng();
        let mut loss = Loss::of(&spec, &mut rng);
        let hit = (0..20_000).filter(|_| loss.any(10, &mut rng)).count() as f64 / 20_000.0;
        // 1 − 0.97^10 = 0.2626, standard error 0.0031; five of them
        assert!((hit - 0.2626).abs() < 0.0156, "{hit}");
    }

    #[test]
    fn all_and_nothing_are_exact() {
        let mut rng = rng();
        let mut all = Loss::of(&LinkSpec { loss: Fraction(1.0), ..LinkSpec::default() }, &mut rng);
        assert_eq!([1, 5, 100].map(|n| all.first(n, &mut rng)), [Some(0); 3]);
        let mut none = Loss::of(&LinkSpec::default(), &mut rng);
        assert!(none.is_none() && !none.any(1_000_000, &mut rng));
    }
}
