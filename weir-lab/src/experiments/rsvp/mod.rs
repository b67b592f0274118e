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
use crate::rows::{Options, Results, Row};
use weir_bench::rig;

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

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Results, String> {
    let _first = rig::prepare()?;
    let mut rows = Vec::new();
    for (_, measure) in PARTS.iter().filter(|(name, _)| options.wants(name)) {
        let made = measure(options)?;
        made.iter().for_each(&mut *progress);
        rows.extend(made);
    }
    Ok(rows.into())
}

/// A count that has to be 0.
fn none(subject: String, count: u64, unit: &str) -> Row {
    Row { measured: format!("{count} {unit}"), ..Row::at_most(subject, count as f64, 0.0, unit) }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
