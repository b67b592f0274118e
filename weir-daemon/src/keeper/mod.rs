//! Processes: a keeper, which has the privileges, a forwarder, which has the traffic, and perhaps a
//! gateway ([`weir_control::gateway`]), which speaks HTTP, one that has the reservations
//! ([`rsvp`]) and one that knows the circuits ([`circuits`]).
//!
//! The keeper starts the forwarder ([`weir_host::process`]), tells it what to do and hears what
//! became of it ([`messages`]). What it prints never holds it up ([`weir_host::outlet`]).
//! Invariant: the keeper reads no packet and no request of a client, and the forwarder opens no
//! file and no interface.

pub mod circuits;
pub mod found;
pub mod messages;
pub mod rsvp;
mod sanitise;
pub mod service;
