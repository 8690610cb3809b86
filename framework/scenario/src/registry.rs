//! The kinds of actor that an experiment may name, and the JSON Schemas of every table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rehearsal_core::kind::{Build, Decoded, Kind, Role};
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::sender::SenderParams;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use crate::mix::MixTable;
use crate::read::ACTORS;
use crate::shape::Shape;
use crate::tables::{ActorTable, ExperimentTable, HostTable, NodeTable, ProvisionTable};
use crate::threshold::ThresholdTable;
use crate::verdict::VerdictTable;

/// The kinds an experiment may name. One line per kind, in the binary.
#[derive(Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, KindEntry>,
}

/// A kind as the registry knows it.
#[derive(Clone, Copy)]
pub struct KindEntry {
    /// The word after `kind =`.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// What it does.
    pub role: Role,
    schema: fn(&mut SchemaGenerator) -> Schema,
    decode: fn(Spanned<DeValue<'_>>) -> Result<OwnParams, toml::de::Error>,
    decode_again: fn(toml::Table) -> Result<OwnParams, toml::de::Error>,
}

/// A kind's own keys, decoded: ready to build, and as they are written in a resolved file.
#[derive(Clone, Debug)]
pub(crate) struct OwnParams {
    pub(crate) build: Arc<dyn Build>,
    pub(crate) table: toml::Table,
}

impl Registry {
    /// No kinds at all.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a kind.
    ///
    /// # Panics
    /// If the name is taken, or one of a sender's own keys is a common sender key: both are mistakes in the program.
    #[must_use]
    pub fn with<K: Kind>(mut self) -> Self {
        let schema = |generator: &mut SchemaGenerator| K::Params::json_schema(generator);
        let (decode, decode_again) = (decode::<K>, decode_again::<K>);
        let entry = KindEntry { name: K::NAME, summary: K::SUMMARY, role: K::ROLE, schema, decode, decode_again };
        assert!(self.kinds.insert(K::NAME, entry).is_none(), "two kinds are called `{}`", K::NAME);
        let catalogue = Catalogue::new(&self);
        let common = catalogue.common(K::ROLE);
        for key in catalogue.own(K::NAME).keys() {
            assert!(common.iter().all(|shape| shape.property(key).is_none()), "`{}` has a common key `{key}`", K::NAME);
        }
        self
    }

    /// The kinds in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> {
        self.kinds.values()
    }

    /// The kind of that name.
    pub fn get(&self, name: &str) -> Option<&KindEntry> {
        self.kinds.get(name)
    }
}

impl KindEntry {
    /// Decodes the kind's own keys.
    pub(crate) fn decode(&self, table: Spanned<DeValue<'_>>) -> Result<OwnParams, toml::de::Error> {
        (self.decode)(table)
    }

    /// Decodes the kind's own keys once they have changed.
    pub(crate) fn decode_again(&self, table: toml::Table) -> Result<OwnParams, toml::de::Error> {
        (self.decode_again)(table)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds.keys()).finish()
    }
}

fn decode<K: Kind>(table: Spanned<DeValue<'_>>) -> Result<OwnParams, toml::de::Error> {
    let params = K::Params::deserialize(ValueDeserializer::from(table))?;
    let table = toml::Table::try_from(&params).map_err(toml::de::Error::custom)?;
    Ok(OwnParams { build: Arc::new(Decoded::<K>(params)), table })
}

fn decode_again<K: Kind>(table: toml::Table) -> Result<OwnParams, toml::de::Error> {
    let params: K::Params = table.try_into()?;
    let table = toml::Table::try_from(&params).map_err(toml::de::Error::custom)?;
    Ok(OwnParams { build: Arc::new(Decoded::<K>(params)), table })
}

/// The JSON Schemas of every table, with one set of definitions.
#[derive(Debug)]
pub(crate) struct Catalogue {
    experiment: Value,
    host: Value,
    provision: Value,
    mix: Value,
    verdict: Value,
    threshold: Value,
    node: Value,
    link: Value,
    actor: Value,
    sender: Value,
    own: BTreeMap<&'static str, Value>,
    definitions: Map<String, Value>,
}

impl Catalogue {
    pub(crate) fn new(registry: &Registry) -> Self {
        let mut generator = SchemaSettings::draft07().into_generator();
        let g = &mut generator;
        let experiment = ExperimentTable::json_schema(g).to_value();
        let host = HostTable::json_schema(g).to_value();
        let provision = ProvisionTable::json_schema(g).to_value();
        let mix = MixTable::json_schema(g).to_value();
        let verdict = VerdictTable::json_schema(g).to_value();
        let threshold = ThresholdTable::json_schema(g).to_value();
        let mut node = NodeTable::json_schema(g).to_value();
        // actors are read one by one, each by its kind; the key is known all the same
        node["properties"][ACTORS] = serde_json::json!({ "type": "object" });
        let link = LinkSpec::json_schema(g).to_value();
        let actor = ActorTable::json_schema(g).to_value();
        let sender = SenderParams::json_schema(g).to_value();
        let own = registry.kinds().map(|kind| (kind.name, (kind.schema)(g).to_value())).collect();
        let definitions = generator.take_definitions(true).into_iter().collect();
        Catalogue { experiment, host, provision, mix, verdict, threshold, node, link, actor, sender, own, definitions }
    }

    fn shape<'a>(&'a self, schema: &'a Value) -> Shape<'a> {
        Shape::new(schema, &self.definitions)
    }

    pub(crate) fn experiment(&self) -> Shape<'_> {
        self.shape(&self.experiment)
    }

    pub(crate) fn host(&self) -> Shape<'_> {
        self.shape(&self.host)
    }

    pub(crate) fn mix(&self) -> Shape<'_> {
        self.shape(&self.mix)
    }

    pub(crate) fn provision(&self) -> Shape<'_> {
        self.shape(&self.provision)
    }

    pub(crate) fn threshold(&self) -> Shape<'_> {
        self.shape(&self.threshold)
    }

    pub(crate) fn verdict(&self) -> Shape<'_> {
        self.shape(&self.verdict)
    }

    pub(crate) fn node(&self) -> Shape<'_> {
        self.shape(&self.node)
    }

    pub(crate) fn link(&self) -> Shape<'_> {
        self.shape(&self.link)
    }

    pub(crate) fn actor(&self) -> Shape<'_> {
        self.shape(&self.actor)
    }

    pub(crate) fn sender(&self) -> Shape<'_> {
        self.shape(&self.sender)
    }

    /// The keys that actors of a role share.
    pub(crate) fn common(&self, role: Role) -> Vec<Shape<'_>> {
        let sender = (role == Role::Sender).then(|| self.sender());
        std::iter::once(self.actor()).chain(sender).collect()
    }

    /// A kind's own keys. The kind is one of the registry's.
    pub(crate) fn own(&self, kind: &str) -> Shape<'_> {
        self.shape(&self.own[kind])
    }

    /// The definitions that the schemas refer to.
    pub(crate) fn definitions(&self) -> &Map<String, Value> {
        &self.definitions
    }
}
