//! Changes of a running link under load: random policies one after another over real packets, a
//! policy of very many classes read anew, and classes that join and leave one by one.
//!
//! The link is a bridge as `weir up` runs it, and changes come to it as from `weir set`
//! (`weir_link::change`). Eight streams of numbered datagrams cross it. Four have a class each that
//! stays, with other rates, queues and schedulers; the other four are moved by rules, and their
//! classes come and go.

mod joins;
mod many;
mod random;
mod scene;

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "changes",
    summary: "10 000 random changes of a running link under load, 50 000 classes read anew, and \
              classes that join and leave a thousand a second",
    measure: None,
    own: Some(Own::live(run)),
};

/// A part: the beginning of its rows' subjects, and what measures it.
type Part = (&'static str, fn(&Options) -> Result<Vec<Row>, String>);

const PARTS: &[Part] =
    &[(random::NAME, random::run), (many::NAME, many::run), (joins::NAME, joins::run)];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (name, run) in PARTS {
        if rows.options.only.as_ref().is_none_or(|only| only.starts_with(name)) {
            rows.extend(run(rows.options)?);
        }
    }
    Ok(())
}

/// A count that must be zero.
fn none(subject: String, count: u64, unit: &str) -> Row {
    Row::at_most(subject, count as f64, 0.0, unit)
}
