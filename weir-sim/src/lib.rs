//! weir-sim

pub mod capture;
