//! Shared by live tests.
#![allow(dead_code, missing_docs, unsafe_code, reason = "each test program uses its part")]

pub mod bridge;
pub mod groups;
pub mod locked;
pub mod raw;
pub mod reserving;
pub mod rings;
