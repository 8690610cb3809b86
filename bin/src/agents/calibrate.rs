//! `rehearsal calibrate --nats URL`: each agent measures its own host and sends its calibration back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use rehearsal_bus::fleet::{FleetBus, FleetError};
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::Body;
use rehearsal_core::fleet::{Calibrate, Calibrating, Card, Step};

use super::{ANSWER, Base};
use crate::exit::Refused;
use crate::report::chain;

/// Between two questions how it stands: as often as a human wants to know.
const LOOK: Duration = Duration::from_secs(1);
/// Questions in a row that an agent may leave without an answer: its host is as busy as it can be.
const SILENT_MAX: u32 = 10;

/// What became of one agent's calibration: its file, or why there is none.
pub type Outcome = (String, Result<String, String>);

/// Asks every agent of the fleet. Agents on one host take turns, different hosts measure at the same time.
///
/// # Errors
/// When the server cannot be reached, there are no agents, or one has another version.
pub fn calibrate(settings: &ConnectSettings, order: &Calibrate, quiet: bool) -> Result<Vec<Outcome>> {
    let base = Base::open(settings, "calibrate", Duration::ZERO)?;
    let cards = base.scan()?;
    if cards.is_empty() {
        return Err(Refused("no agents; start some with `rehearsal agent --nats URL`".to_owned()).into());
    }
    let own = env!("CARGO_PKG_VERSION");
    if let Some(other) = cards.iter().find(|card| card.version != own) {
        let (agent, version) = (&other.agent, &other.version);
        let text = format!("agent `{agent}` is version {version}, this is {own}: install one version on all");
        return Err(Refused(text).into());
    }
    let (bus, order) = (base.bus(), order.clone());
    base.wait(async move {
        let hosts = by_host(cards).into_values().map(|agents| {
            let (bus, order) = (bus.clone(), order.clone());
            async move {
                let mut outcomes = Vec::new();
                for agent in agents {
                    let outcome = one(&bus, &agent, &order, quiet).await;
                    outcomes.push((agent, outcome));
                }
                outcomes
            }
        });
        let mut all: Vec<Outcome> = join_all(hosts).await.into_iter().flatten().collect();
        all.sort();
        all
    })
}

/// Agents by the kernel that they run on.
fn by_host(cards: Vec<Card>) -> BTreeMap<String, Vec<String>> {
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for card in cards {
        hosts.entry(card.clock.id).or_default().push(card.agent);
    }
    hosts
}

async fn one(bus: &FleetBus, agent: &str, order: &Calibrate, quiet: bool) -> Result<String, String> {
    let (mut last, mut silent) = (String::new(), 0);
    loop {
        match bus.ask::<Calibrating>(agent, Step::Calibrate, &Body::new(order.clone()), ANSWER).await {
            Ok(Calibrating::Measured { file }) => return Ok(file),
            Ok(Calibrating::Failed { reason }) => return Err(reason),
            Ok(Calibrating::Measures { said }) => {
                silent = 0;
                if !quiet && said != last {
                    eprintln!("{agent}: {said}");
                }
                last = said;
            }
            Err(FleetError::Silent { .. }) if silent < SILENT_MAX => silent += 1,
            Err(why) => return Err(chain(&why)),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The file of an agent: `lab.toml` becomes `lab-AGENT.toml`.
pub fn named(out: &Path, agent: &str) -> PathBuf {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    let ending = out.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    out.with_file_name(format!("{stem}-{agent}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_a_file_of_its_own() {
        assert_eq!(named(Path::new("x/lab.toml"), "pi-3"), Path::new("x/lab-pi-3.toml"));
        assert_eq!(named(Path::new("lab"), "a1"), Path::new("lab-a1"));
    }
}
