//! Faults: what becomes of a link of `weir up`, started as an operator starts it, while interfaces
//! vanish, processes die and disks fill up.
//!
//! The parts, each with its rows: `soak` (a fault every few seconds under changing load, for the
//! whole time), `exit` (a process of the link dies, and the fallback carries traffic or does not),
//! `kill` (deaths at random instants under load), `rest` (what an idle link takes, and what its
//! forwarder may do). Every part has networks of its own; nothing outside them is touched.

mod canary;
mod exits;
mod kills;
mod link;
mod remains;
mod rest;
mod soak;
mod told;

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "faults",
    summary: "a link of `weir up` while interfaces vanish, processes die and disks fill up",
    measure: None,
    own: Some(Own::live(run)),
};

/// A part: the beginning of its rows' subjects, and what measures it.
type Part = (&'static str, fn(&Options, &mut dyn FnMut(Row)) -> Result<(), String>);

const PARTS: &[Part] = &[
    (rest::NAME, rest::run),
    (exits::NAME, exits::run),
    (kills::NAME, kills::run),
    (soak::NAME, soak::run),
];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (name, run) in PARTS {
        // `--only exit` takes a part, `--only "exit: open"` some of its rows.
        let is_wanted = rows.options.only.as_ref().is_none_or(|only| only.starts_with(name));
        if !is_wanted {
            continue;
        }
        if let Err(why) = run(rows.options, &mut |row| rows.add(row)) {
            // One that cannot be measured has failed, and says nothing about the others.
            rows.add(row(format!("{name}: measured"), why, "measured", false));
        }
    }
    Ok(())
}

/// A row whose claim holds or does not, without a number.
fn row(subject: String, measured: impl Into<String>, expected: &str, holds: bool) -> Row {
    Row {
        subject,
        measured: measured.into(),
        expected: expected.to_owned(),
        deviation: 0.0,
        limit: 0.0,
        holds,
    }
}
