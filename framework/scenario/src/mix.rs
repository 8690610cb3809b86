//! `[mix]`: applications, how much of a link they load, how much of that is over TCP, and between which sites. The table becomes
//! nodes with populations and links, as if they had been written.
//!
//! How many users there are follows from the models' long run: share of the link's rate, by what one user is to it in bytes on
//! the wire. A link has one carrier, so a site is a node for TCP and one for UDP, and what both send shares one queue.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{LinkClass, Scheduler};
use rehearsal_core::time::Span;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};
use rehearsal_models::diagram::{Chain, load::Load};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::{DeArray, DeString, DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::decode::decode;
use crate::error::Problems;
use crate::model::Models;
use crate::read::ACTORS;

/// The table's name.
pub(crate) const MIX: &str = "mix";
/// Most sites. Assumed: 12 of them in balance are 132 pairs.
const SITES_MAX: u32 = 12;
/// Workers of the servers: their users wait for links, not for them.
const WORKERS: i64 = 10_000;

/// `[mix]`: a scenario of applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixTable {
    /// Rate of each link that is loaded.
    pub rate: BitRate,
    /// The share of it that all applications take together in the long run, by bytes on the wire.
    pub load: Fraction,
    /// The share of those bytes that is of applications over TCP; the rest is over UDP. Needed where there are both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Fraction>,
    /// Between which sites.
    #[serde(default)]
    pub matrix: Matrix,
    /// Sites. Of a bottleneck, those beside the centre.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 12))]
    pub sites: u32,
    /// Propagation of the links, one way; without it, as of `links.default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Bytes that may wait for a loaded link, in each class; without it, as of `links.default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<ByteSize>,
    /// Which class goes first; `fifo` is best effort, and `classes` then mean nothing.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// The classes of the scheduler, as of a link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<LinkClass>,
    /// The applications, by name.
    pub apps: BTreeMap<String, AppTable>,
}

/// An application of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppTable {
    /// A file with its diagram, relative to the experiment file. What waits for answers goes over TCP, packets over UDP.
    pub model: String,
    /// Its part of the bytes of its transport, beside the parts of others.
    #[serde(default = "unit")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub share: f64,
    /// The class of its traffic.
    #[serde(default, skip_serializing_if = "Dscp::is_default")]
    pub dscp: Dscp,
    /// Further keys of its populations, such as `{ timeout = "20s", mode = "individual" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actor: BTreeMap<String, serde_json::Value>,
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Matrix {
    /// Every site with every other, all links loaded alike.
    #[default]
    Balanced,
    /// All sites with one centre, whose one link to them is loaded.
    Bottleneck,
}

const fn two() -> u32 {
    2
}

const fn unit() -> f64 {
    1.0
}

/// An application with its users.
struct App<'m> {
    name: &'m str,
    table: &'m AppTable,
    tcp: bool,
    /// Between two sites.
    users: i64,
}

/// Puts nodes and links in place of the table, if there is one. `room` keeps their text.
pub(crate) fn expand<'i>(
    root: &mut DeTable<'i>,
    models: &Models,
    room: &'i OnceCell<String>,
    problems: &mut Problems<'_>,
) {
    let Some((_, value)) = root.remove_entry(MIX) else { return };
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        return problems.rule(&span, "`mix` is a table", Some("write `[mix]`"));
    };
    let Some(mix) = decode::<MixTable>(&table, &span, &BTreeSet::new(), problems) else { return };
    let at = |key: &str| table.get(key).map_or_else(|| span.clone(), Spanned::span);
    if let Err((key, reason)) = mix.check() {
        return problems.rule(&at(key), reason, None);
    }
    let Some(apps) = mix.solve(models, &at, problems) else { return };
    let text = toml::to_string(&mix.made(&apps)).expect("names, numbers and texts can all be written as TOML");
    let text = room.get_or_init(|| text);
    let Ok(made) = DeTable::parse(text) else { return };
    for (kind, entries) in placed(made.into_inner(), &span) {
        if !root.contains_key(kind.get_ref().as_ref()) {
            root.insert(kind.clone(), Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
        }
        let Some(DeValue::Table(all)) = root.get_mut(kind.get_ref().as_ref()).map(Spanned::get_mut) else { continue };
        let DeValue::Table(entries) = entries.into_inner() else { continue };
        for (name, entry) in entries {
            if let Some((known, _)) = all.get_key_value(name.get_ref().as_ref()) {
                let reason = format!("`{}` is there already: `[mix]` makes one of that name", name.get_ref());
                problems.rule(&known.span(), reason, Some("call yours otherwise"));
                continue;
            }
            all.insert(name, entry);
        }
    }
}

