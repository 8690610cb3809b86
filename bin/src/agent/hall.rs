//! Who holds what of a host, and what becomes of each request.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use rehearsal_bus::fleet::Files;
use rehearsal_bus::nats::ConnectSettings;
use rehearsal_core::fleet::{
    Calibrate, Calibrating, Card, Collect, Collected, Done, Halt, Launch, Refusal, Relaunch, Release, Reserve,
    Standing, Step, Watch,
};
use rehearsal_core::{Body, Message};
use rehearsal_host::cgroup::Cgroups;

use super::booking::{Booking, Stage};
use super::cache::Cache;
use super::measuring::Measuring;
use super::offer::Offer;
use super::policy::{Load, Policy};

/// Runs that may hold something at once.
const RUNS_MAX: usize = 32;
/// Nodes that may be reserved at once, in all.
const NODES_MAX: usize = 512;
/// Between two looks at whether a launch that was asked for twice is through.
const LOOK: Duration = Duration::from_millis(20);
/// How long a launch may take, files included.
const LAUNCH: Duration = Duration::from_secs(120);

/// What an agent knows.
pub(super) struct Hall {
    offer: Card,
    policy: Policy,
    children: ConnectSettings,
    files: Files,
    cache: Cache,
    groups: Option<Cgroups>,
    runs: BTreeMap<String, Booking>,
    /// The last calibration that was asked for.
    measuring: Option<Measuring>,
}

impl Hall {
    pub(super) fn new(offer: Offer, children: ConnectSettings, files: Files) -> Hall {
        let Offer { card, policy, cache, groups } = offer;
        Hall { offer: card, policy, children, files, cache, groups, runs: BTreeMap::new(), measuring: None }
    }

    /// The card as of now.
    pub(super) fn card(&self) -> Card {
        Card { held: self.runs.values().map(Booking::held).collect(), ..self.offer.clone() }
    }

    /// Time passes: `by` at most, however long this process was held up. A run whose leader is silent is ended.
    pub(super) fn tick(&mut self, by: Duration) {
        let over: Vec<String> =
            self.runs.iter_mut().filter_map(|(run, booking)| booking.tick(by).then(|| run.clone())).collect();
        for run in over {
            eprintln!("run {run}: its leader is silent; its nodes are ended");
            self.runs.remove(&run);
        }
        if self.measuring.as_mut().is_some_and(|measuring| measuring.tick(by)) {
            self.measuring = None;
        }
    }

    /// Ends everything.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.measuring = None;
    }

    /// Holds what a run needs, or renews its lease.
    fn reserve(&mut self, asked: &Reserve) -> Result<(), String> {
        if let Some(booking) = self.runs.get_mut(&asked.run) {
            return booking.renew_for(asked);
        }
        if let Some(measuring) = self.measured() {
            return Err(format!("its host is being calibrated for {}; try again in some minutes", measuring.leader()));
        }
        rehearsal_core::subject::check_token(&asked.run).map_err(|why| format!("the run's token: {why}"))?;
        let nodes: usize = self.runs.values().map(|b| b.held().nodes.len()).sum();
        if self.runs.len() >= RUNS_MAX || nodes + asked.nodes.len() > NODES_MAX {
            return Err(format!("at most {RUNS_MAX} runs and {NODES_MAX} nodes at once; {}", self.holders()));
        }
        let (vcpu, memory) = self.card().free();
        let booking = Booking::new(asked, self.cache.folder(&asked.run));
        let needs = booking.held();
        if needs.vcpu > vcpu + 1e-9 {
            return Err(format!(
                "{} vCPU are needed, {vcpu} of {} are free; {}",
                needs.vcpu,
                self.offer.cores,
                self.holders()
            ));
        }
        if needs.memory > memory {
            let all = self.offer.memory;
            return Err(format!(
                "{} of memory are needed, {memory} of {all} are free; {}",
                needs.memory,
                self.holders()
            ));
        }
        self.runs.insert(asked.run.clone(), booking);
        Ok(())
    }

    /// Begins a calibration of this host, or tells how it stands.
    fn calibrate(&mut self, asked: &Calibrate) -> Result<Calibrating, String> {
        if let Some(measuring) = self.measuring.as_mut().filter(|measuring| measuring.is(&asked.order)) {
            return Ok(measuring.renewed());
        }
        if let Some(measuring) = self.measured() {
            return Err(format!("{} calibrates it already", measuring.leader()));
        }
        if !self.runs.is_empty() {
            return Err(format!("a host that is calibrated does nothing else; {}", self.holders()));
        }
        if self.offer.rate_max.is_some() || self.offer.bit_rate_max.is_some() {
            let why = "its operator bounds the load with --rate-max or --bit-rate-max, and a calibration offers as much as \
                       there can be; run `rehearsal calibrate` on the host itself";
            return Err(why.to_owned());
        }
        let measuring = self.measuring.insert(Measuring::begin(asked)?);
        Ok(measuring.renewed())
    }

    /// The calibration that goes on, if one does.
    fn measured(&mut self) -> Option<&mut Measuring> {
        let measuring = self.measuring.as_mut()?;
        measuring.goes_on().then_some(measuring)
    }

    /// Who holds what, in words.
    fn holders(&self) -> String {
        let each = self.runs.values().map(|booking| {
            let held = booking.held();
            format!("run {} of {} holds {} vCPU and {}", held.run, held.leader, held.vcpu, held.memory)
        });
        let all: Vec<String> = each.collect();
        if all.is_empty() { "nobody holds any".to_owned() } else { all.join(", ") }
    }

    fn booking(&mut self, run: &str) -> Result<&mut Booking, String> {
        self.runs.get_mut(run).ok_or_else(|| format!("nothing is reserved for run {run}"))
    }
}

