//! What a verdict is measured by. An experiment may set other limits, and the bundle tells which.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Severity;

/// The bounds of one quantity: beyond each of them a run has a doubt of that severity. `None`: it never has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Beyond it a reader is told.
    pub note: Option<f64>,
    /// Beyond it the run is DEGRADED.
    pub degraded: Option<f64>,
    /// Beyond it the run is INVALID.
    pub invalid: Option<f64>,
}

impl Bounds {
    const fn of(note: Option<f64>, degraded: Option<f64>, invalid: Option<f64>) -> Self {
        Bounds { note, degraded, invalid }
    }

    /// The bound of one severity.
    pub const fn at(&self, severity: Severity) -> Option<f64> {
        match severity {
            Severity::Note => self.note,
            Severity::Degraded => self.degraded,
            Severity::Invalid => self.invalid,
        }
    }

    /// Sets the bound of one severity.
    pub const fn set(&mut self, severity: Severity, bound: Option<f64>) {
        match severity {
            Severity::Note => self.note = bound,
            Severity::Degraded => self.degraded = bound,
            Severity::Invalid => self.invalid = bound,
        }
    }

    /// The bound at which a run is no longer VALID, the nearest of both; none is infinity.
    pub(crate) fn doubtful(&self) -> f64 {
        let [degraded, invalid] = [self.degraded, self.invalid].map(|bound| bound.unwrap_or(f64::INFINITY));
        degraded.min(invalid)
    }
}

/// Which way a quantity gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// More is worse.
    Above,
    /// Less is worse.
    Below,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $worse:ident, $unit:literal, $bounds:expr;)*) => {
        /// A limit that can be set, under the word that its reasons have: what it bounds, and in which unit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Rule {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// Its word in the experiment file.
            pub const fn word(self) -> &'static str {
                match self { $(Rule::$name => $word),* }
            }

            /// Which way it gets worse.
            pub const fn worse(self) -> Worse {
                match self { $(Rule::$name => Worse::$worse),* }
            }

            /// The unit of its bounds: `%`, `ns` or `values`.
            pub const fn unit(self) -> &'static str {
                match self { $(Rule::$name => $unit),* }
            }

            /// What holds where an experiment sets nothing.
            pub const fn usual(self) -> Bounds {
                match self { $(Rule::$name => $bounds),* }
            }
        }
    };
}

// Assumed, all of them: common practice of load generators, chosen so that a run whose lag could change a reported
// percentile by a tenth of the gap is told. Where a limit has a reason of its own, it stands beside it.
rules! {
    /// Lag p99, in per cent of the gap between two sends of a stream.
    GeneratorLate = "generator_late", Above, "%", Bounds::of(None, Some(10.0), Some(50.0));
    /// Lag p99 below this is never held against a run, ns; the only bound of a closed loop, which has no gap.
    GeneratorLateMin = "generator_late_min", Above, "ns", Bounds::of(None, Some(1e6), Some(5e6));
    /// Exchanges that left, in per cent of those that should have.
    RateMissed = "rate_missed", Below, "%", Bounds::of(None, Some(99.0), Some(95.0));
    /// Slots that were given up, in per cent of all slots.
    Skipped = "skipped", Above, "%", Bounds::of(None, None, Some(1.0));
    /// Share of the time that its CPU quota held back a node with senders, per cent.
    Throttled = "throttled", Above, "%", Bounds::of(None, Some(1.0), Some(5.0));
    /// Share of the time that the hypervisor took, per cent.
    Stolen = "stolen", Above, "%", Bounds::of(None, Some(1.0), Some(5.0));
    /// Share of a host's CPU that others than the run used, per cent. A quarter of two cores still leaves a core and a
    /// half; above it, nodes wait for each other's neighbours.
    Contended = "contended", Above, "%", Bounds::of(Some(10.0), Some(25.0), None);
    /// Traffic longer than planned, in per cent of the plan.
    Stretched = "stretched", Above, "%", Bounds::of(None, None, Some(5.0));
    /// Uncertainty of the hosts' clock offsets above which times between hosts are in doubt, ns.
    ClockUnknown = "clock_unknown", Above, "ns", Bounds::of(None, Some(1e6), None);
    /// By how much the wall clock of a host was set at once, ns. No time of a run is read from it, so this casts doubt on
    /// nothing but what is joined with it; a step below 5 ms is not told from steering.
    ClockStepped = "clock_stepped", Above, "ns", Bounds::of(Some(20e6), None, None);
    /// Values that a 99th percentile needs: ten beyond it.
    FewSamples = "few_samples", Below, "values", Bounds::of(Some(1000.0), None, None);
    /// The measured time, ns. In less than ten seconds, each second decides a tenth.
    ShortRun = "short_run", Below, "ns", Bounds::of(Some(10e9), None, None);
    /// By how much the first three measured seconds alone raise a reported percentile of the response time, per cent.
    WarmupIncluded = "warmup_included", Above, "%", Bounds::of(Some(10.0), Some(25.0), None);
    /// What the kernel dropped because a buffer of a socket was full, in per cent of what came in or left.
    BuffersExhausted = "buffers_exhausted", Above, "%", Bounds::of(Some(0.0), Some(0.1), None);
    /// File descriptors in use, in per cent of those that a process may have.
    DescriptorsExhausted = "descriptors_exhausted", Above, "%", Bounds::of(None, Some(95.0), None);
    /// Ephemeral ports in use, in per cent of the range.
    PortsExhausted = "ports_exhausted", Above, "%", Bounds::of(None, Some(95.0), None);
}

