//! Experiments and claims: what Weir says of itself, measured.

pub mod bench;
pub mod claims;
pub mod compare;
pub mod demo;
pub mod experiments;
pub mod papers;
pub mod replicate;
pub mod report;
pub mod rig;
pub mod tree;
