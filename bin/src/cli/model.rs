//! What `rehearsal model` is told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `rehearsal model`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  rehearsal model list
  rehearsal model show configs/models/gensyn-web.toml --users 1000
  rehearsal model show configs/models/gensyn-web.toml --svg > web.svg
  rehearsal model quality configs/models/voip-g729.toml --delay 120ms --loss 0.5%
  rehearsal model users configs/models/web-3gpp.toml=85% configs/models/gensyn-voip.toml=15% --link 100Mbit/s --load 70%

A model is a file of states and modules that an actor of kind `population` names as its `model`.")]
pub struct Model {
    /// What to do
    #[command(subcommand)]
    pub verb: ModelVerb,
}

/// What can be done with models.
#[derive(Debug, Subcommand)]
pub enum ModelVerb {
    /// List the models of a folder: what they are, their 5QI, delay budget and load
    List {
        /// The folder
        #[arg(default_value = "configs/models", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Show one: its states in the long run, what users offer, and its published figures against a trial
    Show(Box<Show>),
    /// Tell how many users of each model load a link as wanted: a mix of applications, by bytes on the wire
    Users(Mix),
    /// Tell the quality of speech by the E-model (ITU-T G.107) for a delay and loss, such as a run's
    Quality(Quality),
}

/// `rehearsal model show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The model
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print it for Graphviz instead
    #[arg(long, conflicts_with = "svg", env = "REHEARSAL_DOT")]
    pub dot: bool,
    /// Print it as a drawing instead
    #[arg(long, env = "REHEARSAL_SVG")]
    pub svg: bool,
    /// How many users the figures are for
    #[arg(long, value_name = "N", default_value_t = 1, env = "REHEARSAL_USERS",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub users: u32,
    /// Also tell how its traffic varies over time: variance of block means by block length, and the Hurst parameter
    #[arg(long, env = "REHEARSAL_VARIANCE_TIME")]
    pub variance_time: bool,
}

/// `rehearsal model quality`.
#[derive(Debug, Args)]
pub struct Quality {
    /// A model with a codec
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// One-way delay from mouth to ear, such as 150ms: network, packets and play-out buffer together
    #[arg(long, value_name = "TIME", env = "REHEARSAL_DELAY")]
    pub delay: String,
    /// Share of packets that are lost or come too late for the play-out buffer, such as 1%
    #[arg(long, value_name = "PERCENT", default_value = "0%", env = "REHEARSAL_LOSS")]
    pub loss: String,
}

/// `rehearsal model users`.
#[derive(Debug, Args)]
pub struct Mix {
    /// Models, each with its share of the bytes: FILE=PERCENT. One alone needs no share
    #[arg(required = true, value_name = "FILE=SHARE")]
    pub models: Vec<String>,
    /// The link's rate, such as 100Mbit/s
    #[arg(long, value_name = "RATE", env = "REHEARSAL_LINK")]
    pub link: String,
    /// The share of the link that they are to load together, such as 70%
    #[arg(long, value_name = "PERCENT", env = "REHEARSAL_LOAD")]
    pub load: String,
}
