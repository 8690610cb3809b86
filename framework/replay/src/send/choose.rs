//! Which path: the one that was asked for, or the best that can be opened. What was tried and not taken is told.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use super::file::Capture;
use super::live::Live;
use super::packet::Packets;
use super::udp::Datagrams;
use super::xsk::Shared;
use super::{Fit, Kind, Path, features, wire};
use crate::sys::interface::Interface;
use crate::timing::Schedule;
use crate::worker::{Material, Spread};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Which path; `None`: the best one.
    pub path: Option<Kind>,
    /// Out of which interface.
    pub interface: Option<String>,
    /// For `udp`: to which address.
    pub to: Option<SocketAddr>,
    /// For `pcap`: into which file.
    pub write: Option<PathBuf>,
}

/// Why nothing can be sent.
#[derive(Debug, Error)]
pub enum ChooseError {
    /// Which interface?
    #[error("the path `{path}` needs an interface; write --interface NAME ({there})")]
    Interface {
        /// The path.
        path: &'static str,
        /// Which there are.
        there: String,
    },
    /// Not that one.
    #[error("there is no interface `{name}` ({there})")]
    Missing {
        /// Its name.
        name: String,
        /// Which there are.
        there: String,
    },
    /// It is switched off.
    #[error("the interface `{0}` is down; `ip link set {0} up` switches it on")]
    Down(String),
    /// Nothing is at its other end.
    #[error("the interface `{0}` is up but has no carrier: nothing is at its other end, or that is down")]
    Carrier(String),
    /// We may not.
    #[error(
        "sending frames needs the capability CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program; without, \
         `--path udp --to HOST:PORT` sends payloads of UDP and `--path pcap --write FILE` writes what would be sent"
    )]
    NotPermitted,
    /// Where to?
    #[error("the path `udp` needs an address; write --to HOST:PORT")]
    To,
    /// Into what?
    #[error("the path `pcap` needs a file; write --write FILE")]
    File,
    /// It cannot be had.
    #[error("the path `{path}` cannot be had on `{interface}`: {why}")]
    Unusable {
        /// The path.
        path: &'static str,
        /// The interface, address or file.
        interface: String,
        /// Why not, and what to do.
        why: String,
    },
    /// None of the packets fits.
    #[error(
        "none of the template's packets can be sent on `{0}`: all are longer than its MTU allows, or no whole frames"
    )]
    NothingFits(String),
}

/// A path for each worker.
pub struct Chosen {
    /// Which.
    pub kind: Kind,
    /// One for each worker.
    pub paths: Vec<Box<dyn Path>>,
    /// Its interface, if it has one.
    pub interface: Option<Interface>,
    /// What it takes.
    pub fit: Fit,
    /// What it is in detail, and what was tried before.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Chosen { kind, interface, fit, notes, .. } = self;
        f.debug_struct("Chosen")
            .field("kind", kind)
            .field("interface", interface)
            .field("fit", fit)
            .field("notes", notes)
            .finish()
    }
}

/// What is to be sent, as far as a choice depends on it.
struct Load<'a> {
    fit: Fit,
    /// The longest frame that fits, bytes.
    longest: usize,
    /// Packets that fit, of each worker.
    packets: Vec<u64>,
    schedule: &'a Schedule,
}

impl Wish {
    /// Opens a path for each worker.
    ///
    /// # Errors
    /// When what was asked for cannot be had, or nothing can.
    pub fn open(&self, material: Material<'_>, schedule: &Schedule, spread: &Spread) -> Result<Chosen, ChooseError> {
        match self.path {
            Some(Kind::Udp) => self.udp(spread.workers()),
            Some(Kind::Pcap) => self.pcap(),
            Some(kind @ Kind::Others) => Err(ChooseError::Unusable {
                path: kind.name(),
                interface: "this side".to_owned(),
                why: "another program sends, so there is nothing to open".to_owned(),
            }),
            kind => self.on_interface(kind, material, schedule, spread),
        }
    }

