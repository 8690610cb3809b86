//! What is said of links: bounds, keys that exclude or need each other, cells and classes.

use std::collections::BTreeMap;

use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, LinkSpec, Scheduler};

use super::times::{WAIT_MAX, at_most};
use crate::draft::{Draft, LinkDraft};
use crate::error::Problems;
use crate::read::{DEFAULT_LINK, pair};
use crate::trace;

/// Classes of one link. Source: a code point has six bits.
const CLASSES_MAX: usize = 64;
/// Heaviest class, as the schema says. Assumed: a thousandth of a rate is no share any more.
const WEIGHT_MAX: u32 = 1000;
/// Requests under way on one connection, as the schema says and as a receiver takes. Assumed: far beyond a use.
const PIPELINE_MAX: u32 = 1024;

/// Notes what makes no sense about links.
pub(super) fn check(draft: &Draft, problems: &mut Problems<'_>) {
    for link in draft.links.iter().chain([&draft.link]) {
        carrier(link, problems);
        delays(link, problems);
        rates(link, problems);
        losses(link, problems);
        queues(link, problems);
        weights(link, problems);
        cell(link, problems);
        shares(draft, link, problems);
    }
}

/// A link that shares another's capacity has a queue and a rate that are the other's.
fn shares(draft: &Draft, LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    let Some(name) = &link.shares else { return };
    let at = keys.at("shares");
    let Some(cell) =
        draft.links.iter().map(|other| &other.link).find(|other| other.name == *name && !other.members.is_empty())
    else {
        let help = "name a link with `members`, such as `[links.cell]`";
        return problems.rule(at, format!("there is no link `{name}` whose capacity could be shared"), Some(help));
    };
    if pair(&link.name).is_none() {
        let help = "write `shares` into `[links.\"from->to\"]`";
        return problems.rule(at, format!("`{}` is no link between two nodes", link.name), Some(help));
    }
    let same = [
        ("rate", link.rate == cell.rate && link.rate_trace == cell.rate_trace && link.rate_steps == cell.rate_steps),
        ("queue", link.queue == cell.queue && link.queue_packets == cell.queue_packets),
        ("scheduler", link.scheduler == cell.scheduler && link.classes == cell.classes),
        ("codel", link.codel == cell.codel),
        ("impose", link.impose == cell.impose),
    ];
    for (key, _) in same.iter().filter(|(_, same)| !same) {
        let reason = format!("`{key}` is that of `{name}`, which `{}` shares", link.name);
        problems.rule(keys.at(key), reason, Some("leave it out"));
    }
}

