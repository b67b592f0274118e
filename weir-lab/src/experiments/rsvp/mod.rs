//! Reservations by RSVP on real sockets: what ten thousand sessions cost a router, what a thousand
//! reservations that come and go do to the packets of others, and what half of all messages lost
//! does to reservations. A sheet of `[risso99]` is measured in the same way (`paper.rs`).
//!
//! Routers are `weir up` with `[deployment.rsvp]`, each with processes and a network of its own.
//! The two hosts are nodes of `weir-rsvp` in this process, on sockets of two more networks; they
//! and the routers share nothing but packets.

mod churn;
mod host;
mod loss;
mod paper;
mod scene;
mod sessions;

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rsvp",
    summary: "reservations on live routers: what sessions cost, changes under load, lost messages",
    measure: Some(paper::measure),
    own: Some(Own::live(run)),
};

/// A part: the beginning of its rows, and what measures it.
type Part = (&'static str, fn(&Options) -> Result<Vec<Row>, String>);

const PARTS: [Part; 3] =
    [(sessions::NAME, sessions::run), (churn::NAME, churn::run), (loss::NAME, loss::run)];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    PARTS.iter().try_for_each(|(name, measure)| rows.measure(name, measure))
}

/// A count that has to be 0.
fn none(subject: String, count: u64, unit: &str) -> Row {
    Row { measured: format!("{count} {unit}"), ..Row::at_most(subject, count as f64, 0.0, unit) }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
