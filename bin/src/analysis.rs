//! `rehearsal report` and `rehearsal runs`: what finished results say over repetitions, verdict first.
//!
//! ```text
//!   paths ──open──> groups of repetitions ──nodes──> seconds ──tables──> figures, correlations
//!                                                                 │  paper.toml ──claims──> holds, does not, cannot tell
//!                                                                 └──> text | json | csv | html
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use rehearsal_core::Span;
use rehearsal_export::verdict::EXIT_THRESHOLDS;
use rehearsal_export::{Bundle, ExportError, Severity, Status, Summary};
use rehearsal_stats::Bootstrap;
use rehearsal_stats::standards::names::Name;
use serde::Serialize;

use crate::baseline::{Baseline, Comparison, Subject};
use crate::cli::{Report, ReportFormat};
use crate::exit::UsageError;
use crate::junit;
use crate::report::{chain, print};
use crate::tags;

pub mod availability;
pub mod claims;
pub mod list;
pub mod machines;
pub mod network;
pub mod nodes;
pub mod number;
pub mod open;
pub mod page;
pub mod paper;
pub mod plots;
pub mod pooled;
mod rows;
pub mod tables;
#[cfg(test)]
mod testing;
mod text;
pub mod users;

use availability::Availability;
use claims::Judged;
use machines::{Cost, MachineRow};
use network::{Datagrams, OnTheWire};
use nodes::NodeSeries;
use open::Group;
use paper::{Coefficients, Paper, Rate};
use plots::Plots;
use pooled::Pooled;
pub use rows::quoted;
use tables::{Figure, NodeRow};
pub use text::severity as severity_word;
use users::Users;

/// Nodes whose seconds are told one by one; of more only the first, receivers before senders.
const NODES_MAX: usize = 16;

/// What one experiment on one engine came to.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// The worst verdict of the repetitions that statistics are made of.
    pub status: Status,
    /// The experiment's name.
    pub experiment: String,
    /// `simulated` or `emulated`.
    pub engine: &'static str,
    /// The folders of the repetitions that statistics are made of.
    pub bundles: Vec<String>,
    /// Repetitions that are INVALID and left out.
    pub left_out: usize,
    /// Doubts, by code: in how many repetitions, and one of the texts.
    pub doubts: Vec<Doubt>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Tags that all of the repetitions have.
    pub tags: BTreeMap<String, String>,
    /// Table 2 and its like.
    pub figures: Vec<Figure>,
    /// Percentiles of all repetitions together.
    pub pooled: Option<Pooled>,
    /// Table 3: receivers first.
    pub nodes: Vec<NodeRow>,
    /// The paper's row of Table 2.
    pub paper_rate: Option<Rate>,
    /// The paper's row of Table 3.
    pub paper_correlation: Option<Coefficients>,
    /// From application rate to frames.
    pub wire: Vec<OnTheWire>,
    /// Transfer of datagrams as Y.1540 and Y.1541 tell it.
    pub datagrams: Option<Datagrams>,
    /// Availability as Y.1540 and TS 22.104 tell it.
    pub availability: Availability,
    /// Measurements of TS 28.552 and TS 28.554 that figures of this analysis stand beside.
    pub names: Vec<Name>,
    /// What users got.
    pub users: Users,
    /// Machines, and nodes whose quota or kernel has something to tell.
    pub machines: Vec<MachineRow>,
    /// What measuring took.
    pub measuring: Option<Cost>,
    /// What the paper claims, and whether it holds here.
    pub claims: Vec<Judged>,
    /// The run beside its baseline, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// One reason of the verdicts.
#[derive(Clone, Debug, Serialize)]
pub struct Doubt {
    /// Its code.
    pub code: &'static str,
    /// How grave.
    pub severity: Severity,
    /// Repetitions that have it.
    pub repetitions: usize,
    /// What the first of them says.
    pub text: String,
}

