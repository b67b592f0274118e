//! Experiments and claims: measures what Weir claims of itself.

pub mod bench;
pub mod busy;
pub mod claims;
pub mod demo;
pub mod experiments;
pub mod report;
pub mod rig;
pub mod rows;
pub mod score;
pub mod tree;
