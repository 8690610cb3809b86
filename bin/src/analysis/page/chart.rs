//! One plot as inline SVG: axes with units, lines, dots and a legend. Colours come from the page's style sheet.

use std::fmt::Write as _;

/// Size of a plot in its own units; a page scales it.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 330.0;
/// Room around the plot for ticks, labels and the legend.
const LEFT: f64 = 74.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;
/// Room that one letter of the legend takes.
const LETTER: f64 = 6.9;
/// Ticks that an axis aims at.
const TICKS: f64 = 6.0;

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; values are positive.
    Log,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A line through points.
    Line,
    /// A dashed line through points.
    Dashes,
    /// A thin line, of which there are many.
    Thin,
    /// Filled dots.
    Dots,
    /// Rings.
    Rings,
}

/// Points that are drawn in one way. The colour is one of the style sheet's, from 0.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Its entry in the legend; empty for none.
    pub name: String,
    /// How it is drawn.
    pub shape: Shape,
    /// Which of the page's colours, 0 to 4.
    pub colour: usize,
    /// Where.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, for those who do not see it.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, the first below.
    pub marks: Vec<Mark>,
}

impl Axis {
    /// An even axis over the values from `low` to `high`, with round ticks: from 0, unless all lie far from it.
    pub fn linear(label: &str, low: f64, high: f64) -> Self {
        let (low, high) = if high > low { (low, high) } else { (0.0, low.max(1.0)) };
        let low = if low > 0.0 && high < 2.0 * low { low - 0.08 * (high - low) } else { low.min(0.0) };
        let high = high + 0.03 * (high - low);
        let step = round_step((high - low) / TICKS);
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step).floor() as i64);
        let places = usize::try_from(-step.log10().floor() as i64).unwrap_or(0);
        let tick = |n: i64| (n as f64 * step, format!("{:.places$}", n as f64 * step));
        Axis { label: label.to_owned(), scale: Scale::Linear, low, high, ticks: (first..=last).map(tick).collect() }
    }

    /// A logarithmic axis over positive values, with ticks at 1, 2 and 5 times powers of ten, or at these powers alone.
    pub fn log(label: &str, low: f64, high: f64, told: impl Fn(f64) -> String) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let high = high.max(low * 1.5);
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (first..=last).flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
        let all: Vec<f64> = all.collect();
        let from = all.iter().copied().rfind(|tick| *tick <= low * 1.000_001).unwrap_or(low);
        let to = all.iter().copied().find(|tick| *tick >= high * 0.999_999).unwrap_or(high);
        let inside = all.into_iter().filter(|tick| (from..=to).contains(tick));
        let ticks = inside.map(|tick| (tick, told(tick))).collect();
        Axis { label: label.to_owned(), scale: Scale::Log, low: from, high: to, ticks }
    }

    /// An even axis with ticks of one's own.
    pub fn with_ticks(label: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        Axis { label: label.to_owned(), scale: Scale::Linear, low, high: high.max(low + 1e-9), ticks }
    }

    /// Where a value lies, 0 at the lower end and 1 at the upper.
    fn share(&self, value: f64) -> f64 {
        let at = |v: f64| if self.scale == Scale::Log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        ((at(value) - at(self.low)) / (at(self.high) - at(self.low))).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|step| *step >= least * 0.999_999).unwrap_or(power * 10.0)
}

