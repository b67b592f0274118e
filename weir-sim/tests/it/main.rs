//! The tests of the simulator, one program: scenarios, captures, networks, bounds.

mod at_least;
mod bounds;
mod change;
mod common;
mod determinism;
mod effective;
mod engines;
mod explain;
mod host;
mod hosts;
mod keeping;
mod models;
mod network;
mod open_loop;
mod phases;
mod quic;
mod read;
mod read_messages;
mod replay;
mod routers;
mod rsvp;
mod schedule;
mod small_bursts;
mod tcp;
mod translate;
mod watch;
