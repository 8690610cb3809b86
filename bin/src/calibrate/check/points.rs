//! The points of a check: shapes of the three scenarios, small, at shares of what this host can take, and imposed links.
//! None of their sizes and none of their loads is among those that a calibration is made from.

use std::time::Duration;

use rehearsal_core::calibration::{Calibration, CarrierCosts, Cost, ReplyCosts};
use rehearsal_core::plan::Carrier;

use super::super::shape::{Part, Shape};

/// Shares of the most at which a shape is tried.
const LOADS: [f64; 3] = [0.3, 0.6, 0.8];
/// The share beyond which nothing more is served.
const OVERLOAD: f64 = 1.5;
/// A picture's size in PL-5G: the middle of 100 to 200 kB.
const PICTURE_BYTES: u32 = 150_000;
/// A reading's size in PL-5G.
const READING_BYTES: u32 = 1_000;
/// The analyzer's pause in scenarios A and C.
const PAUSE: Duration = Duration::from_millis(20);
/// The imposed delay, each way.
const DELAY: Duration = Duration::from_millis(20);
/// The imposed loss.
const LOSS: f64 = 0.01;
/// Load of the points with imposed links, exchanges per second: links and not cores are what they try.
const LINK_RATE: f64 = 200.0;
/// Seconds of these points: of 3,800 exchanges 2 % meet a loss, so the 99th percentile stands firmly among them.
const LINK_SECONDS: u32 = 20;
/// Bytes of an acknowledgement.
const REPLY_BYTES: f64 = 40.0;

/// How a point is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By all errors.
    Load,
    /// By the rate alone.
    Knee,
}

/// One point of a check.
#[derive(Clone, Debug)]
pub struct Point {
    /// The shape, how it is connected, and the load.
    pub name: String,
    /// How it is judged.
    pub kind: Kind,
    /// What is sent.
    pub shape: Shape,
}

impl Point {
    /// Exchanges per second that come due.
    pub fn offered(&self) -> f64 {
        self.shape.rate().unwrap_or(0.0)
    }
}

/// The points for a calibration; none if it does not know HTTP.
pub fn of(calibration: &Calibration, quick: bool) -> Vec<Point> {
    let Some(costs) = calibration.carriers.get(&Carrier::Http1) else { return Vec::new() };
    let seconds = if quick { 3 } else { 5 };
    let mut points = Vec::new();
    for (name, parts, pause) in scenarios() {
        for kept in [true, false] {
            let part = parts[0];
            let plain = Shape::plain(Carrier::Http1, kept, part, seconds);
            let shape = Shape { parts: parts.clone(), pause, ..plain };
            let most = most(costs, calibration.pacing.due_ns, &shape);
            let how = connection(kept);
            for load in LOADS {
                let name = format!("{name}, {how}, {:.0} %", load * 100.0);
                points.push(Point { name, kind: Kind::Load, shape: shape.at(most * load) });
            }
            let name = format!("{name}, {how}, overload");
            points.push(Point { name, kind: Kind::Knee, shape: shape.at(most * OVERLOAD) });
        }
    }
    for kept in [true, false] {
        let part = Part { bytes: READING_BYTES, streams: 8, rate: Some(LINK_RATE / 8.0) };
        let plain = Shape::plain(Carrier::Http1, kept, part, if quick { seconds } else { LINK_SECONDS });
        let how = connection(kept);
        let delayed = Shape { delay: DELAY, ..plain.clone() };
        points.push(Point { name: format!("delay 20 ms, {how}"), kind: Kind::Load, shape: delayed });
        let lossy = Shape { loss: LOSS, ..plain };
        points.push(Point { name: format!("loss 1 %, {how}"), kind: Kind::Load, shape: lossy });
    }
    points
}

const fn connection(kept: bool) -> &'static str {
    if kept { "kept" } else { "per request" }
}