impl MixTable {
    /// What is wrong with it by itself: the key at fault, and why.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.apps.is_empty() {
            return Err(("apps", "a mix has an application: write `[mix.apps.web]` with a `model`".to_owned()));
        }
        if self.load.0 <= 0.0 {
            return Err(("load", "the load must be above 0%".to_owned()));
        }
        let least = if self.matrix == Matrix::Balanced { 2 } else { 1 };
        if !(least..=SITES_MAX).contains(&self.sites) {
            return Err(("sites", format!("there are {least} to {SITES_MAX} sites")));
        }
        if let Some((name, _)) = self.apps.iter().find(|(_, app)| !(app.share > 0.0 && app.share <= 1000.0)) {
            return Err(("apps", format!("application `{name}`: `share` must be above 0 and at most 1000")));
        }
        Ok(())
    }

    /// Ordered pairs of sites whose traffic one loaded link carries.
    fn pairs_of_a_link(&self) -> f64 {
        if self.matrix == Matrix::Balanced { 1.0 } else { f64::from(self.sites) }
    }

    /// How many users each application has between two sites.
    fn solve<'m>(
        &'m self,
        models: &Models,
        at: &dyn Fn(&str) -> Range<usize>,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<App<'m>>> {
        let mut loads = Vec::new();
        for (name, table) in &self.apps {
            match load(&table.model, models, problems) {
                Ok(load) => loads.push((name.as_str(), table, load)),
                Err(reason) => problems.rule(&at("apps"), format!("application `{name}`: {reason}"), None),
            }
        }
        if loads.len() < self.apps.len() {
            return None;
        }
        let is_tcp = |load: &Load| load.packets == 0.0;
        let parts =
            |tcp: bool| loads.iter().filter(move |(_, _, load)| is_tcp(load) == tcp).map(|(_, app, _)| app.share);
        let [of_tcp, of_udp] = [true, false].map(|tcp| parts(tcp).sum::<f64>());
        let tcp = match (self.tcp, of_tcp > 0.0, of_udp > 0.0) {
            (Some(share), true, true) => share.0,
            (None, true, true) => {
                let reason = "there are applications over TCP and over UDP: say how much of the bytes is over TCP";
                problems.rule(&at("apps"), reason, Some("write for instance `tcp = \"85%\"`"));
                return None;
            }
            (Some(share), true, false) if share.0 < 1.0 => return none(at, "UDP", problems),
            (Some(share), false, _) if share.0 > 0.0 => return none(at, "TCP", problems),
            (_, has_tcp, _) => f64::from(u8::from(has_tcp)),
        };
        let bytes = self.rate.0 as f64 / 8.0 * self.load.0 / self.pairs_of_a_link();
        let mut apps = Vec::new();
        for (name, table, load) in loads {
            let over_tcp = is_tcp(&load);
            let (share, all) = if over_tcp { (tcp, of_tcp) } else { (1.0 - tcp, of_udp) };
            // in balance the other way has as many requests as this way
            let each = if self.matrix == Matrix::Balanced { load.total() } else { load.answers + load.packets };
            let users = (bytes * share * table.share / all / each).round();
            if users < 1.0 && share > 0.0 {
                let reason = format!(
                    "application `{name}`: one user between two sites is more than its part of the load: raise `rate` or `load`, or have fewer sites"
                );
                problems.rule(&at("apps"), reason, None);
                return None;
            }
            // a float beyond i64 is held at its largest value by the conversion
            apps.push(App { name, table, tcp: over_tcp, users: users as i64 });
        }
        apps.retain(|app| app.users > 0);
        Some(apps)
    }

    /// The nodes and links.
    fn made(&self, apps: &[App<'_>]) -> Table {
        let (mut nodes, mut links) = (Table::new(), Table::new());
        let has = |tcp: bool| apps.iter().any(|app| app.tcp == tcp);
        let transports: Vec<bool> = [true, false].into_iter().filter(|tcp| has(*tcp)).collect();
        let sites: Vec<String> = (1..=self.sites).map(|n| n.to_string()).collect();
        let centre = "centre".to_owned();
        for tcp in &transports {
            // in a bottleneck users load from the centre, and packets go out from it
            let at_centre = self.matrix == Matrix::Bottleneck && *tcp;
            for site in if at_centre { std::slice::from_ref(&centre) } else { &sites[..] } {
                put(&mut nodes, &node(*tcp, site), receives(*tcp), receiver(*tcp));
            }
        }
        match self.matrix {
            Matrix::Balanced => {
                let pairs = sites.iter().flat_map(|a| sites.iter().map(move |b| (a, b))).filter(|(a, b)| a != b);
                for (from, to) in pairs {
                    apps.iter().for_each(|app| people(&mut nodes, app, from, to));
                    self.link(&mut links, &format!("pair-{from}-{to}"), &transports, &[(from, to)]);
                }
            }
            Matrix::Bottleneck => {
                for site in &sites {
                    for app in apps {
                        // answers and packets both go out from the centre
                        let (from, to) = if app.tcp { (site, &centre) } else { (&centre, site) };
                        people(&mut nodes, app, from, to);
                    }
                }
                let pairs: Vec<(&String, &String)> = sites.iter().map(|site| (&centre, site)).collect();
                self.link(&mut links, "bottleneck", &transports, &pairs);
                if has(true) {
                    for site in &sites {
                        let mut back = self.plain();
                        back.insert("carrier".to_owned(), "http1".into());
                        links.insert(format!("{}->{}", node(true, site), node(true, &centre)), Value::Table(back));
                    }
                }
            }
        }
        let mut root = Table::new();
        root.insert("nodes".to_owned(), Value::Table(nodes));
        root.insert("links".to_owned(), Value::Table(links));
        root
    }

    /// Keys of every link.
    fn plain(&self) -> Table {
        let mut link = Table::new();
        link.insert("impose".to_owned(), "userspace".into());
        if let Some(delay) = self.delay {
            link.insert("delay".to_owned(), delay.to_string().into());
        }
        link
    }

    /// A loaded link of that name: one queue for the pairs of sites, over both transports.
    fn link(&self, links: &mut Table, name: &str, transports: &[bool], pairs: &[(&String, &String)]) {
        let ends = |tcp: bool| pairs.iter().map(move |(from, to)| format!("{}->{}", node(tcp, from), node(tcp, to)));
        let carrier = |tcp: bool| Value::from(if tcp { "http1" } else { "udp" });
        let Some((first, others)) = transports.split_first() else { return };
        let mut cell = self.plain();
        cell.insert("carrier".to_owned(), carrier(*first));
        cell.insert("rate".to_owned(), self.rate.to_string().into());
        cell.insert("members".to_owned(), Value::Array(ends(*first).map(Value::from).collect()));
        if let Some(queue) = self.queue {
            cell.insert("queue".to_owned(), queue.to_string().into());
        }
        if self.scheduler != Scheduler::Fifo {
            cell.extend(written("scheduler", &self.scheduler));
            cell.extend(written("classes", &self.classes));
        }
        links.insert(name.to_owned(), Value::Table(cell));
        for end in others.iter().flat_map(|tcp| ends(*tcp)) {
            let mut link = Table::new();
            link.insert("carrier".to_owned(), carrier(false));
            link.insert("shares".to_owned(), name.into());
            links.insert(end, Value::Table(link));
        }
    }
}

