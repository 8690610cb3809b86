//! A report as one self-contained page: no script, nothing fetched, plots inline; light, dark and on paper.

use std::fmt::Write as _;

use super::network::ASSUMED;
use super::number::{decimals, fixed, p_value};
use super::plots::Plots;
use super::tables::{NodeRow, Related, Relation};
use super::text::{headline, names, severity, transfer, variation};
use super::{Analysis, claims::Judged, machines};

pub mod chart;
mod figures;

use chart::escape;

const STYLE: &str = include_str!("page/style.css");

/// The whole page. Each analysis has the points of its plots beside it.
pub fn of(analyses: &[(Analysis, Plots)]) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    let titles: Vec<String> = analyses.iter().map(|(analysis, _)| headline(analysis)).collect();
    let _ = writeln!(page, "<title>{}</title><style>\n{STYLE}</style></head><body>", escape(&titles.join("; ")));
    page.push_str("<h1>What the runs say, over their repetitions</h1>\n");
    for (analysis, plots) in analyses {
        section(&mut page, analysis, plots);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ =
        write!(page, "<footer>Made by rehearsal {version} from the results named above; nothing is fetched.</footer>");
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, analysis: &Analysis, plots: &Plots) {
    let word = analysis.status.word();
    let _ =
        writeln!(page, "<section><h2><span class=\"verdict {word}\">{word}</span>{}</h2>", escape(&headline(analysis)));
    doubts(page, analysis);
    if let Some(comparison) = &analysis.comparison {
        let _ = writeln!(
            page,
            "<h3>Beside the baseline</h3><div class=\"wide\"><pre>{}</pre></div>",
            escape(&comparison.text())
        );
    }
    if !analysis.claims.is_empty() {
        claims(page, &analysis.claims);
    }
    over_repetitions(page, analysis);
    if let Some(pooled) = &analysis.pooled {
        let _ = writeln!(page, "<p>{}</p>", escape(&pooled.text()));
    }
    wire(page, analysis);
    page.push_str(&analysis.users.html());
    page.push_str(&figures::throughput(plots));
    page.push_str(&figures::spectrum(plots));
    page.push_str(&figures::delays(plots));
    page.push_str(&figures::variance_time(analysis));
    page.push_str(&figures::cloud(plots, analysis));
    if !analysis.nodes.is_empty() {
        correlations(page, analysis);
        resources(page, &analysis.nodes);
    }
    page.push_str(&figures::memory(plots));
    machines::html(page, &analysis.machines, analysis.measuring.as_ref());
    page.push_str("<h3>Results that this was made from</h3><p>");
    let folders: Vec<String> =
        analysis.bundles.iter().map(|folder| format!("<code>{}</code>", escape(folder))).collect();
    let _ = writeln!(page, "{}</p></section>", folders.join(", "));
}

fn doubts(page: &mut String, analysis: &Analysis) {
    page.push_str("<ul class=\"doubts\">");
    for doubt in &analysis.doubts {
        let word = severity(doubt.severity);
        let (n, all) = (doubt.repetitions, analysis.bundles.len());
        let of = if all > 1 { format!(" ({n} of {all} repetitions)") } else { String::new() };
        let _ = write!(
            page,
            "<li><b class=\"{word}\">{word}</b><code>{}</code>{of}: {}</li>",
            doubt.code,
            escape(&doubt.text)
        );
    }
    for note in &analysis.notes {
        let _ = write!(page, "<li><b>note</b>{}</li>", escape(note));
    }
    if !analysis.tags.is_empty() {
        let _ = write!(page, "<li><b>tags</b>{}</li>", escape(&crate::tags::told(&analysis.tags)));
    }
    page.push_str("</ul>\n");
}

