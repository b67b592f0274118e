//! Integrated services: what a flow sends, what a reservation asks, what a path offers.
//!
//! A [`Tspec`] bounds a flow's traffic, a [`Flowspec`] asks for a service, an [`Adspec`] tells what
//! the path can give `[rfc2210]`. Their arithmetic is that of [rfc2211 §8] and `[rfc2212]`; rates
//! are bytes a second and sizes bytes in `f32`, the form that they have on the wire.

mod adspec;
mod delay;
pub(crate) mod format;
mod spec;

pub use adspec::{Adspec, Characterization, ControlledLoadPath, General, GuaranteedPath, Terms};
pub use adspec::{LATENCY_UNKNOWN, OtherService, Overrides};
pub use delay::{queueing_delay_max, rate_for_delay};
pub use spec::{Flowspec, Rspec, Service, Tspec};
