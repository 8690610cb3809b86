//! Targets outside of the experiment, before the start: where their names lead, and which of the addresses is used.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use rehearsal_core::plan::{LinkSpec, Plan};
use rehearsal_scenario::{Experiment, OutsideSpec};

use crate::exit::Refused;

/// How long a name may take to be looked up. Assumed: the resolver's own two tries of five seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks up every target outside, once; their addresses stay the same for all repetitions.
///
/// # Errors
/// When a name leads nowhere.
pub fn find(experiment: &mut Experiment) -> Result<(), Refused> {
    for outside in &mut experiment.outside {
        outside.addresses = addresses(outside)?;
        // addresses of both families are tried in the resolver's order (RFC 6724)
        outside.address = outside.addresses.first().copied();
    }
    Ok(())
}

/// What a reader of a real run must know of its targets outside: whose certificates nobody checked, and who tells nothing of
/// what arrives.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    for node in &plan.nodes {
        let Some(outside) = &node.outside else { continue };
        let links: Vec<&LinkSpec> =
            plan.routes.iter().filter(|(_, to, _)| *to == node.template).map(|(.., row)| &plan.links[*row]).collect();
        let origin = &outside.origin;
        if links.iter().any(|link| link.is_encrypted() && link.tls.as_ref().is_some_and(|tls| tls.insecure)) {
            notes.push(format!("{origin} could show any certificate (`insecure`): who answered is not known"));
        }
        if links.iter().any(|link| !link.is_exchange()) {
            notes.push(format!(
                "{origin} confirms nothing: what left for it counts as a success, whether it arrived or not"
            ));
        }
    }
    notes
}

fn addresses(outside: &OutsideSpec) -> Result<Vec<SocketAddr>, Refused> {
    if let Some(address) = outside.url.literal() {
        return Ok(vec![address]);
    }
    let (host, port) = (outside.url.host.clone(), outside.url.port);
    let (told, heard) = sync_channel(1);
    // the resolver cannot be broken off: a thread that waits for it ends with the process
    thread::spawn(move || told.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter)));
    let origin = outside.url.origin();
    let refused = |why: &str| Refused(format!("{origin} is nowhere: {why}; check the name, or write an address"));
    match heard.recv_timeout(PATIENCE) {
        Ok(Ok(found)) if found.is_empty() => Err(refused("the name has no address")),
        Ok(Ok(mut found)) => {
            found.dedup();
            Ok(found)
        }
        Ok(Err(why)) => Err(refused(&why.to_string())),
        Err(_) => Err(refused("the resolver does not answer")),
    }
}