fn carrier(LinkDraft { span, link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    if link.carrier == Carrier::Mqtt && link.mqtt.is_none() {
        let help = "add for instance `mqtt = { broker = \"mqtt://127.0.0.1:1883\", qos = 1 }`";
        let at = if keys.has("carrier") { keys.at("carrier") } else { span };
        problems.rule(at, "`mqtt` needs a broker", Some(help));
    }
    if let Some(spec) = link.mqtt.as_ref().filter(|spec| !spec.is_well_formed()) {
        let help = "write for instance `mqtt://127.0.0.1:1883`, without a name or password";
        problems.rule(keys.at("mqtt"), format!("`{}` is no broker", spec.broker), Some(help));
    }
    if !(1..=PIPELINE_MAX).contains(&link.pipeline) {
        let reason = format!("`pipeline`: {} is out of range: it must be from 1 to {PIPELINE_MAX}", link.pipeline);
        problems.rule(keys.at("pipeline"), reason, None);
    }
}

fn delays(LinkDraft { span, link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    at_most(WAIT_MAX, "delay", link.delay, span, problems);
    at_most(WAIT_MAX, "jitter", link.jitter, span, problems);
    let table = &link.jitter_quantiles;
    if !table.is_empty() && !link.jitter.is_zero() {
        let help = "keep `jitter`, or `jitter_quantiles` if jitter was measured";
        problems.rule(keys.at("jitter_quantiles"), "`jitter` and `jitter_quantiles` exclude each other", Some(help));
    }
    if table.windows(2).any(|pair| pair[1] < pair[0]) {
        let help = "write them from the smallest to the largest";
        problems.rule(keys.at("jitter_quantiles"), "`jitter_quantiles` does not ascend", Some(help));
    }
    if let Some(last) = table.last() {
        at_most(WAIT_MAX, "jitter_quantiles", *last, keys.at("jitter_quantiles"), problems);
    }
}

fn rates(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    let given = [link.rate.is_some(), link.rate_trace.is_some(), !link.rate_steps.is_empty()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        let at = if link.rate_trace.is_some() { "rate_trace" } else { "rate_steps" };
        problems.rule(
            keys.at(at),
            "a link has one of `rate`, `rate_trace` and `rate_steps`",
            Some("leave the others out"),
        );
    }
    if keys.has("rate_steps") && link.rate_steps.is_empty() {
        problems.rule(keys.at("rate_steps"), "`rate_steps` has no row", Some("write `[[\"0s\", \"20Mbit/s\"]]`"));
    }
    let wrong = (1..=link.rate_steps.len()).find_map(|n| trace::order(&link.rate_steps[..n]).err());
    if let Some(why) = wrong {
        let help = "write the rows in the order of time, the first at `0s`";
        problems.rule(keys.at("rate_steps"), format!("`rate_steps`: {why}"), Some(help));
    }
}

fn losses(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    let Some(bursts) = link.gilbert_elliott else { return };
    let at = keys.at("gilbert_elliott");
    if link.loss.0 > 0.0 {
        problems.rule(at, "`loss` and `gilbert_elliott` exclude each other", Some("leave `loss` out"));
    }
    if bursts.end.0 == 0.0 {
        let help = "write the probability that a burst ends with a packet: `end = \"20%\"` makes bursts of five";
        problems.rule(at, "`end` must be above zero, or the first burst would never end", Some(help));
    }
}

fn queues(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    if let Some(codel) = link.codel {
        let at = keys.at("codel");
        if codel.target.is_zero() || codel.interval.is_zero() {
            problems.rule(at, "`target` and `interval` must be above zero", Some("`codel = {}` takes 5 ms and 100 ms"));
        } else if codel.target > codel.interval {
            problems.rule(at, "`target` is longer than `interval`", Some("`codel = {}` takes 5 ms and 100 ms"));
        }
    }
    if link.schedules() && !link.limits() {
        let at = if link.codel.is_some() { "codel" } else { "scheduler" };
        let reason = format!("`{at}` needs a rate: nothing waits where serialisation takes no time");
        problems.rule(keys.at(at), reason, Some("add `rate`"));
    }
    match (link.scheduler, link.classes.len()) {
        (Scheduler::Fifo, 0) => {}
        (Scheduler::Fifo, _) => {
            let help = "add `scheduler = \"priority\"` or `\"weighted\"`";
            problems.rule(keys.at("classes"), "`classes` needs a scheduler that tells them apart", Some(help));
        }
        (_, 0) => {
            let help = "add for instance `classes = [{ dscp = [\"EF\"] }, {}]`";
            problems.rule(keys.at("scheduler"), "`scheduler` has no `classes` to choose from", Some(help));
        }
        (_, n) if n > CLASSES_MAX => {
            problems.rule(
                keys.at("classes"),
                format!("there are {n} classes, at most {CLASSES_MAX} are possible"),
                None,
            );
        }
        _ => twice(link, keys.at("classes"), problems),
    }
}

fn weights(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    let wrong = link.classes.iter().map(|class| class.weight).find(|weight| !(1..=WEIGHT_MAX).contains(weight));
    if let Some(weight) = wrong {
        let reason = format!("`weight`: {weight} is out of range: it must be from 1 to {WEIGHT_MAX}");
        let help = "a class that is only to have what others leave is the last one of `scheduler = \"priority\"`";
        problems.rule(keys.at("classes"), reason, Some(help));
    }
}

fn twice(link: &LinkSpec, at: &std::ops::Range<usize>, problems: &mut Problems<'_>) {
    let mut seen: BTreeMap<Dscp, usize> = BTreeMap::new();
    for dscp in link.classes.iter().flat_map(|class| &class.dscp) {
        *seen.entry(*dscp).or_default() += 1;
    }
    for (dscp, _) in seen.into_iter().filter(|(_, times)| *times > 1) {
        problems.rule(at, format!("`{dscp}` is in two classes"), Some("leave it in one of them"));
    }
}

fn cell(LinkDraft { link, keys, .. }: &LinkDraft, problems: &mut Problems<'_>) {
    if !keys.has("members") {
        return;
    }
    let at = keys.at("members");
    if link.name == DEFAULT_LINK || pair(&link.name).is_some() {
        let help = "give the cell a table of its own: `[links.cell]` with `members = [\"camera->receiver\"]`";
        return problems.rule(at, format!("`{}` is a link of its own and has no `members`", link.name), Some(help));
    }
    if link.members.is_empty() {
        problems.rule(at, "`members` names no pair", Some("write `members = [\"camera->receiver\"]`"));
    }
    for member in link.members.iter().filter(|member| pair(member).is_none()) {
        let help = "write `\"from->to\"` with two names of nodes";
        problems.rule(at, format!("`{member}` does not name the two ends of a link"), Some(help));
    }
    if !link.limits() {
        problems.rule(at, "a link without a rate has nothing that its members could share", Some("add `rate`"));
    }
}
