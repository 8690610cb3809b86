//! The sweep file: which experiment, and what to vary in it. Errors say where.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::exit::UsageError;

/// Largest sweep file that is read, bytes. Assumed: a thousand times a long one.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Points of a sweep, at most. Assumed: a week of dry runs of ten seconds each on one core.
pub const POINTS_MAX: u64 = 100_000;

/// A sweep as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    sweep: Head,
    #[serde(default)]
    grid: BTreeMap<Spanned<String>, Spanned<Vec<Spanned<toml::Value>>>>,
    random: Option<Spanned<Random>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    experiment: PathBuf,
    repetitions: Option<Spanned<u32>>,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    set: BTreeMap<Spanned<String>, toml::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Random {
    points: Spanned<u64>,
    #[serde(default)]
    method: Method,
    ranges: BTreeMap<Spanned<String>, Spanned<WrittenRange>>,
}

/// How random points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each range in as many strata of equal share as there are points, one point in each (McKay, Beckman, Conover, 1979).
    #[default]
    LatinHypercube,
    /// Each point by itself.
    Uniform,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRange {
    from: toml::Value,
    to: toml::Value,
    #[serde(default)]
    scale: Scale,
}

/// How a range is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors.
    Log,
}

const fn one() -> u64 {
    1
}

/// A sweep that is ready to be taken apart into points.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The experiment file.
    pub experiment: PathBuf,
    /// Repetitions at each point, at least one; without, the experiment's.
    pub repetitions: Option<u32>,
    /// What random points follow from.
    pub seed: u64,
    /// What is changed at every point: one value each.
    pub set: Vec<Axis>,
    /// Lists of values, by path.
    pub grid: Vec<Axis>,
    /// Random points: how many, how, and over which ranges.
    pub random: Option<(u64, Method, Vec<Spread>)>,
}

/// A parameter with a list of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its path in the experiment file.
    pub path: String,
    /// Its values, as `--set` takes them.
    pub values: Vec<String>,
    /// Where it stands.
    pub at: String,
}

/// A parameter with a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Its path in the experiment file.
    pub path: String,
    /// Smallest.
    pub from: f64,
    /// Largest.
    pub to: f64,
    /// The unit of both.
    pub unit: String,
    /// Whether only whole numbers are drawn.
    pub whole: bool,
    /// How it is walked.
    pub scale: Scale,
    /// Where it stands.
    pub at: String,
}

