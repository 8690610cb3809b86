//! Puts a node's reports back into order: duplicates are told, gaps are named, late ones recognised.

use std::collections::BTreeMap;
use std::ops::Range;

/// Reports of one node that wait for an earlier one before that is given up; assumed, three times the retry a logger
/// needs after a bus has reconnected.
pub(crate) const WAITING_MAX: usize = 32;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// These seconds are missing, at least for now.
    Gap(Range<u32>),
    /// The report of the next second.
    Next(u32, T),
    /// The report of a second that was missing; a later row holds its counts.
    Late(u32, T),
}

/// The order of one node's reports.
#[derive(Debug)]
pub(crate) struct Order<T> {
    next: u32,
    waiting: BTreeMap<u32, T>,
    /// Missing seconds, as from → to.
    holes: BTreeMap<u32, u32>,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Order { next: 0, waiting: BTreeMap::new(), holes: BTreeMap::new() }
    }
}

impl<T> Order<T> {
    /// Takes a report; `None` if it is a duplicate.
    pub fn take(&mut self, second: u32, report: T) -> Option<Vec<Step<T>>> {
        if second < self.next {
            return self.fill(second).then(|| vec![Step::Late(second, report)]);
        }
        if self.waiting.contains_key(&second) {
            return None;
        }
        self.waiting.insert(second, report);
        let mut steps = Vec::new();
        self.run(&mut steps);
        if self.waiting.len() > WAITING_MAX {
            self.skip(&mut steps);
        }
        Some(steps)
    }

    /// Gives up waiting: everything that is left, in order.
    pub fn drain(&mut self) -> Vec<Step<T>> {
        let mut steps = Vec::new();
        while !self.waiting.is_empty() {
            self.skip(&mut steps);
        }
        steps
    }

    /// Seconds that are missing between those that came.
    pub fn missing(&self) -> u64 {
        self.holes.iter().map(|(from, to)| u64::from(to - from)).sum()
    }

    /// The second after the last that was taken in order.
    pub fn next(&self) -> u32 {
        self.next
    }

    fn run(&mut self, steps: &mut Vec<Step<T>>) {
        while let Some(report) = self.waiting.remove(&self.next) {
            steps.push(Step::Next(self.next, report));
            self.next += 1;
        }
    }

    fn skip(&mut self, steps: &mut Vec<Step<T>>) {
        if let Some((&first, _)) = self.waiting.first_key_value() {
            if first > self.next {
                self.holes.insert(self.next, first);
                steps.push(Step::Gap(self.next..first));
                self.next = first;
            }
            self.run(steps);
        }
    }

    /// Removes `second` from the holes; false if it is in none.
    fn fill(&mut self, second: u32) -> bool {
        let Some((&from, &to)) = self.holes.range(..=second).next_back() else { return false };
        if second >= to {
            return false;
        }
        self.holes.remove(&from);
        if from < second {
            self.holes.insert(from, second);
        }
        if second + 1 < to {
            self.holes.insert(second + 1, to);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(second: u32) -> Step<u32> {
        Step::Next(second, second)
    }

    #[test]
    fn order_is_restored_and_duplicates_are_told() {
        let mut order = Order::default();
        assert_eq!(order.take(1, 1), Some(vec![]));
        assert_eq!(order.take(1, 1), None);
        assert_eq!(order.take(0, 0), Some(vec![next(0), next(1)]));
        assert_eq!(order.take(0, 0), None);
        assert_eq!((order.next(), order.missing()), (2, 0));
    }

    #[test]
    fn what_never_comes_is_a_gap_and_what_comes_late_is_told() {
        let mut order = Order::default();
        for second in 3..3 + WAITING_MAX as u32 {
            assert_eq!(order.take(second, second), Some(vec![]));
        }
        let last = 3 + WAITING_MAX as u32;
        let steps = order.take(last, last).unwrap();
        assert_eq!(steps[0], Step::Gap(0..3));
        assert_eq!(steps[1..], (3..=last).map(next).collect::<Vec<_>>());
        assert_eq!(order.missing(), 3);
        assert_eq!(order.take(1, 1), Some(vec![Step::Late(1, 1)]));
        assert_eq!(order.take(1, 1), None);
        assert_eq!(order.missing(), 2);
    }

    #[test]
    fn the_end_gives_up_waiting() {
        let mut order = Order::default();
        order.take(2, 2);
        order.take(5, 5);
        assert_eq!(order.drain(), [Step::Gap(0..2), next(2), Step::Gap(3..5), next(5)]);
        assert_eq!(order.drain(), []);
    }
}
