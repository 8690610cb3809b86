//! Connections that senders here opened, by their ends and by what those agreed on.

use std::collections::BTreeMap;

use rehearsal_core::plan::{Carrier, Plan};
use rehearsal_core::run::ConnectionEnd;

use super::Shard;
use crate::tls::Agreed;

/// Their numbers: of all, and of those that were resumed.
#[derive(Default)]
pub(super) struct Dialled(BTreeMap<(usize, usize, Carrier, Option<Agreed>), u64>);

impl Dialled {
    /// What is told of them at the end.
    pub(super) fn ends(&self, plan: &Plan) -> Vec<ConnectionEnd> {
        let name = |row: usize| plan.nodes[row].template.clone();
        let end = |((from, to, carrier, agreed), n): (&(usize, usize, Carrier, Option<Agreed>), &u64)| {
            let bare = ConnectionEnd {
                from: name(*from),
                to: name(*to),
                carrier: *carrier,
                opened: *n,
                ..ConnectionEnd::default()
            };
            let Some(agreed) = agreed else { return bare };
            let (tls, cipher, alpn) = (agreed.version.to_owned(), agreed.cipher.clone(), agreed.alpn.clone());
            let (full, resumed) = if agreed.resumed { (0, *n) } else { (*n, 0) };
            ConnectionEnd { full, resumed, tls, cipher, alpn, ..bare }
        };
        ConnectionEnd::merge(self.0.iter().map(end).collect())
    }
}

impl Shard {
    /// A node here has opened a connection to another.
    pub(crate) fn opened(&mut self, node: usize, to: usize, carrier: Carrier, agreed: Option<Agreed>) {
        *self.state.dialled.0.entry((node, to, carrier, agreed)).or_default() += 1;
    }
}
