//! Replays packetdrill scripts against Weir's TCP endpoints, in simulated time.
//!
//! A script injects packets, calls the socket and says which packets it expects, and when; the
//! scripts of the kernel's developers are what Linux does, written down. They are under the GPL:
//! `cargo xtask figures packetdrill --scripts FOLDER` reads them from a folder outside of this
//! repository.
#![forbid(unsafe_code)]

pub mod collection;
pub mod compare;
pub mod connection;
pub mod defaults;
pub mod driver;
pub mod expression;
pub mod known;
pub mod parse;
pub mod report;
pub mod scope;
pub mod script;