fn claims(page: &mut String, claims: &[Judged]) {
    page.push_str("<h3>What the paper claims of this scenario</h3><div class=\"wide\"><table><tr><th>here it</th>");
    page.push_str("<th class=\"text\">claim</th><th class=\"text\">because</th></tr>");
    for claim in claims {
        let class = claim.held.words().replace(' ', "-").replace("does-not-hold", "does-not");
        let _ = write!(
            page,
            "<tr><td class=\"{class}\"><b>{}</b></td><td class=\"long\">{}<small>{}</small></td><td class=\"long\">{}</td></tr>",
            claim.held.words(),
            escape(&claim.text),
            escape(&claim.source),
            escape(&claim.because)
        );
    }
    page.push_str("</table></div>\n");
}

fn over_repetitions(page: &mut String, analysis: &Analysis) {
    let level = analysis.figures.first().map_or(0.95, |figure| figure.described.level) * 100.0;
    let paper = analysis.paper_rate.as_ref();
    let _ = write!(
        page,
        "<h3>Over repetitions</h3><div class=\"wide\"><table><tr><th></th><th>n</th><th>mean</th><th>deviation</th>\
         <th>{level:.0} % interval</th><th>least</th><th>most</th>"
    );
    page.push_str(if paper.is_some() { "<th>paper, mean ± half width</th></tr>" } else { "</tr>" });
    for figure in &analysis.figures {
        let d = &figure.described;
        let places = decimals(d);
        let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
        let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| fixed(value, places));
        let half = d.half_width.map_or_else(|| "–".to_owned(), |half| format!("± {}", fixed(half, places)));
        let _ = write!(page, "<tr><td>{}{unit}</td><td>{}</td><td>{}</td>", figure.name, d.n, fixed(d.mean, places));
        let _ = write!(
            page,
            "<td>{}</td><td>{half}</td><td>{}</td><td>{}</td>",
            cell(d.sd),
            cell(Some(d.min)),
            cell(Some(d.max))
        );
        match paper {
            Some(rate) if figure.name == "rate of receivers" => {
                let _ = write!(page, "<td>{:.2} ± {:.2}</td>", rate.mean, rate.half_width);
            }
            Some(_) => page.push_str("<td></td>"),
            None => {}
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div><p class=\"caption\">Deviation with n − 1; interval of the mean by Student's t on n − 1 degrees of freedom. ");
    page.push_str("Rates and times are of the measured seconds.</p>\n");
}

fn wire(page: &mut String, analysis: &Analysis) {
    if !analysis.wire.is_empty() {
        page.push_str("<h3>On the wire</h3><div class=\"wide\"><table><tr><th>sender</th><th></th><th>carrier</th>");
        page.push_str("<th>messages/s</th><th>payload, B</th><th>headers, B</th><th>payload, Mbit/s</th>");
        page.push_str("<th>wire, Mbit/s</th><th>packets/s</th></tr>");
        for row in &analysis.wire {
            let _ = write!(page, "<tr><td>{}</td><td>{}</td><td>{}</td>", escape(&row.sender), row.what, row.carrier);
            let each = [(row.sent_per_second, 1), (row.payload_bytes, 0), (row.header_bytes, 0)];
            let rates = [(row.payload_mbit_per_second, 3), (row.wire_mbit_per_second, 3), (row.frames_per_second, 1)];
            for (value, places) in each.into_iter().chain(rates) {
                let _ = write!(page, "<td>{}</td>", fixed(value, places));
            }
            page.push_str("</tr>");
        }
        let _ = writeln!(page, "</table></div><p class=\"caption\">Assumed {ASSUMED}.</p>");
    }
    if let Some(datagrams) = &analysis.datagrams {
        let lines = [vec![transfer(datagrams)], variation(datagrams)].concat().join("\n");
        let _ = writeln!(page, "<h3>Transfer of datagrams</h3><p>{}</p>", escape(&lines).replace('\n', "<br>"));
    }
    let mut known = analysis.availability.text();
    known.extend((!analysis.names.is_empty()).then(|| names(&analysis.names)));
    if !known.is_empty() {
        let _ = writeln!(page, "<p class=\"caption\">{}</p>", escape(&known.join("\n")).replace('\n', "<br>"));
    }
}

