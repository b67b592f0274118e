//! Experiments and claims: measures what Weir claims of itself.

pub mod busy;
pub mod claims;
pub mod experiments;
pub mod parallel;
mod program;
pub mod report;
pub mod rows;
pub mod streams;
pub mod tree;
