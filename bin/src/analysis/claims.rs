//! What the paper claims, held against results: it holds here, it does not, or they cannot tell.

use rehearsal_export::Status;
use rehearsal_stats::Held;
use rehearsal_stats::correlation::STRONG;
use serde::Serialize;

use super::Analysis;
use super::nodes::Role;
use super::paper::{Claim, Paper};
use super::tables::{Coefficient, NodeRow, Related, Relation};

/// The claims that can be judged, in the order of the paper's file.
pub const IDS: [&str; 5] = ["linear", "strong", "collapse", "flat-memory", "cpu-bound"];
/// Memory is flat if nine tenths of the seconds differ by at most this share of it. Assumed: the paper's Figure 4 shows a
/// line without saying how flat.
const MEMORY_SPREAD_MAX: f64 = 0.05;
/// Nor does it matter if they differ by at most this share of what the node is allowed. Assumed: the paper plots per cent
/// of that, and a program of a few megabytes moves by more than a twentieth of itself.
const MEMORY_SPREAD_OF_LIMIT_MAX: f64 = 0.01;
/// A CPU is saturated if its mean load is at least this, % of what the node is allowed. Assumed: sampling by the second
/// hides short pauses.
const SATURATED_PERCENT: f64 = 90.0;

/// A rate that varies by no more than this share of itself shows no relation to anything. Assumed: where seconds are cut
/// alone moves the count of a paced sender by one or two.
const RATE_SPREAD_SHARE_MIN: f64 = 0.02;
/// The same in exchanges per second, for low rates.
const RATE_SPREAD_MIN: f64 = 2.0;

/// One claim and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Which.
    pub id: String,
    /// What it says.
    pub text: String,
    /// Where it stands.
    pub source: String,
    /// The answer.
    pub held: Held,
    /// The measurements behind it, and how they were judged.
    pub because: String,
}

/// The claims about the scenario that an experiment shows; none for an experiment that shows none.
pub fn judge(analysis: &Analysis, paper: &Paper) -> Vec<Judged> {
    let Some(scenario) = paper.scenario(&analysis.experiment) else { return Vec::new() };
    let about = paper.claims.iter().filter(|claim| claim.scenarios.iter().any(|s| s == scenario));
    about.map(|claim| one(claim, analysis)).collect()
}

fn one(claim: &Claim, analysis: &Analysis) -> Judged {
    let receiver = analysis.nodes.iter().find(|row| row.role == Role::Receiver);
    let (held, because) = match (analysis.status, receiver) {
        (Status::Invalid, _) => (Held::CannotBeTold, "no repetition is valid".to_owned()),
        (_, None) => (Held::CannotBeTold, "these results hold no receiver".to_owned()),
        (_, Some(receiver)) => match claim.id.as_str() {
            "linear" => linear(receiver),
            "strong" => strong(receiver),
            "collapse" => collapse(receiver),
            "flat-memory" => flat_memory(&analysis.nodes),
            "cpu-bound" => cpu_bound(receiver),
            other => (Held::CannotBeTold, format!("nobody knows how to judge `{other}`")),
        },
    };
    let Claim { id, text, source, .. } = claim.clone();
    Judged { id, text, source, held, because }
}

/// Without ramps, since a few idle seconds turn any cloud into a line.
fn linear(receiver: &NodeRow) -> (Held, String) {
    let steady = match &receiver.steady {
        Related::Known(steady) => steady,
        Related::Unknown { why, .. } => return (Held::CannotBeTold, format!("without ramps {why}")),
    };
    let explained: Vec<f64> = steady.lines.iter().map(|line| line.r_squared).collect();
    let explained = explained.iter().sum::<f64>() / explained.len() as f64;
    let (held, mut because) = related(steady, "without ramps");
    because += &format!("; a line explains {:.0} % of the CPU load's variance", explained * 100.0);
    if held == Held::DoesNot && receiver.all.known().is_some_and(|all| all.pearson.r >= STRONG) {
        because += "; with ramps r is above 0.60, so start-up and drain alone make the line";
    }
    (held, because)
}

/// With ramps, as the paper computed it.
fn strong(receiver: &NodeRow) -> (Held, String) {
    match &receiver.all {
        Related::Known(all) => related(all, "over all seconds"),
        Related::Unknown { why, .. } => (Held::CannotBeTold, why.clone()),
    }
}

