//! Whole runs of small experiments in virtual time. Every figure asserted here is a count, an order, a digest or a
//! time of the model: none depends on the machine.

mod actors;
mod anything;
mod carriers;
mod costs;
mod datagrams;
mod endings;
mod exchanges;
mod identities;
mod lab;
mod links;
mod messages;
mod speed;
mod streams;
mod wishes;
