//! Imports other tools' files as policies, and exports policies to their files.
//!
//! [`import`] reads ALTQ's, pf's and tc's configurations; [`export`] writes tc's commands. Nothing
//! here does I/O.
#![forbid(unsafe_code)]

pub mod export;
pub mod import;