fn collapse(receiver: &NodeRow) -> (Held, String) {
    let (held, because) = strong(receiver);
    let turned = match held {
        Held::Holds => Held::DoesNot,
        Held::DoesNot => Held::Holds,
        Held::CannotBeTold => Held::CannotBeTold,
    };
    (turned, because)
}

/// A weak correlation says something only where the rate varied: of a paced load it is noise against noise.
fn related(relation: &Relation, where_from: &str) -> (Held, String) {
    let (held, because) = above(&relation.pearson, where_from);
    match (relation.rate_spread, relation.rate_spread_share) {
        (Some(spread), Some(share))
            if held == Held::DoesNot && (spread <= RATE_SPREAD_MIN || share <= RATE_SPREAD_SHARE_MIN) =>
        {
            let percent = share * 100.0;
            let because =
                format!("{because}; but the rate varies by only {spread:.0}/s, {percent:.1} %, which shows nothing");
            (Held::CannotBeTold, because)
        }
        _ => (held, because),
    }
}

/// Whether the whole interval lies at or above the limit, below it, or across.
fn above(pearson: &Coefficient, where_from: &str) -> (Held, String) {
    let (low, high) = (pearson.interval.lower, pearson.interval.upper);
    let held = if low >= STRONG {
        Held::Holds
    } else if high < STRONG {
        Held::DoesNot
    } else {
        Held::CannotBeTold
    };
    let side = match held {
        Held::Holds => "all of it at or above",
        Held::DoesNot => "all of it below",
        Held::CannotBeTold => "on both sides of",
    };
    let level = pearson.interval.level * 100.0;
    (
        held,
        format!("{where_from} r = {:.3}, {level:.0} % interval {low:.3} to {high:.3}: {side} {STRONG:.2}", pearson.r),
    )
}

fn flat_memory(nodes: &[NodeRow]) -> (Held, String) {
    let known = |row: &NodeRow| Some((row.node.clone(), row.memory_spread?, row.memory_spread_of_limit));
    let known: Option<Vec<(String, f64, Option<f64>)>> = nodes.iter().map(known).collect();
    let moves = |(_, own, limit): &(String, f64, Option<f64>)| {
        *own > MEMORY_SPREAD_MAX && limit.is_none_or(|share| share > MEMORY_SPREAD_OF_LIMIT_MAX)
    };
    let worst =
        known.and_then(|known| known.into_iter().max_by(|a, b| moves(a).cmp(&moves(b)).then(a.1.total_cmp(&b.1))));
    let Some(worst) = worst else {
        return (Held::CannotBeTold, "the memory of a node is not known".to_owned());
    };
    let held = if moves(&worst) { Held::DoesNot } else { Held::Holds };
    let (node, own, limit) = worst;
    let limit = limit.map_or_else(String::new, |share| format!(", {:.2} % of its limit", share * 100.0));
    let rule = format!(
        "flat is up to {:.0} %, or {:.0} % of the limit",
        MEMORY_SPREAD_MAX * 100.0,
        MEMORY_SPREAD_OF_LIMIT_MAX * 100.0
    );
    (held, format!("without ramps it varies by {:.1} % at most{limit}, on {node}; {rule}", own * 100.0))
}

fn cpu_bound(receiver: &NodeRow) -> (Held, String) {
    let Some(load) = receiver.cpu_percent else {
        return (Held::CannotBeTold, "the receiver's CPU load is not known".to_owned());
    };
    let held = if load.min >= SATURATED_PERCENT {
        Held::Holds
    } else if load.max < SATURATED_PERCENT {
        Held::DoesNot
    } else {
        Held::CannotBeTold
    };
    let limit = format!("{SATURATED_PERCENT:.0} % is called saturated");
    (
        held,
        format!(
            "the receiver's CPU load is {:.1} % on average ({:.1} to {:.1} %); {limit}",
            load.mean, load.min, load.max
        ),
    )
}

#[cfg(test)]
mod tests {
    use rehearsal_stats::Bootstrap;

    use super::super::testing::{Recipe, Scratch, Second, wave, write};
    use super::super::{How, analyse, open};
    use super::*;

