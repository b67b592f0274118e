//! The search for a single change that would have kept a promise which a load broke.
//!
//! [`look`] replays a [`Load`] as it was, judges its [`Condition`]s, and for each broken one
//! searches the settings of the policy ([`weir_policy::setting`]) for the smallest change of one
//! that keeps it. Replays are open loop ([`crate::load`]). Invariant: what is proposed was
//! replayed, kept the condition, and broke none that held.

mod command;
mod condition;
mod report;
mod search;
mod tally;

pub use condition::{Condition, Judged, Origin};
pub use search::{
    Bounds, Effect, PACKETS_MAX, PROPOSALS_MAX, Proposal, REPLAYS_MAX, Remedy, SETTINGS_MAX, SIZES,
    Search, Tried,
};
pub use tally::{Share, Tally};

use crate::load::Load;
use serde::Serialize;

/// The conditions of a load, and what would have kept those that it broke.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Remedies {
    /// Every condition with whether it held.
    pub conditions: Vec<Judged>,
    /// For each broken one, up to [`BROKEN_MAX`], what would have kept it.
    pub remedies: Vec<Remedy>,
    /// The number of broken conditions beyond these.
    pub broken_left: usize,
}

impl Remedies {
    /// Returns whether a condition was broken.
    pub fn is_broken(&self) -> bool {
        self.conditions.iter().any(|row| row.kept == Some(false))
    }
}

/// Judges the conditions of a load's policy and those of `asked`, and finds a remedy for each that
/// is broken.
///
/// # Errors
/// When one of `asked` is no condition, or a plan of the load does not build.
pub fn look(load: &Load, asked: &[String], bounds: Bounds) -> Result<Remedies, String> {
    let asked = asked.iter().map(|text| Condition::read(text, load));
    let mut conditions = asked.collect::<Result<Vec<_>, _>>()?;
    let plans = load.plans();
    let tally = |peaks| Tally::of(load, &plans, peaks).map_err(|error| error.to_string());
    let mut seen = tally(false)?;
    conditions.extend(Condition::of_policy(load, &seen));
    if conditions.iter().any(Condition::needs_peaks) {
        seen = tally(true)?;
    }
    let judged: Vec<Judged> = conditions.iter().map(|one| one.judge(&seen)).collect();
    let broken = |&(_, row): &(usize, &Judged)| row.kept == Some(false);
    let broken: Vec<_> = judged.iter().enumerate().filter(broken).collect();
    let search = Search::new(load, &conditions, &seen, bounds)?;
    let found = broken.iter().take(BROKEN_MAX);
    let remedies = found.map(|&(place, row)| search.remedy(place, row.clone())).collect();
    let broken_left = broken.len().saturating_sub(BROKEN_MAX);
    Ok(Remedies { conditions: judged, remedies, broken_left })
}

/// Bound: broken conditions for which a remedy is looked for; further ones are counted.
pub const BROKEN_MAX: usize = 8;
