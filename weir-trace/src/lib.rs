//! What links did, in files: [`capture`]s of frames, and [`record`]s of running links.
#![forbid(unsafe_code)]

pub mod capture;
pub mod record;
