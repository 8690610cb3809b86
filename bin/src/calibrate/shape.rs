//! What is sent: experiments of one sending and one receiving node on this host.

use std::fmt::Write as _;
use std::time::Duration;

use rehearsal_core::plan::Carrier;

/// Exchanges that one stream may have under way: far more than a host that keeps up needs.
pub const IN_FLIGHT: u32 = 64;
/// Seconds at the beginning that are left out: connections are opened, caches are cold.
pub const WARMUP_SECONDS: u32 = 1;

/// Readings of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Bytes of each.
    pub bytes: u32,
    /// Streams that send them.
    pub streams: u32,
    /// Of each stream, per second; without it the loop is closed, one under way for each.
    pub rate: Option<f64>,
}

/// One sender node with a part for each size, one receiver node, and what lies between.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What carries them.
    pub carrier: Carrier,
    /// Whether connections are kept.
    pub kept: bool,
    /// What is sent.
    pub parts: Vec<Part>,
    /// How long the receiver waits before it answers, without a core.
    pub pause: Duration,
    /// Imposed on the way there and on the way back, in user space.
    pub delay: Duration,
    /// Share of packets that are lost on the imposed link.
    pub loss: f64,
    /// Seconds of traffic, the warm-up among them.
    pub seconds: u32,
}

impl Shape {
    /// Readings of one size at a closed loop or a rate.
    pub fn plain(carrier: Carrier, kept: bool, part: Part, seconds: u32) -> Self {
        Shape { carrier, kept, parts: vec![part], pause: Duration::ZERO, delay: Duration::ZERO, loss: 0.0, seconds }
    }

    /// Exchanges per second that come due, if all streams are paced.
    pub fn rate(&self) -> Option<f64> {
        self.parts.iter().map(|part| Some(part.rate? * f64::from(part.streams))).sum()
    }

    /// The same, with all rates multiplied so that `rate` come due in all.
    pub fn at(&self, rate: f64) -> Self {
        let factor = rate / self.rate().filter(|now| *now > 0.0).unwrap_or(rate);
        let scaled = |part: &Part| Part { rate: part.rate.map(|rate| rate * factor), ..*part };
        Shape { parts: self.parts.iter().map(scaled).collect(), ..self.clone() }
    }

    /// Whether something is imposed between the two.
    pub fn imposed(&self) -> bool {
        !self.delay.is_zero() || self.loss > 0.0
    }

    /// The experiment file; the receiver listens at `port` of the loopback.
    pub fn toml(&self, name: &str, cores: u32, port: u16) -> String {
        let Shape { carrier, kept, parts, pause, delay, loss, seconds } = self;
        let mut text = format!(
            "[experiment]\nname = \"{name}\"\nduration = \"{seconds}s\"\nwarmup = \"{WARMUP_SECONDS}s\"\n\n\
             [hosts.this]\ncores = {cores}\n\n[nodes.sender]\nhost = \"this\"\nvcpu = 1\n"
        );
        for (at, part) in parts.iter().enumerate() {
            let Part { bytes, streams, rate } = part;
            let pace = match rate {
                Some(rate) => format!("rate = \"{rate:.3}/s\"\nin_flight = {IN_FLIGHT}"),
                None => "in_flight = 1".to_owned(),
            };
            let _ = write!(
                text,
                "\n[nodes.sender.actors.part{at}]\nkind = \"sensor\"\nto = \"receiver/main\"\nbytes = \"{bytes}B\"\n\
                 streams = {streams}\n{pace}\n"
            );
        }
        let pause = pause.as_micros();
        let _ = write!(
            text,
            "\n[nodes.receiver]\nhost = \"this\"\nvcpu = 1\n\n[nodes.receiver.actors.main]\nkind = \"receiver\"\n\
             workers = 4096\nbacklog = 4096\nlisten = \"127.0.0.1:{port}\"\nanalyzer = {{ pause = \"{pause}us\" }}\n\n\
             [links.default]\ncarrier = \"{}\"\n",
            word(*carrier)
        );
        if *carrier == Carrier::Http1 {
            let _ = writeln!(text, "connection = \"{}\"", if *kept { "keep-alive" } else { "per-request" });
        }
        if self.imposed() {
            let (delay, loss) = (delay.as_micros(), loss * 100.0);
            let _ = writeln!(text, "impose = \"userspace\"\ndelay = \"{delay}us\"\nloss = \"{loss}%\"");
        }
        text
    }
}

/// A carrier's word in files.
pub const fn word(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Http1 => "http1",
        Carrier::Http2 => "http2",
        Carrier::Http3 => "http3",
        Carrier::Udp => "udp",
        Carrier::Tcp => "tcp",
        Carrier::Nats => "nats",
        Carrier::Mqtt => "mqtt",
        Carrier::Frames => "frames",
    }
}

#[cfg(test)]
mod tests {
    use rehearsal_scenario::{LoadOptions, load};

    use super::*;
    use crate::registry::registry;

    fn mixed() -> Shape {
        let parts = vec![
            Part { bytes: 1000, streams: 2, rate: Some(250.0) },
            Part { bytes: 150_000, streams: 2, rate: Some(25.0) },
        ];
        let one = Shape::plain(Carrier::Http1, false, parts[0], 4);
        Shape { parts, pause: Duration::from_millis(20), delay: Duration::from_millis(20), loss: 0.01, ..one }
    }

    #[test]
    fn a_load_is_scaled_without_changing_its_mixture() {
        assert_eq!(mixed().rate(), Some(550.0));
        let half = mixed().at(275.0);
        assert_eq!(half.parts.iter().map(|p| p.rate).collect::<Vec<_>>(), [Some(125.0), Some(12.5)]);
        let closed = Shape::plain(Carrier::Http1, true, Part { bytes: 1000, streams: 1, rate: None }, 4);
        assert_eq!(closed.rate(), None);
    }

    #[test]
    fn every_shape_is_an_experiment() {
        let udp = Shape::plain(Carrier::Udp, true, Part { bytes: 200, streams: 1, rate: Some(0.5) }, 3);
        let nats = Shape::plain(Carrier::Nats, true, Part { bytes: 1000, streams: 8, rate: None }, 3);
        let path = std::env::temp_dir().join(format!("rehearsal-shape-{}.toml", std::process::id()));
        for shape in [mixed(), udp, nats] {
            std::fs::write(&path, shape.toml("trial", 2, 7001)).expect("a file");
            let loaded = load(&path, &registry(), &LoadOptions::default());
            let experiment = loaded.unwrap_or_else(|errors| panic!("{errors}"));
            let senders: Vec<_> = experiment.senders().collect();
            assert_eq!(senders.len(), shape.parts.len());
            assert_eq!(experiment.carrier_to("sender", "receiver/main"), shape.carrier);
        }
        std::fs::remove_file(&path).expect("the file was there");
    }
}