/// What one user of a model is to links.
fn load(model: &str, models: &Models, problems: &mut Problems<'_>) -> Result<Load, String> {
    let diagram = models.diagram(model, problems)?;
    let chain = Chain::new(&diagram).map_err(|why| why.reason)?;
    let long = chain.stationary().ok_or("what its users offer in the long run cannot be told")?;
    let load = chain.load(&long);
    if load.packets > 0.0 && load.answers > 0.0 {
        return Err("it has packets and waits for answers too: a mix has one transport for each application".to_owned());
    }
    if load.total() > 0.0 { Ok(load) } else { Err("its users send nothing in the long run".to_owned()) }
}

/// `tcp` leaves a share to a transport that no application has.
fn none<'m>(at: &dyn Fn(&str) -> Range<usize>, what: &str, problems: &mut Problems<'_>) -> Option<Vec<App<'m>>> {
    let reason = format!("`tcp` leaves a share to applications over {what}, and there is none");
    problems.rule(&at("tcp"), reason, Some("add one, or leave `tcp` out"));
    None
}

/// The node of a site for one transport.
fn node(tcp: bool, site: &str) -> String {
    format!("{}-{site}", if tcp { "tcp" } else { "udp" })
}

/// An actor in a node, which may be a new one.
fn put(nodes: &mut Table, node: &str, name: &str, actor: Table) {
    let mut here = taken(nodes, node);
    let mut actors = taken(&mut here, ACTORS);
    actors.insert(name.to_owned(), Value::Table(actor));
    here.insert(ACTORS.to_owned(), Value::Table(actors));
    nodes.insert(node.to_owned(), Value::Table(here));
}

