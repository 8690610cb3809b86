//! `--only` and `--without`: which node instances this process runs.

use std::collections::BTreeSet;

use crate::error::Problems;
use crate::experiment::Experiment;
use crate::load::LoadOptions;
use crate::suggest;

/// Sets which instances are local. Nodes that lead the experiment are local in every process.
pub(super) fn apply(experiment: &mut Experiment, options: &LoadOptions, problems: &mut Problems<'_>) {
    let known = names(experiment);
    for (flag, names) in [("--only", &options.only), ("--without", &options.without)] {
        for name in names.iter().filter(|name| !known.contains(*name)) {
            let help = suggest::help(name, known.iter().map(String::as_str));
            problems.flag(flag, format!("there is no node `{name}`"), help);
        }
    }
    for node in experiment.nodes.iter_mut().filter(|node| node.measured) {
        for index in 0..node.count() {
            let instance = node.instance(index);
            let named = |names: &[String]| names.iter().any(|name| *name == node.name || *name == instance);
            node.local[index as usize] = (options.only.is_empty() || named(&options.only)) && !named(&options.without);
        }
    }
    let any = experiment.nodes.iter().filter(|node| node.measured).any(|node| node.local.contains(&true));
    if !any && problems.is_empty() {
        problems.flag("--without", "nothing is left to run", Some("leave out fewer nodes".to_owned()));
    }
}

/// Names that may be chosen: nodes of the file, and their instances.
fn names(experiment: &Experiment) -> BTreeSet<String> {
    let measured = experiment.nodes.iter().filter(|node| node.measured);
    let both = measured.flat_map(|node| (0..node.count()).map(|i| node.instance(i)).chain([node.name.clone()]));
    both.collect()
}
