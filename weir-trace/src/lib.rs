//! What a link did, in files: [`record`]s of running links.
#![forbid(unsafe_code)]

pub mod record;