/// The table under a key, taken out; a new one if there is none.
fn taken(of: &mut Table, key: &str) -> Table {
    match of.remove(key) {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    }
}

fn receiver(tcp: bool) -> Table {
    let mut actor = Table::new();
    actor.insert("kind".to_owned(), "receiver".into());
    if tcp {
        actor.insert("workers".to_owned(), WORKERS.into());
    }
    actor
}

const fn receives(tcp: bool) -> &'static str {
    if tcp { "server" } else { "sink" }
}

/// The users of an application at one site who talk to another.
fn people(nodes: &mut Table, app: &App<'_>, from: &str, to: &str) {
    let mut actor = Table::new();
    actor.insert("kind".to_owned(), "population".into());
    actor.insert("to".to_owned(), format!("{}/{}", node(app.tcp, to), receives(app.tcp)).into());
    actor.insert("users".to_owned(), app.users.into());
    actor.insert("model".to_owned(), app.table.model.clone().into());
    if !app.table.dscp.is_default() {
        actor.extend(written("dscp", &app.table.dscp));
    }
    for (key, value) in &app.table.actor {
        actor.extend(written(key, value));
    }
    put(nodes, &node(app.tcp, from), &format!("{}-{to}", app.name), actor);
}

/// A key with its value as TOML; nothing if that has none, as `null`.
fn written<T: Serialize>(key: &str, value: &T) -> Option<(String, Value)> {
    Some((key.to_owned(), Value::try_from(value).ok()?))
}

/// Everything of a table at one place.
fn placed<'i>(table: DeTable<'i>, at: &Range<usize>) -> DeTable<'i> {
    let entry = |(key, value): (Spanned<DeString<'i>>, Spanned<DeValue<'i>>)| {
        (Spanned::new(at.clone(), key.into_inner()), at_place(value, at))
    };
    table.into_iter().map(entry).collect()
}

fn at_place<'i>(value: Spanned<DeValue<'i>>, at: &Range<usize>) -> Spanned<DeValue<'i>> {
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(placed(table, at)),
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|item| at_place(item, at)).collect::<DeArray<'i>>())
        }
        other => other,
    };
    Spanned::new(at.clone(), value)
}
