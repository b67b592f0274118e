//! Rates of links whose capacity varies, such as those of mobile networks, satellites and cable.
//!
//! An [`Estimator`] reads the frames that pass, and measures how long they wait *behind* the link:
//! in the modem. It adds none, unless it is given reflectors to ask where nothing passes that
//! tells. A [`Controller`] decides from that by how much the link's rate changes. [`Autorate`]
//! joins both for the two directions of a link. Time is an argument, nothing is random, and every
//! table has a bound: the same calls give the same rates, to the bit.
//!
//! Invariant: a rate lies within its [`Limits`], whatever is fed.
#![no_std]

extern crate alloc;

mod autorate;
mod baseline;
mod clock;
pub mod controller;
mod estimator;
mod flow;
mod frame;
mod measure;
mod quantile;
mod reflectors;
mod round;
mod saved;
mod table;

pub use autorate::{Autorate, Director, Plan, Step};
pub use controller::{Controller, Decision, Limits, Reason};
pub use estimator::{Estimator, INTERVAL};
pub use frame::{FlowId, Frame, Segment, Stamp, TcpSegment, Way};
pub use measure::{Measure, Shaper};
pub use reflectors::{Echo, REFLECTORS_MAX, REFLECTORS_MIN};
pub use table::{FLOWS_MAX, FLOWS_PER_HOST_MAX, Ticket};