/// Does what is asked for; the answer.
pub(super) async fn step(hall: &RefCell<Hall>, step: Step, question: &Body) -> Body {
    let done = match step {
        Step::Scan => Ok(Body::new(hall.borrow().card())),
        Step::Reserve => read::<Reserve>(question).and_then(|q| hall.borrow_mut().reserve(&q)).map(done),
        Step::Launch => match read::<Launch>(question) {
            Ok(asked) => launch(hall, asked).await.map(done),
            Err(why) => Err(why),
        },
        Step::Status => read::<Watch>(question).map(|q| Body::new(standing(hall, &q.run))),
        Step::Restart => read::<Relaunch>(question).and_then(|q| {
            let mut hall = hall.borrow_mut();
            hall.booking(&q.run)?.relaunch(&q.node, q.succession).map(done)
        }),
        Step::Stop => read::<Halt>(question).map(|q| {
            if let Ok(booking) = hall.borrow_mut().booking(&q.run) {
                booking.halt();
            }
            done(())
        }),
        Step::Collect => read::<Collect>(question).map(|q| Body::new(collected(hall, &q.run))),
        Step::Release => read::<Release>(question).map(|q| {
            // one that is not there is released already
            drop(hall.borrow_mut().runs.remove(&q.run));
            done(())
        }),
        Step::Calibrate => read::<Calibrate>(question).and_then(|q| hall.borrow_mut().calibrate(&q)).map(Body::new),
        Step::Clock => Err("the clock is read elsewhere".to_owned()),
    };
    done.unwrap_or_else(|reason| Body::new(Refusal { reason }))
}

fn done((): ()) -> Body {
    Body::new(Done {})
}

fn read<M: Message>(question: &Body) -> Result<M, String> {
    question.get::<M>().map(std::borrow::Cow::into_owned).map_err(|why| format!("the request is {why}"))
}

fn standing(hall: &RefCell<Hall>, run: &str) -> Standing {
    hall.borrow_mut().booking(run).map(Booking::standing).unwrap_or_default()
}

fn collected(hall: &RefCell<Hall>, run: &str) -> Collected {
    hall.borrow_mut().booking(run).map(|booking| booking.collected()).unwrap_or_default()
}

/// Starts a run's nodes. Whoever asks while that is under way gets the same answer.
async fn launch(hall: &RefCell<Hall>, asked: Launch) -> Result<(), String> {
    let begun = tokio::time::Instant::now();
    loop {
        match hall.borrow_mut().booking(&asked.run)?.stage() {
            Stage::Reserved => break,
            Stage::Running => return Ok(()),
            Stage::Failed(why) => return Err(why),
            Stage::Launching if begun.elapsed() > LAUNCH => return Err("launching takes too long".to_owned()),
            Stage::Launching => {}
        }
        tokio::time::sleep(LOOK).await;
    }
    hall.borrow_mut().booking(&asked.run)?.set(Stage::Launching);
    let (files, cache) = (hall.borrow().files.clone(), hall.borrow().cache.clone());
    let fetched = tokio::time::timeout(LAUNCH, cache.bring(&files, &asked.run, &asked.files)).await;
    let fetched = fetched.unwrap_or_else(|_| Err("its files did not come in time".to_owned()));
    let mut hall = hall.borrow_mut();
    let Hall { offer, policy, children, groups, runs, .. } = &mut *hall;
    let others = runs
        .values()
        .map(Booking::load)
        .fold(Load::default(), |sum, load| Load { rate: sum.rate + load.rate, bits: sum.bits + load.bits });
    let Some(booking) = runs.get_mut(&asked.run) else {
        // its folder was made after it was let go
        let _ = std::fs::remove_dir_all(cache.folder(&asked.run));
        return Err("it was released meanwhile".to_owned());
    };
    let launched = fetched.and_then(|()| booking.launch(&asked, offer, policy, children, groups.clone(), others));
    booking.set(match &launched {
        Ok(()) => Stage::Running,
        Err(why) => Stage::Failed(why.clone()),
    });
    launched
}