impl Sweep {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn load(path: &Path) -> Result<Self, UsageError> {
        let unreadable = |why: std::io::Error| UsageError(format!("{}: cannot read the sweep: {why}", path.display()));
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(UsageError(format!("{}: the file is larger than {FILE_BYTES_MAX} bytes", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Sweep::read(path, &text)
    }

    fn read(path: &Path, text: &str) -> Result<Self, UsageError> {
        let written: Written = toml::from_str(text).map_err(|why| {
            let at = why.span().map_or(path.display().to_string(), |span| place(path, text, &span));
            let hint = if text.contains("[nodes") { "; this looks like an experiment: a sweep names one" } else { "" };
            UsageError(format!("{at}: {}{hint}", why.message()))
        })?;
        let wrong = |span: &Range<usize>, reason: String| UsageError(format!("{}: {reason}", place(path, text, span)));
        let Written { sweep: head, grid: lists, random } = written;
        if let Some(zero) = head.repetitions.as_ref().filter(|r| *r.get_ref() == 0) {
            return Err(wrong(&zero.span(), "`repetitions` must be at least 1".to_owned()));
        }
        let grid = read_grid(lists, &wrong, |span| place(path, text, span))?;
        let fixed = |(name, set): (Spanned<String>, toml::Value)| {
            let at = place(path, text, &name.span());
            Axis { path: name.into_inner(), values: vec![value(&set)], at }
        };
        let random = random
            .map(|random| read_random(random.into_inner(), &wrong, |span| place(path, text, span)))
            .transpose()?;
        let drawn = random.iter().flat_map(|(_, _, ranges)| ranges);
        if let Some(twice) = drawn.clone().find(|range| grid.iter().any(|axis| axis.path == range.path)) {
            return Err(UsageError(format!("{}: `{}` is in [grid] already", twice.at, twice.path)));
        }
        if grid.is_empty() && random.is_none() {
            let hint = "write [grid] with lists, such as \"nodes.camera.count\" = [1, 2, 4], or [random] with ranges";
            return Err(UsageError(format!("{}: nothing is varied; {hint}", path.display())));
        }
        Ok(Sweep {
            experiment: path.parent().unwrap_or(Path::new("")).join(head.experiment),
            repetitions: head.repetitions.map(Spanned::into_inner),
            seed: head.seed,
            set: head.set.into_iter().map(fixed).collect(),
            grid,
            random,
        })
    }
}

impl Sweep {
    /// Where the parameter stands that a text speaks of as `--set PATH=…`.
    pub fn blamed(&self, text: &str) -> Option<&str> {
        let listed = self.set.iter().chain(&self.grid).map(|axis| (&axis.path, &axis.at));
        let drawn = self.random.iter().flat_map(|(_, _, ranges)| ranges).map(|range| (&range.path, &range.at));
        let mut all = listed.chain(drawn);
        all.find(|(path, _)| text.contains(&format!("--set {path}="))).map(|(_, at)| at.as_str())
    }
}

fn read_grid(
    lists: BTreeMap<Spanned<String>, Spanned<Vec<Spanned<toml::Value>>>>,
    wrong: &dyn Fn(&Range<usize>, String) -> UsageError,
    place: impl Fn(&Range<usize>) -> String,
) -> Result<Vec<Axis>, UsageError> {
    let mut grid = Vec::new();
    for (name, list) in lists {
        let (at, path, whole) = (place(&name.span()), name.into_inner(), list.span());
        let mut values: Vec<String> = Vec::new();
        for one in list.into_inner() {
            let (span, text) = (one.span(), value(one.get_ref()));
            if let Some(known) = values.iter().find(|known| same(known, &text)) {
                let same = if *known == text { String::new() } else { format!(", which is {known}") };
                return Err(wrong(
                    &span,
                    format!("`{path}` has {text} twice{same}; each point is run once, so leave one out"),
                ));
            }
            values.push(text);
        }
        if values.is_empty() {
            return Err(wrong(&whole, format!("`{path}` has no values; write for instance [1, 2, 4]")));
        }
        grid.push(Axis { path, values, at });
    }
    Ok(grid)
}

type Drawn = (u64, Method, Vec<Spread>);

fn read_random(
    random: Random,
    wrong: &dyn Fn(&Range<usize>, String) -> UsageError,
    place: impl Fn(&Range<usize>) -> String,
) -> Result<Drawn, UsageError> {
    let points = *random.points.get_ref();
    if points == 0 || points > POINTS_MAX {
        return Err(wrong(&random.points.span(), format!("`points` must be from 1 to {POINTS_MAX}")));
    }
    let mut ranges = Vec::new();
    for (name, range) in random.ranges {
        let (span, WrittenRange { from, to, scale }) = (range.span(), range.into_inner());
        let ends = quantity(&from).zip(quantity(&to));
        let Some((from, to)) = ends.filter(|(from, to)| from.unit == to.unit) else {
            let text =
                format!("`{}`: `from` and `to` must be numbers with the same unit, such as \"10/s\"", name.get_ref());
            return Err(wrong(&span, text));
        };
        if from.number >= to.number || (scale == Scale::Log && from.number <= 0.0) {
            let text = format!("`{}`: `from` must be below `to`, and above zero on a log scale", name.get_ref());
            return Err(wrong(&span, text));
        }
        let whole = from.whole && to.whole;
        let at = place(&name.span());
        let (from, to, unit) = (from.number, to.number, from.unit);
        ranges.push(Spread { path: name.into_inner(), from, to, unit, whole, scale, at });
    }
    Ok((points, random.method, ranges))
}

/// A number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number.
    pub number: f64,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// Whether it was written without a decimal point.
    pub whole: bool,
}

/// A value as a number with a unit, if it is one.
fn quantity(value: &toml::Value) -> Option<Quantity> {
    quantity_of(&match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(_) | toml::Value::Float(_) => value.to_string(),
        _ => return None,
    })
}

/// A text as a number with a unit, if it is one.
pub fn quantity_of(text: &str) -> Option<Quantity> {
    let text = text.trim().trim_matches('"');
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".-+_".contains(c))).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number = digits.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some(Quantity { number, unit: unit.trim().to_owned(), whole: !digits.contains('.') })
}

/// Whether two values mean the same: as texts, or as numbers with a unit.
fn same(one: &str, other: &str) -> bool {
    let number = |text: &str| quantity_of(text).map(|quantity| (quantity.number, quantity.unit));
    one == other || number(one).is_some_and(|one| number(other) == Some(one))
}

/// A value as `--set` takes it.
fn value(value: &toml::Value) -> String {
    value.to_string()
}

