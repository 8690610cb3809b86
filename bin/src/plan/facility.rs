//! Facilities: what a lab lets one book, as data with sources.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use rehearsal_core::time::Span;
use rehearsal_core::units::{BitRate, ByteSize};
use serde::Deserialize;

use super::arithmetic::{Bounds, round_up};
use super::sheet::Booked;
use crate::exit::UsageError;

/// The facilities that the program is built with.
const SHIPPED: [(&str, &str); 3] = [
    ("generic-lab", include_str!("../../../configs/facilities/generic-lab.toml")),
    ("cloudlab", include_str!("../../../configs/facilities/cloudlab.toml")),
    ("fabric", include_str!("../../../configs/facilities/fabric.toml")),
];

/// Cores of the largest machine that is believed: as many as a host of an experiment can have.
const VCPU_MAX: f64 = 4096.0;

/// A facility.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facility {
    /// What it is.
    pub facility: About,
    /// For nodes that do not say what they need.
    pub default: DefaultSize,
    /// Around the traffic of each run.
    pub run: Around,
    /// Once for a booking.
    pub once: Once,
    /// Sizes of virtual machines; without them and machines, any size.
    #[serde(default)]
    pub sizes: Option<Sizes>,
    /// Types of whole machines.
    #[serde(default)]
    pub machines: Vec<Machine>,
    /// Prices, if there are any.
    #[serde(default)]
    pub tariff: Option<Tariff>,
    /// Where the figures come from, by table or key.
    pub sources: BTreeMap<String, String>,
}

/// What a facility is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its name.
    pub name: String,
    /// The same for people.
    pub title: String,
    /// Bookings are multiples of this.
    pub quantum: Span,
    /// What a node's network interface carries.
    pub nic: BitRate,
    /// Disk that a node needs.
    pub disk: ByteSize,
}

/// What a node needs that does not say.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultSize {
    /// Cores.
    pub vcpu: f64,
    /// Memory.
    pub memory: ByteSize,
}

/// Time around the traffic of each run.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// Before it.
    pub setup: Span,
    /// After it.
    pub teardown: Span,
}

/// Time once for a booking.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Once {
    low: Span,
    expected: Span,
    high: Span,
}

/// Sizes of virtual machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    vcpu: Vec<f64>,
    memory: Vec<ByteSize>,
    disk: Vec<ByteSize>,
}

/// A type of whole machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    name: String,
    vcpu: f64,
    memory: ByteSize,
    disk: ByteSize,
    nic: BitRate,
}

/// What a facility charges.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tariff {
    /// In what.
    pub currency: String,
    /// For a node and hour.
    #[serde(default)]
    pub node_hour: f64,
    /// For a core and hour.
    #[serde(default)]
    pub vcpu_hour: f64,
    /// For a GiB of memory and hour.
    #[serde(default)]
    pub gib_hour: f64,
}

