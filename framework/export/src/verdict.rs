//! `verdict.json`: may these numbers be trusted? VALID, DEGRADED or INVALID, with a reason for each doubt.

use serde::{Deserialize, Serialize};

use crate::threshold::{Judgement, ThresholdResult};

mod evidence;
mod limits;
mod load;
mod lost;
mod machine;
mod rules;
mod sample;
mod told;

pub use evidence::{Evidence, GroupEvidence, LossEvidence, NodeEvidence};
pub use limits::{Bounds, Change, Limits, Rule, Worse};
pub use machine::{BufferDrops, Contention};
pub use rules::judge;
pub use sample::Opening;
pub use told::Told;

/// May these numbers be trusted?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The answer: the worst of the reasons.
    pub status: Status,
    /// Why, the gravest first.
    pub reasons: Vec<Reason>,
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// They may.
    #[default]
    Valid,
    /// With care: the reasons say which.
    Degraded,
    /// They may not.
    Invalid,
}

impl Status {
    /// As it is printed.
    pub const fn word(self) -> &'static str {
        match self {
            Status::Valid => "VALID",
            Status::Degraded => "DEGRADED",
            Status::Invalid => "INVALID",
        }
    }
}

/// How grave a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; does not lower the verdict.
    Note,
    /// Lowers it to DEGRADED.
    Degraded,
    /// Lowers it to INVALID.
    Invalid,
}

/// One doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// Which rule.
    pub code: Code,
    /// How grave.
    pub severity: Severity,
    /// The node instance it concerns, or none.
    pub node: Option<String>,
    /// The actor it concerns, or none.
    pub actor: Option<String>,
    /// What was measured, in `unit`.
    pub value: Option<f64>,
    /// What it is held against, in `unit`.
    pub limit: Option<f64>,
    /// The unit of both.
    pub unit: Option<String>,
    /// The doubt, for a reader. More than twenty of one code and severity are folded: the last one has no node and tells
    /// in `value`, unit `reasons`, how many more there are.
    pub text: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// The rules that can give a reason, in the order in which equally grave ones are told: causes before their effects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// Its word in files.
            pub const fn word(self) -> &'static str {
                match self { $(Code::$name => $word),* }
            }
        }
    };
}

codes! {
    /// A host has more enforced vCPU than cores.
    HostOvercommitted = "host_overcommitted";
    /// Others than the run used a host's CPU.
    Contended = "contended";
    /// A node with senders was held back by its CPU quota.
    Throttled = "throttled";
    /// A process had no file descriptor left, or hardly any.
    DescriptorsExhausted = "descriptors_exhausted";
    /// A host had no ephemeral port left, or hardly any.
    PortsExhausted = "ports_exhausted";
    /// The kernel dropped traffic because a buffer of a socket was full.
    BuffersExhausted = "buffers_exhausted";
    /// Requests left later than intended by the generator's own fault.
    GeneratorLate = "generator_late";
    /// The target was missed because the generator was late.
    GeneratorSaturated = "generator_saturated";
    /// The target was missed because the receiver did not keep up: `in_flight` was full.
    TargetSaturated = "target_saturated";
    /// The target was missed, and neither lag nor blocked time says why.
    RateMissed = "rate_missed";
    /// Slots of the schedule were given up.
    Skipped = "skipped";
    /// The hypervisor took time from a host.
    Stolen = "stolen";
    /// Traffic went on for longer than planned.
    Stretched = "stretched";
    /// A node fell silent.
    NodeLost = "node_lost";
    /// An actor panicked, or something else broke.
    Fault = "fault";
    /// Counters contradict each other.
    CountersBroken = "counters_broken";
    /// Senders sent nothing at all, or there were none and nothing came in.
    NoTraffic = "no_traffic";
    /// Exchanges were settled, and not one with success.
    NoSuccess = "no_success";
    /// Somebody stopped the run before its end.
    Interrupted = "interrupted";
    /// A threshold that may end the run did not hold.
    ThresholdAborted = "threshold_aborted";
    /// Loggers had to drop reports.
    TelemetryDropped = "telemetry_dropped";
    /// Seconds of a node have no report.
    SnapshotsMissing = "snapshots_missing";
    /// The offsets of the hosts' clocks are unknown.
    ClockUnknown = "clock_unknown";
    /// The wall clock of a host was set while the run went on.
    ClockStepped = "clock_stepped";
    /// A simulation did what no calibration covers.
    OutsideCalibration = "outside_calibration";
    /// A simulation's costs were not measured.
    Uncalibrated = "uncalibrated";
    /// vCPU and memory limits were not enforced.
    LimitsUnenforced = "limits_unenforced";
    /// Too few values for a percentile.
    FewSamples = "few_samples";
    /// Too short a time was measured.
    ShortRun = "short_run";
    /// The first seconds alone raise the response times that are reported.
    WarmupIncluded = "warmup_included";
    /// The rate was changed on the way, so the target is not judged.
    RateChanged = "rate_changed";
    /// A node without senders was held back by its CPU quota: a result, not a doubt.
    ReceiverThrottled = "receiver_throttled";
    /// The experiment set limits of this verdict below the usual ones.
    LimitsLoosened = "limits_loosened";
    /// Whatever else a reader should know.
    Remark = "remark";
}

/// Exit code of a run that passed.
pub const EXIT_PASS: u8 = 0;
/// Exit code when thresholds failed.
pub const EXIT_THRESHOLDS: u8 = 10;
/// Exit code when the numbers may not be trusted; outranks [`EXIT_THRESHOLDS`].
pub const EXIT_INVALID: u8 = 20;

/// The exit code of a run. DEGRADED passes unless `strict`; a threshold that could not be judged counts as failed.
pub fn exit_code(verdict: &Verdict, thresholds: &[ThresholdResult], strict: bool) -> u8 {
    match verdict.status {
        Status::Invalid => EXIT_INVALID,
        Status::Degraded if strict => EXIT_INVALID,
        _ if thresholds.iter().any(|t| t.result != Judgement::Pass) => EXIT_THRESHOLDS,
        _ => EXIT_PASS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::{Op, Threshold};

    #[test]
    fn invalid_outranks_thresholds_and_strict_raises_degraded() {
        let result = |result| {
            let threshold = Threshold {
                text: String::new(),
                scope: None,
                metric: String::new(),
                stat: String::new(),
                op: Op::Less,
                value: 0.0,
                abort_after_ns: None,
            };
            vec![ThresholdResult {
                threshold,
                measured: None,
                stand_in: None,
                unit: String::new(),
                result,
                aborted: None,
            }]
        };
        let table = [
            (Status::Valid, Judgement::Pass, false, 0),
            (Status::Valid, Judgement::Fail, false, 10),
            (Status::Valid, Judgement::Unknown, false, 10),
            (Status::Valid, Judgement::Pass, true, 0),
            (Status::Degraded, Judgement::Pass, false, 0),
            (Status::Degraded, Judgement::Fail, false, 10),
            (Status::Degraded, Judgement::Pass, true, 20),
            (Status::Degraded, Judgement::Fail, true, 20),
            (Status::Invalid, Judgement::Pass, false, 20),
            (Status::Invalid, Judgement::Fail, false, 20),
        ];
        for (status, judgement, strict, code) in table {
            let verdict = Verdict { status, reasons: Vec::new() };
            assert_eq!(exit_code(&verdict, &result(judgement), strict), code, "{status:?} {judgement:?} {strict}");
        }
    }

    #[test]
    fn codes_have_one_spelling() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.word()));
        }
    }
}
