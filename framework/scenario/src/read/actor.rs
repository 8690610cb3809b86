//! Reads an actor: its table is split by key name into what all actors, all senders and its own kind understand.

use rehearsal_core::distribution::Distribution;
use rehearsal_core::kind::Role;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::units::{ByteRange, ByteSize};
use toml::de::{DeTable, DeValue};

use super::{Named, Reader};
use crate::check::{Table, article};
use crate::decode::{Keys, decode, decode_with, filtered};
use crate::draft::{ActorDraft, Entry};
use crate::error::Problem;
use crate::registry::KindEntry;
use crate::shape::Shape;
use crate::suggest;
use crate::tables::ActorTable;

impl Reader<'_, '_> {
    /// The role, as soon as the kind is known, and the actor, if all its keys are good.
    pub(super) fn actor(&mut self, node: &str, named: &Named<'_, '_>) -> (Option<Role>, Option<ActorDraft>) {
        let label = format!("actor `{node}/{}`", named.name);
        let registry = self.registry;
        let Some(kind) = self.kind(named, &label).and_then(|name| registry.get(&name)) else {
            return (None, None);
        };
        let own = self.catalogue.own(kind.name);
        let mut shapes = self.catalogue.common(kind.role);
        shapes.push(own);
        let written = self.without_sender_keys(named, kind, &shapes);
        let bad = Table { name: &label, table: &written, span: &named.table_span }.check(&shapes, self.problems);
        let half = |shape: Shape<'_>| filtered(&written, |key| shape.property(key).is_some());
        let span = &named.table_span;
        let actor: Option<ActorTable> = decode(&half(self.catalogue.actor()), span, &bad, self.problems);
        let mut sender: Option<SenderParams> = None;
        if kind.role == Role::Sender {
            sender = decode(&half(self.catalogue.sender()), span, &bad, self.problems);
        }
        let own_half = half(own);
        let params = decode_with(&own_half, span, &bad, self.problems, |value| kind.decode(value));
        let said = params.as_ref().map(|params| params.build.check()).unwrap_or_default();
        crate::model::complain(named.table, span, &said, self.problems);
        let params = params.filter(|_| said.is_empty());
        let (Some(actor), Some(params), true) = (actor, params, kind.role != Role::Sender || sender.is_some()) else {
            return (Some(kind.role), None);
        };
        let keys = Keys::of(named.table, span.clone());
        let request_bytes = sender.as_ref().and_then(|_| request_bytes(own, &params.table));
        let actor = Entry { name: named.name.to_owned(), span: named.span.clone(), table: actor, keys };
        (
            Some(kind.role),
            Some(ActorDraft { actor, kind: kind.name, role: kind.role, sender, own: params, request_bytes }),
        )
    }

    /// The name of the actor's kind, if it is one that is known.
    fn kind(&mut self, named: &Named<'_, '_>, label: &str) -> Option<String> {
        let known = self.registry.kinds().map(|kind| kind.name);
        let Some(value) = named.table.get("kind") else {
            let problem = Problem::MissingKey { key: "kind".into(), table: label.to_owned() };
            self.problems.helped(&named.table_span, problem, suggest::help("", known));
            return None;
        };
        let DeValue::String(name) = value.get_ref() else {
            let reason = format!("this is {}, not text", article(value.get_ref()));
            self.problems.at(&value.span(), Problem::Value { key: "kind".into(), reason });
            return None;
        };
        if self.registry.get(name).is_none() {
            let problem = Problem::Unknown { what: "kind", name: name.to_string() };
            self.problems.helped(&value.span(), problem, suggest::help(name, known));
            return None;
        }
        Some(name.to_string())
    }

    /// The table without senders' keys on an actor that does not send: those deserve a better answer than "unknown".
    fn without_sender_keys<'i>(
        &mut self,
        named: &Named<'_, 'i>,
        kind: &KindEntry,
        shapes: &[Shape<'_>],
    ) -> DeTable<'i> {
        let misplaced = |name: &str| {
            let understood = shapes.iter().any(|shape| shape.property(name).is_some());
            !understood && self.catalogue.sender().property(name).is_some()
        };
        for key in named.table.keys().filter(|key| misplaced(key.get_ref())) {
            let reason = format!(
                "only senders have the key `{}`, and a `{}` sends nothing of its own",
                key.get_ref(),
                kind.name
            );
            self.problems.rule(&key.span(), reason, Some("take the line away"));
        }
        filtered(named.table, |key| !misplaced(key))
    }
}

/// Bytes of one request: a sender whose own keys hold exactly one size is taken to send requests of that size, one that
/// draws its sizes requests within their bounds.
fn request_bytes(own: Shape<'_>, table: &toml::Table) -> Option<ByteRange> {
    let is_drawn = |key: &&str| own.property(key).and_then(Shape::definition) == Some("DistributionOfSize");
    if let Some(drawn) = own.keys().filter(is_drawn).find_map(|key| table.get(key)) {
        let law = drawn.clone().try_into::<Distribution<ByteSize>>().ok()?.law().ok()?;
        let (min, max) = law.bounds();
        return max
            .is_finite()
            .then(|| ByteRange { min: ByteSize(min.floor() as u64), max: ByteSize(max.ceil() as u64) });
    }
    let is_size = |key: &&str| matches!(own.property(key).and_then(Shape::definition), Some("Size" | "SizeRange"));
    let mut sizes = own.keys().filter(is_size);
    let (key, None) = (sizes.next()?, sizes.next()) else { return None };
    let text = table.get(key)?.as_str()?;
    text.parse::<ByteRange>().ok().or_else(|| text.parse::<ByteSize>().ok().map(|ByteSize(b)| ByteRange::exactly(b)))
}
