//! Whether the server lets everybody do what a run needs, asked before anything is written. Later the server only tells
//! it beside the deed, in the middle of the run.

use std::time::Duration;

use anyhow::Result;
use rehearsal_bus::nats::{ConnectSettings, Nats, NatsError};
use rehearsal_core::plan::{NodePlan, Plan};
use rehearsal_core::subject::{HOST, PREFIX, Plane, subject};

use crate::exit::Refused;
use crate::node::Orders;
use crate::report::chain;

/// Last token of what is published to see whether it is permitted. Nobody listens for it.
const PROBE: &str = "permitted";
/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries what this process and those with these orders will do in the run of `plan`.
///
/// # Errors
/// The refusal, with the user, the subject and the remedy.
pub fn check(plan: &Plan, own: &ConnectSettings, orders: &Orders) -> Result<()> {
    let here = plan.nodes.iter().find(|node| node.local);
    let there = plan.nodes.iter().find(|node| !node.local && node.measured && !node.foreign);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if let Some(node) = here {
            try_all(own, &orders.run, node, &[Plane::Control, Plane::Telemetry]).await?;
        }
        if let Some(node) = there {
            try_all(&orders.nats, &orders.run, node, &[Plane::Control]).await?;
        }
        Ok(())
    })
}

/// Hears `planes` of the run, and speaks in the name of `node`.
async fn try_all(settings: &ConnectSettings, run: &str, node: &NodePlan, planes: &[Plane]) -> Result<(), Refused> {
    let refused = |why: NatsError| match settings.user() {
        Some(user) => Refused(format!("as user `{user}`: {}", chain(&why))),
        None => Refused(chain(&why)),
    };
    let (nats, _) = Nats::connect(settings, "rehearsal permits").await.map_err(refused)?;
    for plane in planes {
        nats.subscribe(&format!("{PREFIX}.{run}.{}.>", plane.token())).await.map_err(refused)?;
    }
    for plane in [Plane::Control, Plane::Telemetry] {
        let name = subject(run, plane, &node.name, HOST, PROBE);
        nats.publish(&name, bytes::Bytes::new()).await.map_err(refused)?;
    }
    nats.permitted(PATIENCE).await.map_err(refused)
}
