//! Turns policy text into a checked plan, with findings that point at the line.
//!
//! [`reader`] reads any spanned TOML; [`finding`] reports what is wrong, where, and the cure. The
//! parameters of a scheduler or dropper come from its descriptor in `weir-core`. Nothing here does
//! I/O, except [`mod@file`].
#![forbid(unsafe_code)]

pub mod calculus;
pub mod codes;
pub mod csv;
pub mod deployment;
pub mod diff;
pub mod edit;
pub mod file;
pub mod finding;
pub mod fix;
pub mod fluid;
pub mod keyed;
pub mod keys;
pub mod knobs;
mod lints;
pub mod policy;
pub mod reader;
pub mod render;
pub mod setting;
mod synonyms;
pub mod table;
pub mod translate;

pub use deployment::Deployment;
pub use finding::{Finding, Outcome, Severity};
pub use lints::{Trap, traps};
pub use policy::{Policy, Promise, parse};

/// Returns every code of this crate, in order: those of [`codes`] and one for each lint.
pub fn every_code() -> Vec<&'static codes::Code> {
    let mut all: Vec<_> = codes::ALL.iter().chain(lints::CODES).copied().collect();
    all.sort_by_key(|code| code.id);
    all
}
