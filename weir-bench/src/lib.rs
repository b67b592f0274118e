//! Measurements on this machine: `weir bench`, `weir demo` and `weir calibrate`, and the private
//! networks that they and the lab run in.

pub mod bench;
pub mod demo;
pub mod rig;
pub mod score;