impl Rule {
    /// How grave a value is within `bounds`, and the bound that it broke.
    pub(crate) fn judge(self, value: f64, bounds: Bounds) -> Option<(Severity, f64)> {
        let broken = |bound: f64| match self.worse() {
            Worse::Above => value > bound,
            Worse::Below => value < bound,
        };
        let gravest = [Severity::Invalid, Severity::Degraded, Severity::Note].into_iter();
        gravest.filter_map(|severity| Some((severity, bounds.at(severity)?))).find(|(_, bound)| broken(*bound))
    }

    /// A bound in words, `1 ms`, `99 %`.
    pub fn tell(self, bound: f64) -> String {
        match self.unit() {
            "ns" => crate::text::duration(bound),
            unit => format!("{bound} {unit}"),
        }
    }
}

/// What a verdict is measured by: the usual limits, but for those that an experiment sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(BTreeMap<Rule, Bounds>);

/// A bound that is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Which limit.
    pub rule: Rule,
    /// What follows beyond it.
    pub severity: Severity,
    /// The usual bound.
    pub usual: Option<f64>,
    /// The bound of this run.
    pub set: Option<f64>,
}

impl Limits {
    /// The bounds of a rule.
    pub fn of(&self, rule: Rule) -> Bounds {
        self.0.get(&rule).copied().unwrap_or_else(|| rule.usual())
    }

    /// Sets the bound at which `rule` has this severity; `None`: it never has.
    pub fn set(&mut self, rule: Rule, severity: Severity, bound: Option<f64>) {
        let mut bounds = self.of(rule);
        bounds.set(severity, bound);
        self.0.insert(rule, bounds);
    }

    /// Every limit with its bounds, by its word.
    pub fn all(&self) -> BTreeMap<Rule, Bounds> {
        Rule::ALL.iter().map(|rule| (*rule, self.of(*rule))).collect()
    }

    /// Bounds that are not the usual ones.
    pub fn changes(&self) -> Vec<Change> {
        let of = |(rule, bounds): (&Rule, &Bounds)| {
            let (rule, bounds) = (*rule, *bounds);
            let change =
                move |severity| Change { rule, severity, usual: rule.usual().at(severity), set: bounds.at(severity) };
            [Severity::Note, Severity::Degraded, Severity::Invalid].map(change)
        };
        self.0.iter().flat_map(of).filter(|change| change.usual != change.set).collect()
    }

    /// How grave a value is, and the bound that it broke.
    pub(crate) fn judge(&self, rule: Rule, value: f64) -> Option<(Severity, f64)> {
        rule.judge(value, self.of(rule))
    }

