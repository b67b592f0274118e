//! TCP endpoints as values: one [`Endpoint`] is one side of one connection.
//!
//! Nothing here reads a clock, does I/O or holds a byte of data: time comes in as an argument, and
//! a [`Segment`] is sequence numbers, flags, options and a length. Where the RFCs leave freedom,
//! Linux (about 6.12) is the model, and a comment names its function. The driver calls
//! [`Endpoint::receive`], [`Endpoint::wake`] and the application's calls, and after each of them
//! [`Endpoint::emit`] until it returns `None`. `docs/sources.md` has the keys in `[key §n]`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ack;
pub mod cc;
mod config;
mod ecn;
mod emission;
mod endpoint;
mod handshake;
mod profile;
mod rate;
mod receiver;
mod recovery;
mod report;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod seq;
mod timers;
mod tuning;
mod window;

pub use config::{
    AccurateOption, AckPolicy, BufferPolicy, Cubic, EcnMode, HyStart, InitialWindow, RateLimits,
    Recovery, Retries, RtoPolicy, SackCompression, SlowStart,
};
pub use config::{Config, Congestion};
pub use endpoint::{Endpoint, Options, State};
pub use profile::Profile;
pub use report::{CaState, Cause, Info, Limits, Report};
pub use segment::{AccEcn, Ecn, Flags, SackBlock, SackBlocks, Segment, Timestamps};
pub use seq::SeqNumber;
