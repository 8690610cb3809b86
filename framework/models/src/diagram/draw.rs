//! A diagram as a drawing: DOT for Graphviz, and SVG that needs nothing.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use super::{Diagram, State};

/// Radius of a state, and of the circle on which they stand, per state; pixels.
const STATE_R: f64 = 46.0;
const RING_R: f64 = 42.0;
const RING_R_MIN: f64 = 130.0;

impl Diagram {
    /// In Graphviz's language.
    pub fn dot(&self) -> String {
        let mut text = format!("digraph {:?} {{\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n", self.about.title);
        for (name, state) in &self.states {
            let shape = if state.talks() { "box" } else { "ellipse" };
            let double = if state.last { ", peripheries=2" } else { "" };
            let _ = writeln!(text, "  {name:?} [shape={shape}{double}, label=\"{name}\\n{}\"];", self.inside(state));
        }
        for (from, to, label) in self.arrows() {
            let _ = writeln!(text, "  {from:?} -> {to:?} [label=\"{label}\"];");
        }
        text + "}\n"
    }

    /// As a picture: stochastic states are round, communication states have corners.
    pub fn svg(&self) -> String {
        let many = self.states.len();
        let ring = if many < 2 { 0.0 } else { (RING_R * many as f64).max(RING_R_MIN) };
        let half = ring + STATE_R + 90.0;
        let names: Vec<&String> = self.states.keys().collect();
        let place = |name: &str| {
            let row = names.iter().position(|known| *known == name).unwrap_or(0);
            let angle = TAU * row as f64 / many.max(1) as f64 - TAU / 4.0;
            (half + ring * angle.cos(), half + ring * angle.sin())
        };
        let size = 2.0 * half;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size:.0} {size:.0}\" font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <title>{}</title>\n",
            escaped(&self.about.title)
        );
        for (from, to, label) in self.arrows() {
            arrow(&mut text, place(&from), place(&to), (half, half), &label);
        }
        for (name, state) in &self.states {
            let (x, y) = place(name);
            let fill = if state.talks() { "#dbe9f9" } else { "#f4f4f4" };
            let style = format!("fill=\"{fill}\" stroke=\"#333\" stroke-width=\"{}\"", if state.last { 3 } else { 1 });
            let _ = if state.talks() {
                let (left, top) = (x - STATE_R, y - STATE_R * 0.6);
                let (width, height) = (STATE_R * 2.0, STATE_R * 1.2);
                writeln!(
                    text,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {style}/>"
                )
            } else {
                writeln!(
                    text,
                    "<ellipse cx=\"{x:.1}\" cy=\"{y:.1}\" rx=\"{STATE_R}\" ry=\"{:.1}\" {style}/>",
                    STATE_R * 0.6
                )
            };
            let (above, below) = (y - 3.0, y + 12.0);
            let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{above:.1}\" font-weight=\"bold\">{}</text>", escaped(name));
            let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{below:.1}\">{}</text>", escaped(&self.inside(state)));
        }
        text + "</svg>\n"
    }

    /// What a state is, in a word or two.
    fn inside(&self, state: &State) -> String {
        if let Some(module) = &state.module {
            let kind = self.modules.get(module).map_or("", |module| module.kind.word());
            return if kind == module { kind.to_owned() } else { format!("{module}: {kind}") };
        }
        if let Some(step) = &state.step {
            return step.title();
        }
        match state {
            State { last: true, .. } => "final".to_owned(),
            State { stay: Some(stay), .. } => stay.dist.word().to_owned(),
            State { hyper, .. } if !hyper.is_empty() => format!("hyper-exp {}", hyper.len()),
            State { hypo, .. } if !hypo.is_empty() => format!("hypo-exp {}", hypo.len()),
            State { coxian, .. } if !coxian.is_empty() => format!("Coxian {}", coxian.len()),
            _ => "exponential".to_owned(),
        }
    }

    /// From, to, and what stands beside it.
    fn arrows(&self) -> Vec<(String, String, String)> {
        let mut arrows = Vec::new();
        for (from, state) in &self.states {
            let when = |to: &str| if state.when.contains_key(to) { " if" } else { "" };
            for (list, mark) in [(&state.to, ""), (&state.failed, "failed "), (&state.impatient, "gives up ")] {
                for (to, share) in list {
                    let share = (share * 1e4).round() / 1e4;
                    arrows.push((from.clone(), to.clone(), format!("{mark}{share}{}", when(to))));
                }
            }
            for (to, rate) in &state.rates {
                arrows.push((from.clone(), to.clone(), format!("{rate}{}", when(to))));
            }
        }
        arrows
    }
}

/// An arrow from one state to another, or back to itself, away from the middle.
fn arrow(text: &mut String, from: (f64, f64), to: (f64, f64), middle: (f64, f64), label: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let label = escaped(label);
    if from == to {
        let (dx, dy) = (x1 - middle.0, y1 - middle.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = if length > 1.0 { (dx / length, dy / length) } else { (0.0, -1.0) };
        let (tx, ty) = (x1 + ux * (STATE_R + 46.0), y1 + uy * (STATE_R + 36.0));
        let (ax, ay) = (x1 - uy * 16.0 + ux * 26.0, y1 + ux * 16.0 + uy * 26.0);
        let (bx, by) = (x1 + uy * 16.0 + ux * 30.0, y1 - ux * 16.0 + uy * 30.0);
        let _ = writeln!(
            text,
            "<path d=\"M{ax:.1} {ay:.1}Q{tx:.1} {ty:.1} {bx:.1} {by:.1}\" fill=\"none\" stroke=\"#333\" marker-end=\"url(#tip)\"/>"
        );
        let _ = writeln!(text, "<text x=\"{tx:.1}\" y=\"{ty:.1}\">{label}</text>");
        return;
    }
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let (sx, sy) = (x1 + ux * STATE_R, y1 + uy * STATE_R);
    let (ex, ey) = (x2 - ux * STATE_R, y2 - uy * STATE_R);
    // bent to its own side, so that the way back has another
    let (cx, cy) = ((sx + ex) / 2.0 + uy * 30.0, (sy + ey) / 2.0 - ux * 30.0);
    let _ = writeln!(
        text,
        "<path d=\"M{sx:.1} {sy:.1}Q{cx:.1} {cy:.1} {ex:.1} {ey:.1}\" fill=\"none\" stroke=\"#333\" marker-end=\"url(#tip)\"/>"
    );
    let _ = writeln!(text, "<text x=\"{cx:.1}\" y=\"{cy:.1}\">{label}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