fn correlations(page: &mut String, analysis: &Analysis) {
    if let Some(Related::Unknown { why, .. }) = analysis.nodes.first().map(|row| &row.all)
        && analysis.nodes.iter().all(|row| row.all.known().is_none())
    {
        let _ = writeln!(page, "<h3>CPU load against rate</h3><p>Cannot be told: {}.</p>", escape(why));
        return;
    }
    page.push_str(
        "<h3>CPU load against rate, second by second</h3><div class=\"wide\"><table class=\"dense\"><tr><th>node</th>",
    );
    page.push_str("<th class=\"text\">seconds</th><th>n</th><th>effective n</th><th>Pearson r</th><th>interval</th>");
    page.push_str("<th>Spearman ρ</th><th>interval</th><th>p</th><th>R²</th><th>slope</th></tr>");
    let (mut drawn, mut why) = (None, None);
    for row in &analysis.nodes {
        for (which, related) in [("all", &row.all), ("no ramps", &row.steady)] {
            match related {
                Related::Known(relation) => {
                    drawn = Some(relation.pearson.interval);
                    relation_row(page, &row.node, which, relation);
                }
                Related::Unknown { why: text, .. } => why = Some(format!("{}, {which}: {text}", row.node)),
            }
        }
    }
    if let Some(paper) = &analysis.paper_correlation {
        let _ = write!(
            page,
            "<tr><td>paper</td><td class=\"text\">receiver, all</td><td>{}</td><td></td><td>{:.3}</td><td></td><td>{:.3}</td>\
             <td></td><td>&lt; {}</td><td></td><td></td></tr>",
            paper.n, paper.pearson, paper.spearman, paper.p_max
        );
    }
    page.push_str("</table></div><p class=\"caption\">");
    if let Some(i) = drawn {
        let _ = write!(
            page,
            "Intervals: {:.0} %, moving block bootstrap, {} replicates, seed {}. p: the t test of one repetition, the largest of \
             them, which neglects that seconds resemble each other; effective n says how many independent ones would tell as much. Slope: % of CPU per \
             request/s, least squares. ",
            i.level * 100.0,
            i.replicates,
            i.seed
        );
    }
    let _ = writeln!(page, "{}</p>", escape(&why.unwrap_or_default()));
}

fn relation_row(page: &mut String, node: &str, which: &str, relation: &Relation) {
    let lines = relation.lines.len() as f64;
    let r_squared = relation.lines.iter().map(|line| line.r_squared).sum::<f64>() / lines;
    let slope = relation.lines.iter().map(|line| line.slope).sum::<f64>() / lines;
    let _ = write!(page, "<tr><td>{}</td><td class=\"text\">{which}</td><td>{}</td>", escape(node), relation.n);
    let _ = write!(page, "<td>{:.0}</td>", relation.pearson.effective_n);
    for c in [&relation.pearson, &relation.spearman] {
        let (low, high) = (c.interval.lower, c.interval.upper);
        let _ = write!(page, "<td>{}</td><td>{} … {}</td>", fixed(c.r, 3), fixed(low, 3), fixed(high, 3));
    }
    let p = escape(&p_value(relation.pearson.p));
    let _ = write!(page, "<td>{p}</td><td>{r_squared:.3}</td><td>{}</td></tr>", fixed(slope, 3));
}

