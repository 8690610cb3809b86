//! `rehearsal agent`: speaks for this host in a fleet. It announces what the host has, holds what runs reserve, starts their
//! nodes, and frees itself when their leader falls silent.
//!
//! ```text
//!  leader ── reserve, launch, status, … ──> Desk ──> Hall ──> Booking of a run ──> processes of its nodes
//!                                             bucket <── Card, renewed
//! ```
//!
//! All of it runs on one thread; only what a step has to wait for, such as a file, is waited for beside the others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rehearsal_bus::fleet::{CARD_RENEW, Call, Desk, FleetBus, FleetError};
use rehearsal_bus::nats::{Auth, ConnectSettings, Nats, NatsError};
use rehearsal_core::Body;
use rehearsal_core::fleet::{Card, Scan, Step};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli;
use crate::exit::{Refused, UsageError};
use crate::report::chain;

mod booking;
mod cache;
mod hall;
mod measuring;
mod offer;
mod policy;

use hall::Hall;
use offer::Offer;
pub use offer::clock_id;

/// How long the server may take to come. Assumed: what starts with a host, or in the same script, is there by then.
const SERVER: Duration = Duration::from_secs(30);
/// Between two looks at leases and processes.
const TICK: Duration = Duration::from_millis(500);
/// How long another agent of the same name may take to say that it is there.
const NAMESAKE: Duration = Duration::from_millis(500);
/// How long the bucket may take to answer.
const BUCKET: Duration = Duration::from_secs(1);

/// What is in every refusal of a server.
const FORBIDDEN: &str = "does not permit this user";

/// Runs the verb until a signal ends it.
///
/// # Errors
/// When the flags cannot be used, or the server not be reached.
pub fn agent(args: &cli::Agent) -> Result<ExitCode> {
    let Some(settings) = args.nats.settings()? else {
        let why = "--nats URL is needed: an agent is found through a NATS server that leaders reach too";
        return Err(UsageError(why.to_owned()).into());
    };
    let offer = Offer::new(args)?;
    let children = args.nodes.settings(&settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let name = format!("rehearsal agent {}", offer.card.agent);
        let waits = |why: &NatsError| eprintln!("waits {} s for the NATS server: {}", SERVER.as_secs(), chain(why));
        let connected = Nats::connect_within(&settings, &name, SERVER, waits).await;
        let (nats, _) = connected.map_err(|why| Refused(chain(&why)))?;
        let (bus, desk) = open(&nats, &offer.card).await.map_err(|why| named_otherwise(why, &settings, &offer.card))?;
        let files = bus.files().await.map_err(|why| Refused(chain(&why)))?;
        eprintln!("agent {} at {}: {}", offer.card.agent, settings.shown(), offer.words());
        let hall = Rc::new(RefCell::new(Hall::new(offer, children, files)));
        serve(&bus, desk, &hall).await
    })
}

/// On a server that keeps agents apart each one's name is its user's.
fn named_otherwise(why: Refused, settings: &ConnectSettings, card: &Card) -> Refused {
    let Auth::User { name, .. } = &settings.auth else { return why };
    if *name == card.agent || !why.0.contains(FORBIDDEN) {
        return why;
    }
    Refused(format!(
        "{}; this agent is named `{}`: if its name is its user's there, give --name {name}",
        why.0, card.agent
    ))
}

/// Makes sure that the name is free, and listens under it.
async fn open(nats: &Nats, card: &Card) -> Result<(FleetBus, Desk), Refused> {
    let refused = |why: FleetError| Refused(chain(&why));
    let bus = FleetBus::open(nats, &card.agent).await.map_err(refused)?;
    let namesake = bus.ask::<Card>(&card.agent, Step::Scan, &Body::new(Scan {}), NAMESAKE).await;
    // a server that keeps agents apart does not let one ask under another's name
    nats.permitted(BUCKET).await.map_err(|why| Refused(chain(&why)))?;
    if !matches!(namesake, Err(FleetError::Gone { .. })) {
        let why = format!("an agent `{}` is there already; give this one another --name", card.agent);
        return Err(Refused(why));
    }
    let metadata = HashMap::from([
        ("name".to_owned(), card.agent.clone()),
        ("cores".to_owned(), card.cores.to_string()),
        ("memory".to_owned(), card.memory.to_string()),
        ("address".to_owned(), card.address.to_string()),
        ("labels".to_owned(), offer::labels(&card.labels)),
    ]);
    let desk = Desk::open(nats, &card.agent, &card.version, metadata).await.map_err(refused)?;
    let announced = bus.announce(card).await;
    // where both are told, the server's refusal says more
    nats.permitted(BUCKET).await.map_err(|why| Refused(chain(&why)))?;
    announced.map_err(refused)?;
    Ok((bus, desk))
}

/// Answers requests, renews the card and looks after leases until a signal comes.
async fn serve(bus: &FleetBus, mut desk: Desk, hall: &Rc<RefCell<Hall>>) -> Result<ExitCode> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let (mut next, mut announced) = (Instant::now() + TICK, Instant::now());
    loop {
        tokio::select! {
            call = desk.next() => match call {
                Some(call) => _ = tokio::task::spawn_local(answer(hall.clone(), call)),
                None => return Err(Refused("the NATS server closed the connection for good".to_owned()).into()),
            },
            () = sleep_until(next) => {
                // time in which this process was held up is nobody's silence
                next = Instant::now() + TICK;
                hall.borrow_mut().tick(TICK);
                if announced.elapsed() >= CARD_RENEW {
                    announced = Instant::now();
                    let (bus, card) = (bus.clone(), hall.borrow().card());
                    // a card that is not renewed expires, and the next one brings it back
                    tokio::task::spawn_local(async move { _ = timeout(BUCKET, bus.announce(&card)).await });
                }
            }
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    eprintln!("agent {}: ending", desk.agent());
    hall.borrow_mut().clear();
    // what is not taken away expires
    let _ = timeout(BUCKET, bus.withdraw(desk.agent())).await;
    Ok(ExitCode::SUCCESS)
}

async fn answer(hall: Rc<RefCell<Hall>>, call: Call) {
    let answer = hall::step(&hall, call.step, &call.question).await;
    call.answer(&answer).await;
}
