//! Experiments and claims: what Weir says of itself, measured.

pub mod bench;
pub mod claims;
pub mod demo;
pub mod experiments;
pub mod report;
pub mod rig;
pub mod rows;
pub mod tree;
