//! Steering the load of a run: a pause, another rate, an end. From the experiment file, or by somebody who watches.
//!
//! Whoever watches asks the controller's engine ([`Ask`]); the controller decides, says so ([`Answer`]), and tells all
//! senders ([`Steer`]). A steer names the time at which it takes effect, so that every stream, in either engine and in any
//! process, acts at the same point of its schedule. It is said twice: ahead, and when it is due.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};
use crate::units::Rate;

/// Steers of one run, at most.
pub const STEERS_MAX: usize = 1024;
/// From an [`Ask`] to its effect. Assumed: far more than a message takes to every node of a lab.
pub const STEER_LEAD: Span = Span::from_millis(100);

/// What is done to the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// Nothing new is due; the slots of a schedule that fall into the pause are given up, and counted as such.
    Pause,
    /// Goes on: a schedule where it would have been without the pause, a closed loop with its next request.
    Resume,
    /// So many times the rate in the experiment file, above zero. A closed loop has no rate and stays as it is.
    Factor(f64),
    /// This rate for each stream that has one.
    Rate(Rate),
    /// Ends the senders.
    Stop,
}

/// A step of the experiment file's own control.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedSteer {
    /// So long after the start of traffic.
    pub at: Span,
    /// The nodes it is for, as in [`is_for`]; `None` for all.
    pub node: Option<String>,
    /// What is done.
    pub step: Steering,
}

/// Somebody who watches, by way of the controller's engine, to the controller, on `ctl.<node>.host.ask`. From another
/// process it is a request on `ctl.<anybody>.control.ask`, which is answered with an [`Answer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Tells the answer to this question from others; the engine's own numbers.
    #[serde(default)]
    pub id: u64,
    /// The nodes it is for, as in [`is_for`]; `None` for all.
    #[serde(default)]
    pub node: Option<String>,
    /// What is to be done; `None` asks how the run stands.
    #[serde(default)]
    pub step: Option<Steering>,
}

/// The controller to whoever asked, on `ctl.<node>.<controller>.answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question.
    pub id: u64,
    /// Whether it is done.
    pub accepted: bool,
    /// What is done, or why not, for a reader.
    pub text: String,
}

/// The controller to all senders, on `ctl.<node>.<controller>.steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steer {
    /// Counts the steers of a run, from 0; one that comes again is heard once.
    pub number: u32,
    /// When it takes effect: slots that are due before stay as they are.
    pub at: Time,
    /// The nodes it is for, as in [`is_for`]; `None` for all.
    #[serde(default)]
    pub node: Option<String>,
    /// What is done.
    pub step: Steering,
}

impl Steer {
    /// Whether it is for this node instance.
    pub fn is_for(&self, node: &str) -> bool {
        self.node.as_deref().is_none_or(|name| is_for(name, node))
    }
}

/// The steers that one actor knows of, in the order of time; the first of them are done.
#[derive(Clone, Debug, Default)]
pub struct Steers {
    all: Vec<Steer>,
    done: usize,
}

impl Steers {
    /// See [`learn`].
    pub fn learn(&mut self, steer: Steer) -> bool {
        learn(&mut self.all, steer, self.done)
    }

    /// When the next one takes effect.
    pub fn next_at(&self) -> Option<Time> {
        self.all.get(self.done).map(|steer| steer.at)
    }

    /// The next one, if it has taken effect by `now`: it is done.
    pub fn take(&mut self, now: Time) -> Option<Steer> {
        let steer = self.all.get(self.done).filter(|steer| steer.at <= now)?.clone();
        self.done += 1;
        Some(steer)
    }

    /// All of them.
    pub fn all(&self) -> &[Steer] {
        &self.all
    }

    /// Those that are done.
    pub fn past(&self) -> &[Steer] {
        &self.all[..self.done]
    }
}

/// Takes a steer in among others in the order of time, unless it is known or there are [`STEERS_MAX`]; `passed` of them are history,
/// and stay before it. Whether it was taken.
pub fn learn(all: &mut Vec<Steer>, steer: Steer, passed: usize) -> bool {
    if all.len() >= STEERS_MAX || all.iter().any(|known| known.number == steer.number) {
        return false;
    }
    let place = all.partition_point(|known| (known.at, known.number) <= (steer.at, steer.number));
    all.insert(place.max(passed), steer);
    true
}

/// Whether `name` names the node instance: it is its name, or the name that all its instances share (`camera` of
/// `camera-1`).
pub fn is_for(name: &str, instance: &str) -> bool {
    let number = instance.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    instance == name || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The rate of the streams of `node`, as a multiple of `gap`'s, in the pieces of `steers` (in the order of time) that lie
/// between `from` and `to`: the mean over that time. A closed loop is steered by pauses alone.
pub fn mean_factor(steers: &[Steer], node: &str, gap: Span, from: Time, to: Time) -> f64 {
    let (mut factor, mut paused, mut at, mut sum) = (1.0, false, from, 0.0);
    let load = |factor: f64, paused: bool| if paused { 0.0 } else { factor };
    for steer in steers.iter().filter(|steer| steer.is_for(node)) {
        let next = steer.at.max(from).min(to);
        sum += load(factor, paused) * next.since(at).as_secs_f64();
        at = next;
        match steer.step {
            Steering::Pause => paused = true,
            Steering::Resume => paused = false,
            Steering::Factor(f) => factor = f,
            Steering::Rate(rate) => factor = gap.as_secs_f64() * rate.as_f64(),
            Steering::Stop => factor = 0.0,
        }
    }
    sum += load(factor, paused) * to.since(at).as_secs_f64();
    let length = to.since(from).as_secs_f64();
    if length > 0.0 { sum / length } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_instance_or_of_all() {
        for (name, instance, expected) in [
            ("camera", "camera", true),
            ("camera", "camera-2", true),
            ("camera-2", "camera-2", true),
            ("camera", "camera-front", false),
            ("camera-1", "camera-12", false),
            ("cam", "camera-1", false),
            ("camera", "camera-", false),
        ] {
            assert_eq!(is_for(name, instance), expected, "{name} for {instance}");
        }
    }

    #[test]
    fn the_mean_rate_counts_pauses_and_changes() {
        let at = |s| Time::ZERO + Span::from_secs(s);
        let steer = |number, s, step| Steer { number, at: at(s), node: None, step };
        let steers = [
            steer(0, 12, Steering::Pause),
            steer(1, 14, Steering::Resume),
            steer(2, 15, Steering::Factor(0.5)),
            steer(3, 18, Steering::Rate(Rate::per_second(20))),
        ];
        let gap = Span::from_millis(100);
        let mean = |from, to| mean_factor(&steers, "camera-1", gap, at(from), at(to));
        assert_eq!(mean(10, 12), 1.0);
        assert_eq!(mean(10, 14), 0.5, "two of four seconds");
        assert_eq!(mean(15, 18), 0.5);
        assert_eq!(mean(18, 20), 2.0);
        assert!((mean(10, 20) - (2.0 + 1.0 + 1.5 + 4.0) / 10.0).abs() < 1e-12);
        let other = [Steer { node: Some("sensor".into()), ..steers[0].clone() }];
        assert_eq!(mean_factor(&other, "camera-1", gap, at(10), at(20)), 1.0);
    }
}
