//! The figures that the PL-5G article publishes, from `configs/pl5g/paper.toml`: what results are held against.

use serde::{Deserialize, Serialize};

const SHIPPED: &str = include_str!("../../../configs/pl5g/paper.toml");

/// All of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// About the article.
    pub paper: About,
    /// What it claims.
    pub claims: Vec<Claim>,
    /// Experiments of ours that show one of its scenarios.
    pub demonstrations: Vec<Demonstration>,
    /// Its nine experiments.
    pub experiments: Vec<Published>,
}

/// About the article.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its title.
    pub title: String,
    /// How often each experiment was repeated.
    pub repetitions: usize,
    /// Level of Table 2's intervals.
    pub level: f64,
    /// The Pearson coefficient from which on it calls a correlation strong.
    pub strong_r: f64,
}

/// One of its claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// How the program calls it.
    pub id: String,
    /// What it says, in our words.
    pub text: String,
    /// The scenarios it is about.
    pub scenarios: Vec<String>,
    /// Where it stands.
    pub source: String,
}

/// An experiment of ours that shows a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demonstration {
    /// The experiment's name.
    pub experiment: String,
    /// The scenario's letter.
    pub scenario: String,
}

/// One experiment and its rows of the tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its name here.
    pub experiment: String,
    /// The scenario's letter.
    pub scenario: String,
    /// Which of the scenario's three.
    pub number: u8,
    /// Where the allocation stands.
    pub allocation_source: String,
    /// Table 1.
    pub allocation: Vec<Allocated>,
    /// Table 2: requests per second of the receiver.
    pub rate: Rate,
    /// What a run transfers, as the text says of the whole scenario.
    pub volume: Option<Volume>,
    /// Table 3: CPU load of the receiver against its rate.
    pub correlation: Coefficients,
    /// The regression that the text gives for two of them.
    pub regression: Option<Regression>,
}

/// Resources of some components.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocated {
    /// Which.
    pub component: String,
    /// How many.
    pub count: u32,
    /// Virtual cores of each.
    pub vcpu: u32,
    /// Memory of each, MB as the paper writes it.
    pub memory_mb: u32,
}

/// A row of Table 2, requests per second.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Mean over repetitions.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Half the width of the interval.
    pub half_width: f64,
    /// Table and row.
    pub source: String,
}

/// Data that a run transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// About so many bytes, prefixes taken as decimal.
    pub bytes: f64,
    /// Where it stands.
    pub source: String,
}

/// A row of Table 3.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// Pearson's r.
    pub pearson: f64,
    /// Spearman's ρ.
    pub spearman: f64,
    /// Sample size: seconds.
    pub n: usize,
    /// The p-value is below this.
    pub p_max: f64,
    /// Table and row.
    pub source: String,
}

/// A simple regression of CPU on rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    /// The share of the CPU load's variance that it explains.
    pub r_squared: f64,
    /// Where it stands.
    pub source: String,
}

impl Paper {
    /// The figures that the program is built with.
    pub fn shipped() -> Self {
        toml::from_str(SHIPPED).expect("the shipped figures are read by a test")
    }

    /// The published rows of one of the nine experiments.
    pub fn experiment(&self, name: &str) -> Option<&Published> {
        self.experiments.iter().find(|e| e.experiment == name)
    }

    /// The scenario that an experiment shows.
    pub fn scenario(&self, name: &str) -> Option<&str> {
        let shown = || self.demonstrations.iter().find(|d| d.experiment == name).map(|d| d.scenario.as_str());
        self.experiment(name).map(|e| e.scenario.as_str()).or_else(shown)
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_stats::half_width;

    use super::*;

    #[test]
    fn all_nine_intervals_of_table_2_follow_from_its_own_deviations() {
        let paper = Paper::shipped();
        assert_eq!(paper.experiments.len(), 9);
        for e in &paper.experiments {
            let half = |level| half_width(e.rate.sd, paper.paper.repetitions, level).expect("ten repetitions");
            assert_eq!(
                format!("{:.2}", half(paper.paper.level)),
                format!("{:.2}", e.rate.half_width),
                "{}",
                e.experiment
            );
        }
        // the normal quantile, 1.960 for 2.262, fits only the row that is too small to tell
        let normal =
            |e: &&Published| format!("{:.2}", 1.960 * e.rate.sd / 10_f64.sqrt()) == format!("{:.2}", e.rate.half_width);
        let fitting: Vec<&str> = paper.experiments.iter().filter(normal).map(|e| e.experiment.as_str()).collect();
        assert_eq!(fitting, ["pl5g-c3"]);
    }

    #[test]
    fn figures_name_their_table_and_row() {
        let paper = Paper::shipped();
        for e in &paper.experiments {
            let row = format!("scenario {}, experiment {}", e.scenario, e.number);
            assert_eq!(e.experiment, format!("pl5g-{}{}", e.scenario.to_lowercase(), e.number));
            assert_eq!(e.allocation_source, format!("Table 1, {row}"));
            assert_eq!(e.rate.source, format!("Table 2, {row}"));
            assert_eq!(e.correlation.source, format!("Table 3, {row}"));
            assert_eq!(e.allocation.iter().map(|a| a.count).sum::<u32>(), 5, "four senders and a receiver");
        }
        assert_eq!(paper.claims.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), super::super::claims::IDS);
    }

    #[test]
    fn published_r_squared_is_the_square_of_published_r_within_a_digit() {
        let paper = Paper::shipped();
        let both =
            paper.experiments.iter().filter_map(|e| Some((e.correlation.pearson, e.regression.as_ref()?.r_squared)));
        let off: Vec<f64> = both.map(|(r, r_squared)| (r * r - r_squared).abs()).collect();
        assert!(off.len() == 2 && off.iter().all(|off| *off < 0.002), "{off:?}");
    }

    #[test]
    fn demonstrations_show_a_scenario_without_rows() {
        let paper = Paper::shipped();
        assert_eq!((paper.scenario("pl5g-b2"), paper.scenario("uav-control")), (Some("B"), Some("A")));
        assert!(paper.experiment("uav-control").is_none() && paper.scenario("my-own").is_none());
    }
}
