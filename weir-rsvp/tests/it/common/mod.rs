//! Shared by tests of reservations.

pub mod messages;
pub mod net;
