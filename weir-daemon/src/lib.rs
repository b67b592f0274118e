//! The processes of a running link: the keeper ([`up`]), which has the privileges, the forwarder
//! ([`forward`]), which has the traffic, and those of reservations ([`rsvp`]) and of circuits
//! ([`circuits`]). The keeper starts another one, the gateway, which speaks HTTP and is
//! `weir-gateway`'s.
//!
//! The command starts each of them by a verb, prints what the keeper says, and makes exit codes of
//! how they end. Nothing here parses arguments or prints results.
#![forbid(unsafe_code)]

pub mod act;
pub mod circuits;
mod companion;
pub mod events;
pub mod forward;
pub mod keeper;
pub mod rsvp;
mod supervisor;
pub mod up;