/// `file:line:column`.
fn place(path: &Path, text: &str, span: &Range<usize>) -> String {
    let before = text.get(..span.start.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{}:{line}:{column}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Sweep, String> {
        Sweep::read(Path::new("sweeps/s.toml"), text).map_err(|why| why.to_string())
    }

    const HEAD: &str = "[sweep]\nexperiment = \"../x.toml\"\n";

    #[test]
    fn a_sweep_is_read() {
        let text = format!(
            "{HEAD}repetitions = 2\nset = {{ \"experiment.duration\" = \"5s\" }}\n[grid]\n\"nodes.a.count\" = [1, 2]\n\"links.default.delay\" = [\"1ms\"]\n\
             [random]\npoints = 3\n[random.ranges]\n\"nodes.a.actors.main.rate\" = {{ from = \"10/s\", to = \"2.5e0/s\" }}\n"
        );
        assert!(read(&text).unwrap_err().starts_with("sweeps/s.toml:11:"), "{:?}", read(&text));
        let sweep = read(&text.replace("2.5e0/s", "25.5/s")).expect("a sweep");
        assert_eq!(sweep.experiment, Path::new("sweeps/../x.toml"));
        assert_eq!((sweep.repetitions, sweep.seed, sweep.set.len()), (Some(2), 1, 1));
        let axes: Vec<_> = sweep.grid.iter().map(|a| (a.path.as_str(), a.values.len())).collect();
        assert_eq!(axes, [("links.default.delay", 1), ("nodes.a.count", 2)]);
        let (points, method, ranges) = sweep.random.expect("random points");
        assert_eq!((points, method, ranges.len()), (3, Method::LatinHypercube, 1));
        assert_eq!((ranges[0].from, ranges[0].to, ranges[0].unit.as_str(), ranges[0].whole), (10.0, 25.5, "/s", false));
    }

    #[test]
    fn errors_have_their_line() {
        let error = |rest: &str| read(&format!("{HEAD}{rest}")).unwrap_err();
        assert!(error("[grid]\n\"a.b\" = []\n").starts_with("sweeps/s.toml:4:9: `a.b` has no values"));
        assert!(error("repetitions = 0\n[grid]\n\"a.b\" = [1]\n").starts_with("sweeps/s.toml:3:15: `repetitions`"));
        let twice = error("[grid]\n\"a.b\" = [1, 2, 1]\n");
        assert!(twice.starts_with("sweeps/s.toml:4:16: `a.b` has 1 twice;"), "{twice}");
        let twice = error("[grid]\n\"a.b\" = [\"10/s\", \"10.0/s\"]\n");
        assert!(twice.starts_with("sweeps/s.toml:4:18: `a.b` has \"10.0/s\" twice, which is \"10/s\""), "{twice}");
        assert!(read(&format!("{HEAD}[grid]\n\"a.b\" = [\"10/s\", \"10ms\", 10]\n")).is_ok());
        assert!(error("[gird]\n").contains(":3:2: unknown field `gird`"), "{}", error("[gird]\n"));
        assert!(error("").contains("nothing is varied"));
        let range = |text: &str| error(&format!("[random]\npoints = 5\n[random.ranges]\n\"a.b\" = {text}\n"));
        assert!(range("{ from = \"1s\", to = \"2ms\" }").contains(":6:9: `a.b`: `from` and `to`"));
        assert!(range("{ from = 2, to = 1 }").contains("below `to`"));
        assert!(range("{ from = 0, to = 1, scale = \"log\" }").contains("above zero on a log scale"));
        assert!(error("[random]\npoints = 0\nranges = {}\n").contains(":4:10: `points` must be from 1"));
        assert!(
            error("[grid]\n\"a.b\" = [1]\n[random]\npoints = 1\nranges = { \"a.b\" = { from = 1, to = 2 } }\n")
                .contains("in [grid] already")
        );
        let experiment = read("[experiment]\nname = \"x\"\n[nodes.a]\n").unwrap_err();
        assert!(experiment.contains("looks like an experiment"), "{experiment}");
    }

    #[test]
    fn numbers_have_units() {
        let of = |text: &str| quantity_of(text).map(|q| (q.number, q.unit, q.whole));
        assert_eq!(of("10/s"), Some((10.0, "/s".to_owned(), true)));
        assert_eq!(of("\"2.5 ms\""), Some((2.5, "ms".to_owned(), false)));
        assert_eq!((of("1_000"), of("x"), of("")), (Some((1000.0, String::new(), true)), None, None));
    }
}
