//! A client that speaks the protocol to the server, in memory: rows for each ability.

mod abilities;
mod client;
mod fixes;
mod messages;
