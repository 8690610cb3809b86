//! The contract of the house: time, units, subjects, the actor interface and the parts both engines are made of.
//!
//! Nothing here reads a clock, opens a socket or touches a file. An [`Actor`] reacts to one borrowed
//! [`Event`] at a given [`Time`] and writes [`Command`]s into the [`Outbox`] its engine lends it; the
//! simulator and the emulator are two such engines.
//!
//! Reading order: [`time`] and [`units`]; [`actor`], [`event`] and [`outbox`] (the interface);
//! [`exchange`], [`payload`], [`flow`], [`recording`] and [`dialogue`] (what travels); [`subject`], [`message`] and [`messages`] (what is
//! said), [`steer`] and [`life`] (what changes on the way); [`kind`], [`plan`] and [`assembly`] (how a run is put together); [`parts`] (what both engines share);
//! [`run`] (what an engine hands back).

pub mod actor;
pub mod arrivals;
pub mod assembly;
pub mod calibration;
pub mod dialogue;
pub mod distribution;
pub mod dscp;
pub mod event;
pub mod exchange;
pub mod fleet;
pub mod flow;
pub mod ids;
pub mod kind;
pub mod life;
pub mod message;
pub mod messages;
pub mod outbox;
pub mod outside;
pub mod parts;
pub mod payload;
pub mod plan;
pub mod recording;
pub mod rng;
pub mod run;
pub mod script;
pub mod sender;
pub mod sink;
pub mod steer;
pub mod subject;
pub mod time;
pub mod units;

pub use actor::{Actor, Pool};
pub use event::{Event, Head};
pub use exchange::{Datagram, Outcome, Reply, Request, Status, Times};
pub use ids::{ActorId, ExchangeId, FlowId, MediaId, MetricId, RecipeId, SubjectId, TimerKey, Token, WorkKey};
pub use kind::{BuildError, GroupContext, Kind, Role, Wiring};
pub use message::{Body, BodyError, Message};
pub use outbox::{Command, Outbox, Work, WorkResult};
pub use payload::{Payload, Recipe};
pub use rng::RngStream;
pub use time::{Span, Time};
