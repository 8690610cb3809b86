//! The booking sheet as data: what `rehearsal plan --format json` prints, and what its JSON Schema is made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arithmetic::Bounds;

/// Raised when the meaning of a key changes.
pub const SCHEMA_VERSION: u32 = 1;

/// What to book for one experiment or several that run one after the other.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Version of this form.
    pub schema_version: u32,
    /// The facility it is for.
    pub facility: String,
    /// The booking as a whole.
    pub booking: Booking,
    /// Its experiments, in the order given.
    pub experiments: Vec<Experiment>,
    /// Files that were named and are no experiments, and what was done with them.
    pub notes: Vec<String>,
    /// What the figures rest on.
    pub assumptions: Vec<Assumption>,
}

/// The booking as a whole.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Booking {
    /// Machines to book, those of controller and aggregator among them: what the largest experiment needs.
    pub nodes: u64,
    /// The machines: as many of each rank as any experiment needs, largest first.
    pub machines: Vec<Booked>,
    /// Cores that the nodes with traffic ask for at most at one time.
    pub vcpu_requested: f64,
    /// Memory that they ask for at most at one time, bytes.
    pub memory_requested_bytes: u64,
    /// Runs in all.
    pub runs: u64,
    /// All of it, set-up and tear-down included, hours.
    pub total_h: Bounds,
    /// Traffic alone, hours.
    pub traffic_h: Bounds,
    /// The window to book: `total_h` in whole quanta of the facility, hours.
    pub window_h: Bounds,
    /// Nodes times window, hours.
    pub node_h: Bounds,
    /// Booked cores times window, hours.
    pub vcpu_h: Bounds,
    /// Booked memory times window, GiB hours.
    pub gib_h: Bounds,
    /// What it costs, if the facility has a tariff.
    pub cost: Option<Cost>,
    /// Requests of all runs, if that is known.
    pub requests: f64,
    /// Payload of all runs, bytes.
    pub payload_bytes: Bounds,
    /// On the wire, bytes.
    pub wire_bytes: f64,
    /// Payload of all runs by published figures, where all experiments have one.
    pub published_payload_bytes: Option<f64>,
    /// What all bundles take, bytes.
    pub bundle_bytes: f64,
    /// The highest mean load of a node's interface, Mbit/s.
    pub busiest_mbps: f64,
    /// Whose.
    pub busiest: String,
}

/// What a booking costs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// In what.
    pub currency: String,
    /// How much, for each window.
    pub amount: Bounds,
}

/// One experiment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Its traffic, by sender.
    pub links: Vec<Link>,
    /// How long it takes.
    pub time: Times,
    /// How much it sends in one run.
    pub volume: Volume,
    /// What it leaves in all its runs.
    pub data: Data,
    /// What may go wrong.
    pub warnings: Vec<Warning>,
}

/// A node and its instances.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in the file.
    pub name: String,
    /// Instances, one machine each.
    pub count: u32,
    /// `traffic`, or `control` for controller and aggregator.
    pub role: String,
    /// What the file asks for, of each.
    pub requested: Requested,
    /// What the facility gives instead; none if its largest is too small.
    pub booked: Option<Booked>,
    /// Mean load into each, on the wire, Mbit/s.
    pub in_mbps: f64,
    /// Mean load out of each, on the wire, Mbit/s.
    pub out_mbps: f64,
    /// The busier direction as a share of what the interface carries.
    pub utilisation: Option<f64>,
}

/// What a node asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requested {
    /// Cores.
    pub vcpu: Option<f64>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
}

/// A machine of the facility.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Booked {
    /// Its type, where the facility has types.
    pub machine: Option<String>,
    /// Cores.
    pub vcpu: f64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Disk, bytes.
    pub disk_bytes: u64,
    /// Its interface, Mbit/s.
    pub nic_mbps: f64,
}

/// What one sending actor puts on its way, over all its instances.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// `node/actor` that sends.
    pub from: String,
    /// `node/actor` that it sends to, or a URL.
    pub to: String,
    /// Requests of one run.
    pub requests: f64,
    /// Requests per second, mean over the run.
    pub requests_per_second: f64,
    /// Payload of a request, mean, bytes.
    pub request_bytes: f64,
    /// Payload, mean over the run, Mbit/s.
    pub payload_mbps: f64,
    /// With headers and frame gaps, mean over the run, Mbit/s.
    pub wire_mbps: f64,
    /// The same at the 99th percentile of its seconds, Mbit/s.
    pub peak_mbps: f64,
    /// Answers, with headers and frame gaps, mean over the run, Mbit/s.
    pub answers_mbps: f64,
    /// Ethernet frames per second of the requests.
    pub frames_per_second: f64,
    /// Capacity of the link, of each pair of node instances or of the whole cell, where the file gives one: the lowest of
    /// a trace. Mbit/s.
    pub capacity_mbps: Option<f64>,
    /// Whether that is the lowest rate of a trace, so that most of the time there is more.
    #[serde(default)]
    pub capacity_is_lowest: bool,
    /// Mean load of one pair, or of the whole cell, as a share of it.
    pub utilisation: Option<f64>,
    /// The same of the peaks; those of a cell are taken to coincide.
    pub peak_utilisation: Option<f64>,
}

/// How long an experiment takes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// What `run_s.expected` rests on.
    pub basis: Basis,
    /// In words, with the source.
    pub because: String,
    /// Traffic of one run, seconds.
    pub run_s: Bounds,
    /// Before it, seconds.
    pub setup_s: f64,
    /// After it, seconds.
    pub teardown_s: f64,
    /// How often it is run.
    pub repetitions: u32,
    /// All runs with what surrounds them, seconds.
    pub total_s: Bounds,
    /// No run takes longer than this: every attempt of every request times out. Seconds.
    pub bound_s: Option<f64>,
}

/// What an expected duration rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The file says how long.
    Duration,
    /// Counts and rates of the file.
    Schedule,
    /// A rate on the command line.
    Given,
    /// A published rate.
    Published,
    /// A short dry run.
    DryRun,
}

/// How much one run sends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Requests or datagrams.
    pub requests: f64,
    /// Payload: with the smallest requests the file allows, as the dry run drew them, with the largest. Bytes.
    pub payload_bytes: Bounds,
    /// Requests and answers with headers and frame gaps, bytes.
    pub wire_bytes: f64,
    /// The published volume, bytes.
    pub published_bytes: Option<f64>,
    /// Where it stands.
    pub published_source: Option<String>,
}

/// What an experiment leaves, over all repetitions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Bundles, bytes.
    pub bundle_bytes: f64,
    /// Single attempts that are kept, as `record_requests` says.
    pub recorded_requests: f64,
    /// If every frame on the wire were captured, bytes.
    pub capture_bytes: f64,
}

/// Something that may go wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Which kind: `ports`, `descriptors`, `workers`, `pace`, `link`, `interface`, `size`, `cores`, `deadline`, `volume`,
    /// `dry-run`, `control`.
    pub code: String,
    /// In words.
    pub text: String,
}

/// Something that figures rest on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What is taken to be so.
    pub what: String,
    /// Where that comes from.
    pub source: String,
}
