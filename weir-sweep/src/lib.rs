//! Sweeps: one scenario with many values, each several times, and one table of what came out.
//!
//! A [`Spec`] says what to run; [`Sweep`] numbers its runs, and each depends on its number alone,
//! so that any worker may do it, again if need be. A [`Journal`] keeps finished runs, and a sweep
//! that was killed goes on behind them; [`table`] writes the finished table. `docs/sweeps.md` has
//! the forms. Invariant: the same sweep gives the same table, whatever did its runs, in which order
//! and how often it was stopped.
#![forbid(unsafe_code)]

pub mod design;
pub mod edit;
pub mod file;
pub mod journal;
mod lines;
pub mod local;
pub mod metric;
pub mod summary;
pub mod sweep;
pub mod table;

pub use design::{Axis, Design, Method};
pub use journal::Journal;
pub use summary::Summary;
pub use sweep::{Done, Instead, Planned, Spec, Sweep};
