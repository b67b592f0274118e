//! Where a keeper writes events.

pub mod apart;
pub mod write;
