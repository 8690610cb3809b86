//! What the verb that makes templates of captures is told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;
use crate::connection::Connection;

/// `rehearsal template`.
#[derive(Debug, Args)]
pub struct Template {
    /// What to do
    #[command(subcommand)]
    pub action: TemplateAction,
}

/// What can be done with templates.
#[derive(Debug, Subcommand)]
pub enum TemplateAction {
    /// Make a template of a capture
    Import(Box<Import>),
    /// List templates
    List(List),
    /// Tell what a template holds
    Show(ShowTemplate),
    /// Write a template, or an edited copy, as a capture
    Export(Export),
}

/// Where templates are.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Library")]
pub struct Place {
    /// Folder of templates [default: $XDG_DATA_HOME/rehearsal/templates, or ~/.local/share/rehearsal/templates]
    #[arg(long, value_name = "DIR", env = "REHEARSAL_LIBRARY")]
    pub library: Option<PathBuf>,
    /// Library that a lab shares, beside the folder
    #[command(flatten)]
    pub nats: Connection,
}

/// `rehearsal template import`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal template import capture.pcapng
  rehearsal template import big.pcap.zst --name web --filter \"tcp port 80 or 443\" --limit 1000000
  rehearsal template import capture.pcap --from 10s --to 70s

pcap and pcapng are known by how they begin, packed by gzip or zstd or not. Packets of Ethernet, raw IP, Linux cooked (SLL,
SLL2), NULL, LOOP, PPP and Cisco HDLC links become Ethernet frames. Every packet is either loaded or left out for a reason
that is told: read = loaded + left out. A filter is written as for tcpdump: host, net, port, portrange, src, dst, ether,
vlan, mpls, less, greater, proto, ip, ip6, arp, tcp, udp, sctp, icmp, icmp6, and, or, not, brackets; it looks into tags and
tunnels by itself.")]
pub struct Import {
    /// The capture
    pub file: PathBuf,
    /// What the template is called [default: as the file]
    #[arg(long, value_name = "NAME", env = "REHEARSAL_NAME")]
    pub name: Option<String>,
    /// Only packets that this filter wants, written as for tcpdump: --filter "tcp port 80"
    #[arg(long, value_name = "FILTER", env = "REHEARSAL_FILTER", help_heading = "Part")]
    pub filter: Option<String>,
    /// Only packets from so long after the first one, such as 10s
    #[arg(long, value_name = "TIME", env = "REHEARSAL_FROM", help_heading = "Part")]
    pub from: Option<String>,
    /// Only packets before so long after the first one
    #[arg(long, value_name = "TIME", env = "REHEARSAL_TO", help_heading = "Part")]
    pub to: Option<String>,
    /// At most so many packets; the rest is not read
    #[arg(long, value_name = "N", env = "REHEARSAL_LIMIT", help_heading = "Part")]
    pub limit: Option<u64>,
    /// Leave out packets that the capture cut
    #[arg(long, env = "REHEARSAL_WHOLE", help_heading = "Part")]
    pub whole: bool,
    /// Of a damaged capture, keep what comes before the damage
    #[arg(long, env = "REHEARSAL_SALVAGE", help_heading = "Part")]
    pub salvage: bool,
    /// How it is told
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
    /// Where templates are
    #[command(flatten)]
    pub place: Place,
}

/// `rehearsal template list`.
#[derive(Debug, Args)]
pub struct List {
    /// How it is told
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
    /// Where templates are
    #[command(flatten)]
    pub place: Place,
}

/// `rehearsal template show`.
#[derive(Debug, Args)]
pub struct ShowTemplate {
    /// The template: NAME, or NAME@DIGEST, of which the first digits are enough
    pub template: String,
    /// Streams that are listed, those with most bytes first
    #[arg(long, value_name = "N", default_value_t = 10, env = "REHEARSAL_STREAMS")]
    pub streams: usize,
    /// How it is told
    #[arg(long, value_enum, default_value_t = Format::Text, env = "REHEARSAL_FORMAT")]
    pub format: Format,
    /// Where templates are
    #[command(flatten)]
    pub place: Place,
}

/// `rehearsal template export`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal template export web --out web.pcap
  rehearsal template export web --out lab.pcap --edit \"ip=10.0.0.0/8 -> 198.18.0.0/15\" --edit ttl=-1
  rehearsal template export web --out shared.pcap --edit \"anonymise=a long secret of yours\" --edit payload=zero

Keys of an edit: ip, mac, port (lists of \"FROM -> TO\"), nodes (the template's hosts onto these, in turn), random_hosts (a
network to draw from), laps, seed, anonymise (a key), client_mac, server_mac, vlan (pop, pop all, push 100, 100 -> 200),
ttl, dscp, payload (zero), payload_bytes_max, pad (original, or bytes), trim_trailer, checksums (update, keep, repair).
The template itself never changes.")]
pub struct Export {
    /// The template: NAME, or NAME@DIGEST, of which the first digits are enough
    pub template: String,
    /// The capture to write (pcap, nanoseconds, Ethernet)
    #[arg(long, value_name = "FILE", env = "REHEARSAL_OUT")]
    pub out: PathBuf,
    /// What is changed
    #[command(flatten)]
    pub edits: Edits,
    /// Where templates are
    #[command(flatten)]
    pub place: Place,
}

/// What is changed in copies of packets.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Edit")]
pub struct Edits {
    /// Change copies of packets: --edit ttl=-1, --edit "ip=10.0.0.1 -> 192.0.2.1" (repeatable)
    #[arg(long, value_name = "KEY=VALUE", env = "REHEARSAL_EDIT", value_delimiter = None)]
    pub edit: Vec<String>,
    /// A file with a table [edit] of such keys
    #[arg(long, value_name = "FILE", env = "REHEARSAL_EDIT_FILE")]
    pub edit_file: Option<PathBuf>,
}
