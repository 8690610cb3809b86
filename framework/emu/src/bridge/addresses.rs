//! Where receivers listen: told before traffic begins, and learnt as far as somebody here sends there and may.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rehearsal_core::messages::Addresses;
use rehearsal_core::subject::{Plane, subject};
use rehearsal_core::{ActorId, Body};

use serde_bytes::ByteBuf;

use super::Bridge;

impl Bridge {
    /// Where the receivers of this process listen, by their own subjects.
    pub(super) fn addresses_here(&self) -> Addresses {
        let name = |actor: ActorId| {
            let (node, actor) = self.world.names(actor.0);
            subject(&self.world.plan.info.run, Plane::Traffic, node, &actor, "")
        };
        let here = self.world.addresses.iter().filter(|(actor, _)| self.world.is_local(self.world.group_of(actor.0)));
        let authorities = self.world.trust.authority().map(ByteBuf::from).into_iter().collect();
        Addresses { listen: here.map(|(actor, address)| (name(*actor), *address)).collect(), authorities }
    }

    /// The controller is about to start the run: by now every node has told where it listens.
    pub(super) async fn tell_addresses(&self) {
        let mut all = self.addresses_here();
        all.listen.extend(self.heard.borrow().listen.clone());
        all.authorities.extend(self.heard.borrow().authorities.iter().cloned());
        let name = self.own("addresses");
        self.repeat.begin(&name, Body::new(all.clone()).to_wire(&self.header(&name)));
        self.repeat.say(&self.nats).await;
        self.learn(all);
    }

    /// Takes over where receivers elsewhere listen, as far as senders here aim at them and may send there.
    pub(super) fn learn(&self, all: Addresses) {
        self.world.trust.learn(all.authorities.into_iter().map(ByteBuf::into_vec));
        let mut known = BTreeMap::new();
        for (name, address) in all.listen {
            let Some(actor) = self.world.subjects.find(&name).and_then(|id| self.world.subjects.owner(id)) else {
                continue;
            };
            if !self.aims.contains(&actor) {
                continue;
            }
            if self.world.options.allows(address.ip()) {
                known.insert(actor, address);
            } else {
                self.heard.borrow_mut().refused.push(address);
            }
        }
        self.world.learn(known);
    }

    /// Addresses that others named and this process does not send to.
    pub(crate) fn refused(&self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.heard.borrow_mut().refused)
    }
}