    /// Bounds on lag p99 for streams with this gap, ns.
    pub fn lag_ns(&self, gap_ns: Option<u64>) -> Bounds {
        let gap = gap_ns.unwrap_or(0) as f64;
        let (share, least) = (self.of(Rule::GeneratorLate), self.of(Rule::GeneratorLateMin));
        let bound = |severity| match (share.at(severity), least.at(severity)) {
            (Some(percent), Some(min)) => Some((gap * percent / 100.0).max(min)),
            _ => None,
        };
        Bounds::of(bound(Severity::Note), bound(Severity::Degraded), bound(Severity::Invalid))
    }
}

impl Change {
    /// Whether less is held against a run than usual.
    pub fn is_loosened(&self) -> bool {
        match (self.usual, self.set) {
            (Some(_), None) => true,
            (Some(usual), Some(set)) if self.rule.worse() == Worse::Above => set > usual,
            (Some(usual), Some(set)) => set < usual,
            (None, _) => false,
        }
    }

    /// As it is printed: `throttled: INVALID above 20 %, usually above 5 %`.
    pub fn text(&self) -> String {
        let side = if self.rule.worse() == Worse::Above { "above" } else { "below" };
        let bound = |bound: Option<f64>| bound.map_or("never".to_owned(), |b| format!("{side} {}", self.rule.tell(b)));
        let word = match self.severity {
            Severity::Note => "a note",
            Severity::Degraded => "DEGRADED",
            Severity::Invalid => "INVALID",
        };
        format!("{}: {word} {}, usually {}", self.rule.word(), bound(self.set), bound(self.usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_on_lag_follows_the_gap_but_not_below_the_floor() {
        let limits = Limits::default();
        let of = |gap| (limits.lag_ns(gap).degraded, limits.lag_ns(gap).invalid);
        assert_eq!(of(Some(40_000_000)), (Some(4e6), Some(20e6)));
        assert_eq!(of(Some(1_000_000)), (Some(1e6), Some(5e6)));
        assert_eq!(of(None), (Some(1e6), Some(5e6)));
    }

    #[test]
    fn what_is_loosened_is_told_from_what_is_tightened() {
        let mut limits = Limits::default();
        assert_eq!(limits.changes(), []);
        limits.set(Rule::Throttled, Severity::Invalid, Some(20.0));
        limits.set(Rule::RateMissed, Severity::Degraded, Some(99.9));
        limits.set(Rule::RateMissed, Severity::Invalid, Some(90.0));
        limits.set(Rule::Skipped, Severity::Invalid, None);
        limits.set(Rule::ShortRun, Severity::Degraded, Some(60e9));
        let told: Vec<(String, bool)> = limits.changes().iter().map(|c| (c.text(), c.is_loosened())).collect();
        let expected = [
            ("rate_missed: DEGRADED below 99.9 %, usually below 99 %", false),
            ("rate_missed: INVALID below 90 %, usually below 95 %", true),
            ("skipped: INVALID never, usually above 1 %", true),
            ("throttled: INVALID above 20 %, usually above 5 %", true),
            ("short_run: DEGRADED below 60 s, usually never", false),
        ];
        let expected: Vec<(String, bool)> = expected.iter().map(|(text, loose)| ((*text).to_owned(), *loose)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn the_gravest_bound_that_is_broken_counts() {
        let limits = Limits::default();
        assert_eq!(limits.judge(Rule::Throttled, 5.1), Some((Severity::Invalid, 5.0)));
        assert_eq!(limits.judge(Rule::Throttled, 5.0), Some((Severity::Degraded, 1.0)));
        assert_eq!(limits.judge(Rule::Throttled, 1.0), None);
        assert_eq!(limits.judge(Rule::RateMissed, 94.9), Some((Severity::Invalid, 95.0)));
        assert_eq!(limits.judge(Rule::RateMissed, 99.0), None);
    }

    #[test]
    fn limits_are_kept_as_json_with_what_is_set_alone() {
        let mut limits = Limits::default();
        limits.set(Rule::Stolen, Severity::Invalid, None);
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"stolen":{"note":null,"degraded":1.0,"invalid":null}}"#);
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
    }
}
