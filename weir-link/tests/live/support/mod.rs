//! Shared by live rows: a forwarder, whole frames, and what only tests do to sockets and threads.
#![allow(missing_docs, unsafe_code)]

pub mod bridge;
pub mod lanes;
pub mod locked;
pub mod raw;
pub mod rings;
pub mod traffic;