impl Facility {
    /// A facility by its name, or by its file.
    ///
    /// # Errors
    /// When there is none, or the file is not one.
    pub fn named(name: &str) -> Result<Self> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Ok(Facility::read(text).expect("the shipped facilities are read by a test"));
        }
        if !Path::new(name).is_file() {
            let known = SHIPPED.map(|(name, _)| name).join(", ");
            let text = format!(
                "there is no facility `{name}`; use {known}, or the path of a file like configs/facilities/generic-lab.toml"
            );
            return Err(UsageError(text).into());
        }
        let text = std::fs::read_to_string(name).with_context(|| format!("{name} cannot be read"))?;
        Facility::read(&text).map_err(|why| UsageError(format!("{name}: {why}")).into())
    }

    fn read(text: &str) -> Result<Self, String> {
        let read: Facility = toml::from_str(text).map_err(|why| why.to_string())?;
        if read.facility.quantum.is_zero() {
            return Err("`quantum` must be above zero, such as \"1h\"".to_owned());
        }
        let used = ["quantum", "nic", "disk", "default", "run", "once"].into_iter();
        let more = [("sizes", read.sizes.is_some()), ("machines", !read.machines.is_empty())];
        let lacking = used.chain(more.into_iter().filter_map(|(key, there)| there.then_some(key)));
        if let Some(key) = lacking.into_iter().find(|key| !read.sources.contains_key(*key)) {
            return Err(format!("`[sources]` lacks `{key}`: say where its figures come from, or `assumed: …` and why"));
        }
        read.figures()?;
        let once = read.once;
        if once.low > once.expected || once.expected > once.high {
            return Err("`[once]` must have low <= expected <= high".to_owned());
        }
        Ok(read)
    }

    /// Whether the figures can be booked with: cores above zero, prices not below it.
    fn figures(&self) -> Result<(), String> {
        let default = [("[default]", self.default.vcpu)].into_iter();
        let sizes = self.sizes.iter().flat_map(|sizes| &sizes.vcpu).map(|vcpu| ("[sizes]", *vcpu));
        let machines = self.machines.iter().map(|machine| ("[[machines]]", machine.vcpu));
        let possible = |vcpu: f64| vcpu > 0.0 && vcpu <= VCPU_MAX;
        if let Some((table, vcpu)) = default.chain(sizes).chain(machines).find(|(_, vcpu)| !possible(*vcpu)) {
            return Err(format!("`{table}`: `vcpu` is {vcpu}; write a number above zero and at most {VCPU_MAX}"));
        }
        let Some(tariff) = &self.tariff else { return Ok(()) };
        let prices = [("node_hour", tariff.node_hour), ("vcpu_hour", tariff.vcpu_hour), ("gib_hour", tariff.gib_hour)];
        match prices.into_iter().find(|(_, price)| !price.is_finite() || *price < 0.0) {
            Some((key, price)) => Err(format!("`[tariff]`: `{key}` is {price}; write a price, 0 or above")),
            None => Ok(()),
        }
    }

    /// Where the figures of `key` come from.
    pub fn source(&self, key: &str) -> &str {
        self.sources.get(key).map_or("", String::as_str)
    }

    /// Time once for a booking, seconds.
    pub fn once_s(&self) -> Bounds {
        let Once { low, expected, high } = self.once;
        Bounds { low: low.as_secs_f64(), expected: expected.as_secs_f64(), high: high.as_secs_f64() }
    }

    /// The machine that is booked for a node; `None` if none is large enough.
    pub fn book(&self, vcpu: f64, memory_bytes: u64) -> Option<Booked> {
        let disk = self.facility.disk.0;
        if !self.machines.is_empty() {
            let fits = |m: &&Machine| m.vcpu >= vcpu && m.memory.0 >= memory_bytes && m.disk.0 >= disk;
            let machine = self.machines.iter().filter(fits).min_by(|a, b| a.vcpu.total_cmp(&b.vcpu))?;
            return Some(Booked {
                machine: Some(machine.name.clone()),
                vcpu: machine.vcpu,
                memory_bytes: machine.memory.0,
                disk_bytes: machine.disk.0,
                nic_mbps: machine.nic.0 as f64 / 1e6,
            });
        }
        let up = |wanted: u64, sizes: &[ByteSize]| {
            let sizes: Vec<f64> = sizes.iter().map(|size| size.0 as f64).collect();
            round_up(wanted as f64, &sizes).map(|bytes| bytes as u64)
        };
        let (vcpu, memory_bytes, disk_bytes) = match &self.sizes {
            None => (vcpu.ceil().max(1.0), memory_bytes, disk),
            Some(sizes) => (round_up(vcpu, &sizes.vcpu)?, up(memory_bytes, &sizes.memory)?, up(disk, &sizes.disk)?),
        };
        let nic_mbps = self.facility.nic.0 as f64 / 1e6;
        Some(Booked { machine: None, vcpu, memory_bytes, disk_bytes, nic_mbps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn shipped_facilities_round_as_they_say() {
        let book = |name: &str, vcpu, mib: u64| Facility::named(name).expect(name).book(vcpu, mib * MIB);
        let fabric = book("fabric", 3.0, 512).expect("fits");
        assert_eq!((fabric.vcpu, fabric.memory_bytes, fabric.disk_bytes), (4.0, 2_000_000_000, 10_000_000_000));
        assert_eq!(book("fabric", 65.0, 512), None, "64 cores are the largest");
        let cloudlab = book("cloudlab", 3.0, 512).expect("fits");
        assert_eq!((cloudlab.machine.as_deref(), cloudlab.vcpu), (Some("m510"), 8.0));
        assert_eq!(book("cloudlab", 9.0, 512), None);
        let lab = book("generic-lab", 1.5, 512).expect("fits");
        assert_eq!((lab.vcpu, lab.memory_bytes, lab.nic_mbps), (2.0, 512 * MIB, 1000.0));
    }

    #[test]
    fn a_figure_without_a_source_is_refused() {
        let text = SHIPPED[0].1;
        assert!(Facility::read(text).is_ok());
        let without: String = text.lines().filter(|l| !l.starts_with("once =")).map(|l| format!("{l}\n")).collect();
        assert!(Facility::read(&without).unwrap_err().contains("`[sources]` lacks `once`"));
        assert!(Facility::read(&text.replace("\"1h\"", "\"0s\"")).unwrap_err().contains("above zero"));
        let typo = Facility::read(&text.replace("teardown", "tearup")).unwrap_err();
        assert!(typo.contains("line") && typo.contains("tearup"), "{typo}");
    }

    #[test]
    fn figures_that_nobody_can_book_with_are_refused() {
        let told = |from: &str, to: &str| {
            let text = SHIPPED[0].1.replace(from, to);
            assert_ne!(text, SHIPPED[0].1, "{from} stands in the file");
            Facility::read(&text).expect_err(to)
        };
        for vcpu in ["-1", "0", "inf", "nan"] {
            assert!(told("vcpu = 1\n", &format!("vcpu = {vcpu}\n")).contains("`[default]`: `vcpu` is"), "{vcpu}");
        }
        let tariff = |price: &str| format!("[tariff]\ncurrency = \"EUR\"\nnode_hour = {price}\n[sources]");
        for price in ["-1", "nan", "inf"] {
            assert!(told("[sources]", &tariff(price)).contains("`[tariff]`: `node_hour` is"), "{price}");
        }
        assert!(Facility::read(&SHIPPED[0].1.replace("[sources]", &tariff("0.1"))).is_ok());
    }

    #[test]
    fn an_unknown_facility_names_those_there_are() {
        let error = Facility::named("nowhere").unwrap_err().to_string();
        assert!(error.contains("`nowhere`") && error.contains("generic-lab, cloudlab, fabric"), "{error}");
    }
}
