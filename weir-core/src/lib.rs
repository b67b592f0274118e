//! The packet-scheduling core.
#![no_std]
extern crate alloc;