    /// The answers on one valid bundle of these seconds, in the order of the claims about its scenario.
    fn answers(experiment: &str, seconds: &[Second], fault: bool) -> Vec<(String, Held)> {
        let scratch = Scratch::new();
        let recipe = Recipe { experiment, settings: "", repetition: 0, seconds, fault };
        write(&scratch.path().join("run"), &recipe);
        let group = open::groups(&[scratch.path().to_owned()], &[]).expect("a bundle").remove(0);
        let draw = Bootstrap { replicates: 300, ..Bootstrap::default() };
        let how = How {
            ramp: None,
            draw,
            paper: Paper::shipped(),
            plots: false,
            users: crate::analysis::users::How::plain(),
        };
        let (analysis, _) = analyse(group, &how).expect("an analysis");
        analysis.claims.into_iter().map(|claim| (claim.id, claim.held)).collect()
    }

    fn with(answers: [(&str, Held); 4]) -> Vec<(String, Held)> {
        answers.into_iter().map(|(id, held)| (id.to_owned(), held)).collect()
    }

    use Held::{CannotBeTold as Unknown, DoesNot as No, Holds as Yes};

    #[test]
    fn a_saturated_line_is_what_the_paper_says() {
        let busy: Vec<Second> = wave(0.8).into_iter().map(|(n, cpu, m)| (n, cpu.map(|c| 80.0 + c / 8.0), m)).collect();
        let wanted = with([("linear", Yes), ("strong", Yes), ("flat-memory", Yes), ("cpu-bound", Yes)]);
        assert_eq!(answers("pl5g-a1", &busy, false), wanted);
        assert_eq!(answers("uav-control", &busy, false), wanted, "a demonstration shows the scenario too");
    }

    #[test]
    fn a_line_of_ramps_alone_is_none() {
        // constant work with noise, idle for three seconds at each end
        let noise = |i: u64| (200 + i * 37 % 11, Some(50.0 + (i * 53 % 13) as f64), 64);
        let mut seconds: Vec<Second> = (0..60).map(noise).collect();
        for idle in [0, 1, 2, 57, 58, 59] {
            seconds[idle] = (0, Some(1.0), 64);
        }
        // over all seconds r is nearly 1, but it hangs on six of them: samples drawn without these tell another story
        let wanted = with([("linear", No), ("strong", Unknown), ("flat-memory", Yes), ("cpu-bound", No)]);
        assert_eq!(answers("pl5g-c2", &seconds, false), wanted);
    }

    #[test]
    fn scenario_b_is_asked_for_the_collapse() {
        let unrelated: Vec<Second> =
            (0..120).map(|i| (500 + i * 37 % 97, Some(95.0 + (i * 53 % 89) as f64 / 50.0), 64 + i)).collect();
        let wanted = vec![("collapse".to_owned(), Yes), ("flat-memory".to_owned(), No), ("cpu-bound".to_owned(), Yes)];
        assert_eq!(answers("pl5g-b1", &unrelated, false), wanted);
        assert_eq!(answers("pl5g-b2", &wave(0.5), false)[0], ("collapse".to_owned(), No));
    }

    #[test]
    fn a_rate_that_hardly_varies_denies_nothing() {
        let paced = |rate: u64, by: u64| -> Vec<Second> {
            (0..120).map(|i| (rate + i * 37 % 97 % by, Some(3.0 + (i * 53 % 89) as f64 / 50.0), 64)).collect()
        };
        let unknown = with([("linear", Unknown), ("strong", Unknown), ("flat-memory", Yes), ("cpu-bound", No)]);
        assert_eq!(answers("uav-control", &paced(119, 3), false), unknown);
        assert_eq!(answers("athlete-monitoring", &paced(548, 5), false)[0], ("collapse".to_owned(), Unknown));
        let varied = with([("linear", No), ("strong", No), ("flat-memory", Yes), ("cpu-bound", No)]);
        assert_eq!(answers("uav-control", &paced(119, 30), false), varied);
        assert_eq!(answers("athlete-monitoring", &paced(548, 50), false)[0], ("collapse".to_owned(), Yes));
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        let blind: Vec<Second> = wave(0.5).into_iter().map(|(n, _, m)| (n, None, m)).collect();
        let wanted = with([("linear", Unknown), ("strong", Unknown), ("flat-memory", Yes), ("cpu-bound", Unknown)]);
        assert_eq!(answers("pl5g-a1", &blind, false), wanted);
        let short = &wave(0.5)[..15];
        assert_eq!(answers("pl5g-a1", short, false)[0].1, Unknown, "five seconds without ramps");
        assert!(answers("pl5g-a1", &wave(0.5), true).iter().all(|(_, held)| *held == Unknown), "INVALID");
        assert!(answers("my-own", &wave(0.5), false).is_empty(), "no scenario of the paper");
    }
}