    fn udp(&self, workers: usize) -> Result<Chosen, ChooseError> {
        let to = self.to.ok_or(ChooseError::To)?;
        let open = |_| Datagrams::open(to).map(|path| Box::new(path) as Box<dyn Path>);
        let paths = (0..workers).map(open).collect::<io::Result<_>>();
        let paths = paths.map_err(|why| unusable(Kind::Udp, &to.to_string(), &why))?;
        let notes = vec![format!("payloads of UDP to {to}; headers are the system's own")];
        let fit = Fit { longest: usize::MAX, udp: true };
        Ok(Chosen { kind: Kind::Udp, paths, interface: None, fit, notes })
    }

    fn pcap(&self) -> Result<Chosen, ChooseError> {
        let file = self.write.as_ref().ok_or(ChooseError::File)?;
        let path = Capture::create(file).map_err(|why| unusable(Kind::Pcap, &file.display().to_string(), &why))?;
        let fit = Fit { longest: crate::template::FRAME_MAX, udp: false };
        let notes = vec![format!("nothing is sent: {} holds what would be, at the times it is due", file.display())];
        Ok(Chosen { kind: Kind::Pcap, paths: vec![Box::new(path)], interface: None, fit, notes })
    }

    fn on_interface(
        &self,
        kind: Option<Kind>,
        material: Material<'_>,
        schedule: &Schedule,
        spread: &Spread,
    ) -> Result<Chosen, ChooseError> {
        let interface = interface(self.interface.as_deref(), kind)?;
        let fit = Fit { longest: interface.frame_max(false), udp: false };
        let load = Load::of(material, schedule, spread, fit);
        if load.packets.iter().all(|packets| *packets == 0) {
            return Err(ChooseError::NothingFits(interface.name));
        }
        let mut notes = Vec::new();
        for attempt in order(kind, schedule, material.varies()) {
            let tried = match attempt {
                Kind::XdpLive => live(&interface, &load, kind.is_some()),
                Kind::AfXdp => shared(&interface, &load, kind.is_some()),
                _ => packets(&interface, &load),
            };
            match tried {
                Ok((paths, detail)) => {
                    notes.push(detail);
                    return Ok(Chosen { kind: attempt, paths, interface: Some(interface), fit, notes });
                }
                Err(why) if why.permission => return Err(ChooseError::NotPermitted),
                Err(Objection { why, .. }) if kind.is_some() => {
                    return Err(ChooseError::Unusable { path: attempt.name(), interface: interface.name, why });
                }
                Err(Objection { why, .. }) => notes.push(format!("{} was not taken: {why}", attempt.name())),
            }
        }
        Err(ChooseError::Unusable { path: "auto", interface: interface.name, why: notes.join("; ") })
    }
}

/// What is tried, in order. Frames that differ in each loop have to be fed to a program by another core, while it runs.
fn order(kind: Option<Kind>, schedule: &Schedule, varies: bool) -> Vec<Kind> {
    match kind {
        Some(kind) => vec![kind],
        None if schedule.is_timed() => vec![Kind::Packet],
        None if varies => vec![Kind::AfXdp, Kind::XdpLive, Kind::Packet],
        None => vec![Kind::XdpLive, Kind::AfXdp, Kind::Packet],
    }
}

impl<'a> Load<'a> {
    fn of(material: Material<'_>, schedule: &'a Schedule, spread: &Spread, fit: Fit) -> Self {
        let mut load = Load { fit, longest: 0, packets: vec![0; spread.workers()], schedule };
        let mut copy = Vec::new();
        for packet in material.template.packets() {
            // in every loop a packet is as long as in the first
            let frame = material.frame(&packet, 0, &mut copy);
            if fit.refuses(frame).is_none() {
                load.longest = load.longest.max(frame.len());
                load.packets[usize::from(spread.worker(packet.stream))] += 1;
            }
        }
        load
    }
}

/// Why a path is not taken.
struct Objection {
    why: String,
    /// Whether no path of this kind is for us.
    permission: bool,
}

impl Objection {
    fn new(why: impl Into<String>) -> Self {
        Objection { why: why.into(), permission: false }
    }

    fn of(why: &io::Error) -> Self {
        Objection::new(why.to_string())
    }
}