/// Runs `report`.
///
/// # Errors
/// When something is no result, or the output cannot be written.
pub fn report(args: &Report) -> Result<ExitCode> {
    let draw = Bootstrap { replicates: args.replicates, seed: args.seed, level: args.level, ..Bootstrap::default() };
    draw.check_parameters().map_err(|why| UsageError(why.to_string()))?;
    let ramp = args.ramp.map(|seconds| seconds as usize);
    let playout = args.playout.parse::<Span>();
    let playout = playout.map_err(|why| UsageError(format!("--playout {}: {why}", args.playout)))?;
    let users = users::How { playout_ns: playout.as_nanos(), level: args.level, seed: args.seed };
    let how = How { ramp, draw, paper: Paper::shipped(), plots: args.html.is_some(), users };
    junit::check(args.beside.junit.as_deref())?;
    let baseline = Baseline::open(&args.against)?;
    let groups = open::groups(&args.bundles, &args.tagged.tags)?;
    if let Some(baseline) = baseline.as_ref().filter(|_| groups.len() > 1) {
        let path = baseline.path().display();
        return Err(UsageError(format!(
            "--baseline: {path} can be compared with one experiment, not with {}",
            groups.len()
        ))
        .into());
    }
    let (mut analyses, mut suites) = (Vec::new(), Vec::new());
    for group in groups {
        suites.extend(group.repetitions.iter().chain(&group.left_out).map(junit::of_bundle));
        let comparison = baseline.as_ref().map(|baseline| compare(baseline, &group)).transpose()?;
        suites.extend(comparison.as_ref().map(junit::of_comparison));
        let (mut analysis, plots) = analyse(group, &how)?;
        analysis.comparison = comparison;
        analyses.push((analysis, plots));
    }
    if let Some(file) = &args.html {
        let page = page::of(&analyses);
        fs::write(file, page).map_err(|why| UsageError(format!("{} cannot be written: {why}", file.display())))?;
    }
    if let Some(file) = &args.beside.junit {
        junit::write(file, &suites)?;
    }
    let analyses: Vec<Analysis> = analyses.into_iter().map(|(analysis, _)| analysis).collect();
    match (args.format, &args.html) {
        (Some(ReportFormat::Text), _) | (None, None) => print(&text::of(&analyses))?,
        (Some(ReportFormat::Json), _) => print(&serde_json::to_string_pretty(&analyses)?)?,
        (Some(ReportFormat::Csv), _) => print(&rows::of(&analyses))?,
        (None, Some(_)) => {}
    }
    let regression = analyses.iter().filter_map(|analysis| analysis.comparison.as_ref()).any(|c| c.regression);
    Ok(if regression { ExitCode::from(EXIT_THRESHOLDS) } else { ExitCode::SUCCESS })
}

/// The repetitions of a group beside a baseline.
fn compare(baseline: &Baseline, group: &Group) -> Result<Comparison> {
    let first = group.repetitions.first().map(|bundle| bundle.path.join("experiment.toml")).unwrap_or_default();
    let resolved =
        fs::read_to_string(&first).map_err(|why| UsageError(format!("{} cannot be read: {why}", first.display())))?;
    let subject = Subject { experiment: &group.experiment, engine: group.engine, resolved: &resolved };
    let notes = baseline.check(&subject)?;
    let now: Vec<&Summary> = group.repetitions.iter().map(|bundle| &bundle.summary).collect();
    Ok(baseline.compare(&group.experiment, &now, notes))
}

/// How to analyse.
pub struct How {
    /// Seconds left out at each end; `None` for what the experiment leaves out.
    pub ramp: Option<usize>,
    /// How intervals of correlations are drawn.
    pub draw: Bootstrap,
    /// What results are held against.
    pub paper: Paper,
    /// Whether the points of plots are wanted: reading all histograms takes seconds for an hour of traffic.
    pub plots: bool,
    /// How what users got is told.
    pub users: users::How,
}

