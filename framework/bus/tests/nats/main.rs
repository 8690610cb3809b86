//! NATS as it is: connections, permissions, losses. With a real server; where this machine has none, tests say so and pass.

mod connections;
mod lab;
mod losses;
mod messages;
mod permissions;
mod strangers;
