//! Records of random links, for tests.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod policies;
pub mod recording;