/// What each scenario sends, in the proportions of its sources; rates are scaled later.
fn scenarios() -> [(&'static str, Vec<Part>, Duration); 3] {
    let pictures = |streams, rate| Part { bytes: PICTURE_BYTES, streams, rate: Some(rate) };
    let readings = |streams, rate| Part { bytes: READING_BYTES, streams, rate: Some(rate) };
    [
        ("scenario A", vec![pictures(4, 30.0)], PAUSE),
        ("scenario B", vec![readings(2, 250.0), pictures(2, 25.0)], Duration::ZERO),
        ("scenario C", vec![pictures(3, 30.0), readings(5, 30.0)], PAUSE),
    ]
}

/// Exchanges per second of a shape at which the first of both ends is busy all the time, by the calibration; `due_ns` is the
/// sender's for each.
pub fn most(costs: &CarrierCosts, due_ns: f64, shape: &Shape) -> f64 {
    let of = |cost: &Cost, bytes: f64| cost.mean(bytes, 1.0);
    let reply = |which: fn(&CarrierCosts) -> &Cost| of(which(costs), REPLY_BYTES);
    let answered = reply(|c| c.reply.as_ref().map_or(&c.send, |r| &r.send));
    let heard = reply(|c| c.reply.as_ref().map_or(&c.receive, |r| &r.receive));
    let all = shape.rate().unwrap_or(1.0);
    let mean = |cost: &Cost| -> f64 {
        let weighted = shape
            .parts
            .iter()
            .map(|part| part.rate.unwrap_or(0.0) * f64::from(part.streams) * of(cost, f64::from(part.bytes)));
        weighted.sum::<f64>() / all
    };
    let connected = |cost: &Cost| if shape.kept { 0.0 } else { mean(cost) };
    let paused = |which: fn(&ReplyCosts) -> &Cost| {
        costs.paused.as_ref().filter(|_| !shape.pause.is_zero()).map_or(0.0, |paused| mean(which(paused)))
    };
    let sender = due_ns + mean(&costs.send) + heard + connected(&costs.connect) + paused(|p| &p.receive);
    let accept = connected(costs.accept.as_ref().unwrap_or(&costs.connect));
    let receiver = mean(&costs.receive) + answered + accept + paused(|p| &p.send);
    1e9 / sender.max(receiver).max(1.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// 10 µs for each message, 0.1 ns a byte received, 20 µs for a connection.
    pub fn calibration() -> Calibration {
        let cost = |fixed_ns, ns_per_byte| Cost { fixed_ns, ns_per_byte, ..Cost::default() };
        let costs = CarrierCosts {
            send: cost(10_000.0, 0.0),
            receive: cost(10_000.0, 0.1),
            connect: cost(20_000.0, 0.0),
            ..CarrierCosts::default()
        };
        let mut calibration = Calibration::free("x");
        calibration.carriers.insert(Carrier::Http1, costs);
        calibration
    }

    #[test]
    fn the_most_is_that_of_the_busier_end() {
        let calibration = calibration();
        let costs = &calibration.carriers[&Carrier::Http1];
        let part = Part { bytes: 100_000, streams: 1, rate: Some(1.0) };
        let kept = Shape::plain(Carrier::Http1, true, part, 3);
        // the receiver: 10 µs + 100,000 × 0.1 ns for the request, 10 µs for the reply
        assert!((most(costs, 0.0, &kept) - 1e9 / 30_000.0).abs() < 0.01, "{}", most(costs, 0.0, &kept));
        let fresh = Shape { kept: false, ..kept };
        assert!((most(costs, 0.0, &fresh) - 1e9 / 50_000.0).abs() < 0.01);
    }

    #[test]
    fn there_are_loads_knees_and_links_of_all_scenarios() {
        let points = of(&calibration(), true);
        // three scenarios, kept or not, three loads and an overload; delay and loss, kept or not
        assert_eq!(points.len(), 3 * 2 * 4 + 4);
        let names: std::collections::BTreeSet<&String> = points.iter().map(|p| &p.name).collect();
        assert_eq!(names.len(), points.len());
        assert_eq!(points.iter().filter(|p| p.kind == Kind::Knee).count(), 6);
        let rate = |name: &str| points.iter().find(|p| p.name == name).map(Point::offered).expect(name);
        let (low, high) = (rate("scenario B, kept, 30 %"), rate("scenario B, kept, 60 %"));
        assert!((high / low - 2.0).abs() < 1e-9);
        assert!(of(&Calibration::free("nothing"), true).is_empty());
    }
}