impl Chart {
    /// The plot as an `svg` element.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let _ =
            write!(svg, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(&self.title));
        self.axes(&mut svg);
        for mark in &self.marks {
            self.mark(&mut svg, mark);
        }
        self.legend(&mut svg);
        svg.push_str("</svg>");
        svg
    }

    fn across(&self, x: f64) -> f64 {
        LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT)
    }

    fn upwards(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, text) in &self.x.ticks {
            let (x, label) = (self.across(*value), escape(text));
            let _ = write!(svg, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 17.0);
        }
        for (value, text) in &self.y.ticks {
            let (y, label) = (self.upwards(*value), escape(text));
            let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            let _ = write!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 7.0, y + 4.0);
        }
        let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
        let (middle, label) = ((LEFT + right) / 2.0, escape(&self.x.label));
        let _ = write!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", HEIGHT - 10.0);
        let (middle, label) = ((TOP + bottom) / 2.0, escape(&self.y.label));
        let _ =
            write!(svg, "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{label}</text>");
    }

    fn mark(&self, svg: &mut String, mark: &Mark) {
        let class = format!("c{}", mark.colour);
        let points = mark.points.iter().map(|(x, y)| (self.across(*x), self.upwards(*y)));
        let kind = match mark.shape {
            Shape::Dots | Shape::Rings => {
                let shape = if matches!(mark.shape, Shape::Rings) { "rings" } else { "dots" };
                // dots of one mark are one path: a line of no length with round ends
                let path: String = points.map(|(x, y)| format!("M{x:.1} {y:.1}h0")).collect();
                let _ = write!(svg, "<path class=\"{shape} {class}\" d=\"{path}\"/>");
                return;
            }
            Shape::Line => "line",
            Shape::Dashes => "line dashes",
            Shape::Thin => "line thin",
        };
        let path: Vec<String> = points.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if !path.is_empty() {
            let _ = write!(svg, "<path class=\"{kind} {class}\" d=\"M{}\"/>", path.join("L"));
        }
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT + 4.0;
        for mark in self.marks.iter().filter(|mark| !mark.name.is_empty()) {
            let class = format!("c{}", mark.colour);
            let y = TOP - 15.0;
            let (shape, d) = match mark.shape {
                Shape::Dots => ("dots", format!("M{:.1} {y}h0", x + 9.0)),
                Shape::Rings => ("rings", format!("M{:.1} {y}h0", x + 9.0)),
                Shape::Dashes => ("line dashes", format!("M{x:.1} {y}h20")),
                Shape::Line | Shape::Thin => ("line", format!("M{x:.1} {y}h20")),
            };
            let _ = write!(svg, "<path class=\"{shape} {class}\" d=\"{d}\"/>");
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 26.0, y + 4.0, escape(&mark.name));
            x += 44.0 + LETTER * mark.name.chars().count() as f64;
        }
    }
}

/// Text for HTML and SVG, in elements and in attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_values() {
        let axis = Axis::linear("t", 0.0, 100.0);
        assert_eq!(labels(&axis), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::linear("t", 0.0, 0.3)), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!((axis.share(0.0), axis.share(51.5), axis.share(1e9)), (0.0, 0.5, 1.0));
        assert_eq!(labels(&Axis::linear("t", 150.0, 190.0)), ["150", "160", "170", "180", "190"], "far from 0");
        assert_eq!(labels(&Axis::linear("t", 5.0, 5.0)), ["0", "1", "2", "3", "4", "5"], "a single value");
    }

    #[test]
    fn logarithmic_ticks_are_even_in_their_logarithm() {
        let axis = Axis::log("t", 15.0, 150.0, |v| format!("{v:.0}"));
        assert_eq!(labels(&axis), ["10", "20", "50", "100", "200"]);
        let wide = Axis::log("t", 1.0, 1e6, |v| format!("{v:.0}"));
        assert_eq!(labels(&wide).len(), 7);
        assert!((wide.share(1e3) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn plots_hold_their_marks_and_nothing_can_break_out() {
        let points = vec![(0.0, 1.0), (10.0, 2.0)];
        let mark = |shape| Mark { name: "<b>\"a\"</b>".to_owned(), shape, colour: 2, points: points.clone() };
        let chart = Chart {
            title: "a < b".to_owned(),
            x: Axis::with_ticks("s", 0.0, 10.0, Vec::new()),
            y: Axis::with_ticks("1/s", 0.0, 2.0, Vec::new()),
            marks: vec![
                mark(Shape::Line),
                mark(Shape::Dots),
                mark(Shape::Rings),
                mark(Shape::Dashes),
                mark(Shape::Thin),
            ],
        };
        let svg = chart.svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("<b>"));
        assert!(svg.contains("aria-label=\"a &lt; b\"") && svg.contains("class=\"dots c2\""));
        assert_eq!(svg.matches("L742.0 34.0").count(), 3, "three lines end in the upper right corner");
    }
}
