//! Simulation of one bottleneck: any number of sources, a classifier, one core link, sinks; or of a
//! [`network`] of such links.
//!
//! [`run()`] takes a [`Scenario`] and returns a [`Report`]. The link is the one that forwards on a
//! live line; only the code that advances its time differs ([`weir_trace::drive`]). Nothing here
//! reads a clock: the same scenario with the same seed gives the same report, to the byte.
//!
//! [`replay()`] takes a capture through a policy.
#![forbid(unsafe_code)]

pub mod behind;
pub mod bins;
pub mod change;
mod classes;
pub mod compare;
mod connections;
pub mod conversation;
mod detailed;
mod events;
mod feeds;
mod figures;
pub mod frame;
pub mod host;
mod interval;
pub mod keeping;
pub mod kinds;
pub mod load;
mod losses;
pub mod memory;
mod meter;
pub mod network;
mod packets;
pub mod promise;
mod quic;
pub mod random;
pub mod read;
pub mod recorded;
pub mod replay;
pub mod replicate;
pub mod report;
mod run;
pub mod scenario;
pub mod schedule;
pub mod script;
pub mod segments;
mod senders;
mod source;
mod tcp;
pub mod timeline;
mod transport;
pub mod watch;
pub mod whatif;

pub use host::Host;
pub use packets::Content;
pub use replay::{ReplayReport, replay, replay_explained};
pub use report::Report;
pub use run::{RunError, run, run_explained, run_noting_peaks, run_watched};
pub use scenario::Scenario;
pub use watch::{Fate, Tell, Watch};
