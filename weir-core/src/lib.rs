//! The packet-scheduling core that simulation, captures and live links share.
//!
//! Nothing here reads a clock, does I/O, starts a thread or draws an unseeded random number: time
//! comes in as an argument, so the same calls give the same decisions, to the bit.
//! `docs/glossary.md` defines the words, `docs/sources.md` the keys in `[key §n]`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod account;
pub mod classify;
pub mod event;
pub mod fnv;
pub mod ids;
pub mod link;
mod order;
pub mod packet;
pub mod parameter;
pub mod police;
pub mod queue;
pub mod random;
pub mod sched;
pub mod state;
pub mod tree;
pub mod units;

pub use link::{change, explain};