/// All that is told of one group, and the points of its plots, none if they are not wanted.
///
/// # Errors
/// When a series cannot be read, or a parameter is out of range.
pub fn analyse(group: Group, how: &How) -> Result<(Analysis, Plots)> {
    let How { ramp, draw, paper, plots, users } = how;
    let series: Result<Vec<Vec<NodeSeries>>, ExportError> = group.repetitions.iter().map(nodes::of).collect();
    let series = series.map_err(|why| UsageError(chain(&why)))?;
    let ranges: Vec<(usize, usize)> = group.repetitions.iter().map(|bundle| nodes::steady(bundle, *ramp)).collect();
    let plots = if *plots { plots::of(&group.repetitions, &series, &ranges) } else { Ok(Plots::default()) };
    let plots = plots.map_err(|why| UsageError(chain(&why)))?;
    let mut analysis = Analysis {
        status: group.repetitions.iter().map(|b| b.verdict.verdict.status).max().unwrap_or_default(),
        engine: open::engine_word(group.engine),
        bundles: group.repetitions.iter().map(|b| b.path.display().to_string()).collect(),
        left_out: group.left_out.len(),
        doubts: doubts(&group.repetitions),
        notes: group.notes,
        tags: tags::shared(group.repetitions.iter().map(|bundle| &bundle.manifest.tags)),
        comparison: None,
        figures: tables::figures(&group.repetitions, draw.level).map_err(|why| UsageError(why.to_string()))?,
        pooled: pooled::response(&group.repetitions).map_err(|why| UsageError(chain(&why)))?,
        nodes: Vec::new(),
        paper_rate: paper.experiment(&group.experiment).map(|e| e.rate.clone()),
        paper_correlation: paper.experiment(&group.experiment).map(|e| e.correlation.clone()),
        wire: network::on_the_wire(&group.repetitions),
        datagrams: network::datagrams(&group.repetitions).map_err(|why| UsageError(chain(&why)))?,
        availability: availability::of(&group.repetitions).map_err(|why| UsageError(chain(&why)))?,
        names: network::names(&group.repetitions),
        users: users::of(&group.repetitions, &series, &ranges, users).map_err(|why| UsageError(chain(&why)))?,
        machines: machines::of(&group.repetitions),
        measuring: machines::cost(&group.repetitions),
        claims: Vec::new(),
        experiment: group.experiment,
    };
    let known = series.first().map_or(0, Vec::len);
    if known > NODES_MAX {
        analysis.notes.push(format!("{known} nodes; the first {NODES_MAX} are told, receivers before senders"));
    }
    for at in 0..known.min(NODES_MAX) {
        let name = &series[0][at].node;
        let same =
            group.repetitions.iter().zip(&series).filter_map(|(b, s)| Some((b, s.iter().find(|n| n.node == *name)?)));
        analysis.nodes.push(tables::node_row(&same.collect(), *ramp, draw));
    }
    distrust(&mut analysis, &group.changed);
    analysis.claims = claims::judge(&analysis, paper);
    Ok((analysis, plots))
}

/// What no longer holds what the run wrote is DEGRADED at best: its own verdict may be what was changed.
fn distrust(analysis: &mut Analysis, changed: &[String]) {
    let Some(first) = changed.first() else { return };
    analysis.status = analysis.status.max(Status::Degraded);
    let doubt =
        Doubt { code: "changed", severity: Severity::Degraded, repetitions: changed.len(), text: first.clone() };
    let graver = analysis.doubts.iter().take_while(|doubt| doubt.severity > Severity::Degraded).count();
    analysis.doubts.insert(graver, doubt);
}

/// Reasons by code and severity, the gravest first.
fn doubts(bundles: &[Bundle]) -> Vec<Doubt> {
    let mut found = BTreeMap::new();
    for bundle in bundles {
        let mut own = BTreeMap::new();
        for reason in &bundle.verdict.verdict.reasons {
            own.entry((std::cmp::Reverse(reason.severity), reason.code)).or_insert_with(|| reason.text.clone());
        }
        for (key, text) in own {
            found.entry(key).or_insert((0, text)).0 += 1;
        }
    }
    let doubt = |((severity, code), (repetitions, text)): (
        (std::cmp::Reverse<Severity>, rehearsal_export::verdict::Code),
        _,
    )| Doubt { code: code.word(), severity: severity.0, repetitions, text };
    found.into_iter().map(doubt).collect()
}