fn resources(page: &mut String, nodes: &[NodeRow]) {
    if nodes.iter().all(|row| row.cpu_percent.is_none() && row.memory_bytes.is_none()) {
        return;
    }
    page.push_str(
        "<h3>Resources without ramps</h3><div class=\"wide\"><table><tr><th>node</th><th class=\"text\">role</th>",
    );
    page.push_str("<th>CPU load, %</th><th>memory, MB</th><th>memory varies by, %</th></tr>");
    for row in nodes {
        let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| fixed(value, 1));
        let _ = write!(
            page,
            "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.node),
            row.role.word(),
            cell(row.cpu_percent.map(|d| d.mean)),
            cell(row.memory_bytes.map(|d| d.mean / 1e6)),
            cell(row.memory_spread.map(|share| share * 100.0))
        );
    }
    page.push_str(
        "</table></div><p class=\"caption\">CPU load is of the cores that a node is allowed. Memory varies: 95th less 5th percentile over the \
                   median, the largest of the repetitions.</p>\n",
    );
}

#[cfg(test)]
mod tests {
    use rehearsal_stats::Bootstrap;

    use super::super::paper::Paper;
    use super::super::testing::{Recipe, Scratch, wave, write};
    use super::super::{How, analyse, open};
    use super::*;

    fn page(experiment: &str) -> String {
        let scratch = Scratch::new();
        for repetition in 0..2 {
            let recipe = Recipe { experiment, settings: "", repetition, seconds: &wave(0.5), fault: false };
            write(&scratch.path().join(format!("rep-0{repetition}")), &recipe);
        }
        let groups = open::groups(&[scratch.path().to_owned()], &[]).expect("bundles");
        let draw = Bootstrap { replicates: 100, ..Bootstrap::default() };
        let how =
            How { ramp: None, draw, paper: Paper::shipped(), plots: true, users: crate::analysis::users::How::plain() };
        let analyses = groups.into_iter().map(|group| analyse(group, &how).expect("an analysis"));
        of(&analyses.collect::<Vec<_>>())
    }

    #[test]
    fn a_page_tells_the_verdict_first_and_needs_nothing_else() {
        let page = page("pl5g-a1");
        let body = &page[page.find("<body>").expect("a body")..];
        let verdict = body.find("VALID").expect("a verdict");
        assert!(body[..verdict].len() < 200, "nothing but a heading before it");
        for foreign in ["<script", "http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let opened = |tag: &str| (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count());
        for tag in ["section", "table", "figure>", "svg", "p>", "ul"] {
            let (open, close) = opened(tag.trim_end_matches('>'));
            let open = if tag.ends_with('>') {
                page.matches(&format!("<{}", tag.trim_end_matches('>'))).count()
            } else {
                open
            };
            assert!(open >= close && close > 0, "{tag}: {open} opened, {close} closed");
        }
        assert_eq!(page.matches("<svg").count(), 4, "throughput, spectrum, cloud and memory");
        assert!(page.contains("135.98 ± 0.19") && page.contains("least squares"));
    }

    #[test]
    fn what_was_changed_is_degraded_at_best() {
        let scratch = Scratch::new();
        let recipe = Recipe { experiment: "e", settings: "", repetition: 0, seconds: &wave(0.5), fault: true };
        let run = write(&scratch.path().join("run"), &recipe);
        let verdict = std::fs::read_to_string(run.join("verdict.json")).expect("a verdict");
        std::fs::write(run.join("verdict.json"), verdict.replace("INVALID", "VALID")).expect("room on the disk");
        let group = open::groups(&[run], &[]).expect("a bundle").remove(0);
        let draw = Bootstrap { replicates: 100, ..Bootstrap::default() };
        let analysed = analyse(
            group,
            &How {
                ramp: None,
                draw,
                paper: Paper::shipped(),
                plots: false,
                users: crate::analysis::users::How::plain(),
            },
        );
        let (analysis, _) = analysed.expect("an analysis");
        assert_eq!(analysis.status, rehearsal_export::Status::Degraded);
        assert!(analysis.doubts.iter().any(|d| d.code == "changed" && d.text.contains("verdict.json")));
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let page = page("<img onerror=x>");
        assert!(!page.contains("<img") && page.contains("&lt;img"));
    }
}
