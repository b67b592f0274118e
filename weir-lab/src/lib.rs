//! Experiments and claims: what Weir says of itself, measured.

pub mod bench;
pub mod claims;
pub mod demo;
pub mod experiments;
pub mod papers;
pub mod report;
pub mod rig;
pub mod tree;
