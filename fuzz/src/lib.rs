//! Fuzz targets: for every parser one function that takes any bytes and panics on a fault.
//!
//! libFuzzer calls it from `fuzz_targets/`, the brief run of `make test` from `tests/brief.rs`.

pub mod brief;
mod capture;
mod packet;
mod policy;

pub use capture::capture;
pub use packet::packet;
pub use policy::policy;

/// A target: it panics if the bytes uncover a fault.
pub type Target = fn(&[u8]);

/// Every target, with the name of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] =
    &[("capture", capture), ("packet", packet), ("policy", policy)];
