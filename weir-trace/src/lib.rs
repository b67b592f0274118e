//! The past of links, in files, and what follows from it.
//!
//! A [`capture`] has frames; a [`record`] has every call that the core of a running link got, and
//! what came of it. [`recorded`] makes a record again and compares. A [`load`] is what a link was
//! offered. [`drive`] takes a link through it, with the line or a [`driver`] behind the scheduler:
//! [`series`] has what each class did, [`causes`] why packets waited, [`remedy`] which single
//! change would have kept a promise, [`fork`] two futures of a moment. A [`capacity`] is what a
//! line could send over time. Nothing here reads a clock: the same record gives the same results,
//! to the bit.
#![forbid(unsafe_code)]

pub mod capacity;
pub mod capture;
pub mod causes;
pub mod drive;
pub mod driver;
pub mod explain;
pub mod fork;
pub mod load;
pub mod parallel;
mod pcapng;
pub mod record;
pub mod recorded;
pub mod remedy;
pub mod series;
pub mod shown;
