//! Experiments and claims: what Weir says of itself, measured.

pub mod bench;
pub mod bench_check;
pub mod bench_classify;
pub mod bench_memory;
pub mod bench_peer;
pub mod bench_profile;
pub mod claims;
pub mod compare;
pub mod demo;
pub mod experiments;
pub mod papers;
pub mod replicate;
pub mod report;
pub mod rig;
pub mod tree;