type Opened = Result<(Vec<Box<dyn Path>>, String), Objection>;

fn live(interface: &Interface, load: &Load<'_>, asked: bool) -> Opened {
    if load.schedule.is_timed() {
        return Err(Objection::new("it is for top speed alone; take --top-speed, or another path"));
    }
    if load.longest > Live::LONGEST {
        return Err(Objection::new(format!("frames of {} bytes are longer than its {}", load.longest, Live::LONGEST)));
    }
    match features::transmits(interface.index) {
        Some(false) => {
            return Err(Objection::new(
                "the driver sends no redirected frames; of a veth pair the other end must have an XDP program or GRO \
                 (`ethtool -K PEER gro on`, or let --receive count there)",
            ));
        }
        None if !asked => {
            return Err(Objection::new("this kernel does not tell whether the driver sends redirected frames"));
        }
        _ => {}
    }
    let open =
        |packets: &u64| Live::open(interface.index, load.longest, *packets).map(|path| Box::new(path) as Box<dyn Path>);
    let paths = load.packets.iter().map(open).collect::<io::Result<_>>().map_err(|why| match why.raw_os_error() {
        Some(libc::EPERM) => Objection::new("it needs root, or CAP_BPF and CAP_NET_ADMIN"),
        _ => Objection::of(&why),
    })?;
    Ok((paths, "the kernel runs an XDP program over live frames".to_owned()))
}

fn shared(interface: &Interface, load: &Load<'_>, asked: bool) -> Opened {
    if load.longest > Shared::LONGEST {
        return Err(Objection::new(format!(
            "frames of {} bytes are longer than its {}",
            load.longest,
            Shared::LONGEST
        )));
    }
    let mut paths: Vec<Box<dyn Path>> = Vec::new();
    let mut zero_copy = true;
    for queue in 0..load.packets.len() as u32 {
        let path = Shared::open(interface.index, queue).map_err(|why| match why.raw_os_error() {
            Some(libc::EPERM) => Objection { why: why.to_string(), permission: asked },
            Some(libc::EINVAL) if queue > 0 => Objection::new(format!(
                "{} workers need as many queues, and there is no queue {queue} (`ip link add … numtxqueues N numrxqueues N`)",
                load.packets.len()
            )),
            _ => Objection::of(&why),
        })?;
        zero_copy &= path.is_zero_copy();
        paths.push(Box::new(path));
    }
    Ok((paths, if zero_copy { "zero-copy" } else { "copy mode: the driver takes no frames in place" }.to_owned()))
}

fn packets(interface: &Interface, load: &Load<'_>) -> Opened {
    let mut bypass = true;
    let mut paths: Vec<Box<dyn Path>> = Vec::new();
    for _ in &load.packets {
        let path = Packets::open(interface.index).map_err(|why| {
            let permission = matches!(why.raw_os_error(), Some(libc::EPERM | libc::EACCES));
            Objection { why: why.to_string(), permission }
        })?;
        bypass &= path.bypasses();
        paths.push(Box::new(path));
    }
    debug_assert!(!load.fit.udp);
    Ok((paths, if bypass { "past the queueing discipline" } else { "through the queueing discipline" }.to_owned()))
}

/// The interface of this name, when frames can go out of it.
fn interface(name: Option<&str>, kind: Option<Kind>) -> Result<Interface, ChooseError> {
    let there = || format!("there are: {}", wire::names().join(", "));
    let Some(name) = name else {
        return Err(ChooseError::Interface { path: kind.map_or("auto", Kind::name), there: there() });
    };
    let interface =
        Interface::read(name).map_err(|_| ChooseError::Missing { name: name.to_owned(), there: there() })?;
    match interface {
        Interface { up: false, name, .. } => Err(ChooseError::Down(name)),
        Interface { running: false, name, .. } => Err(ChooseError::Carrier(name)),
        interface => Ok(interface),
    }
}

fn unusable(kind: Kind, what: &str, why: &io::Error) -> ChooseError {
    ChooseError::Unusable { path: kind.name(), interface: what.to_owned(), why: why.to_string() }
}
