//! What it costs to explain why packets wait: the same road with and without.
//!
//! Three links take turns: two that explain nothing, whose ratio says what the machine's noise is
//! worth, and one that explains; taking the sojourns out counts.

use super::road::{Lengths, Road, group_of, population};
use super::{Effort, Entry, measure_each, median};
use serde::Serialize;

/// The most that explaining may cost, to the road without.
pub const RATIO_MAX: f64 = 1.25;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet without explanation, the median of the rounds.
    pub nanos: f64,
    /// With it.
    pub explained_nanos: f64,
    /// One link without explanation to another in the same round, the median of the rounds: noise.
    pub noise: f64,
    /// With explanation to without in the same round, the median of the rounds.
    pub ratio: f64,
    /// Whether that is at most [`RATIO_MAX`].
    pub holds: bool,
}

/// Measures every scheduler (or the one named) at each number of leaves.
///
/// # Errors
/// When no scheduler has the keyword.
pub fn measure(
    only: Option<&str>,
    leaves: &[usize],
    effort: Effort,
    progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    measure_each(only, leaves, |entry, count| measure_one(entry, count, effort), progress)
}

fn measure_one(entry: &Entry, leaves: usize, effort: Effort) -> Row {
    let road = || Road::new(entry, leaves, group_of(leaves), population(leaves), Lengths::Mixed);
    let mut roads = [road(), road(), road()];
    roads[2].explain();
    for each in &mut roads {
        each.run(effort.packets / 4);
    }
    let [mut nanos, mut explained, mut noises, mut ratios] = [const { Vec::new() }; 4];
    for _ in 0..effort.rounds {
        let [without, again, with] = roads.each_mut().map(|each| each.run(effort.packets));
        nanos.push(without);
        explained.push(with);
        noises.push(again / without);
        ratios.push(with / ((without + again) / 2.0));
    }
    let ratio = median(&mut ratios);
    Row {
        scheduler: entry.descriptor.keyword,
        leaves,
        nanos: median(&mut nanos),
        explained_nanos: median(&mut explained),
        noise: median(&mut noises),
        ratio,
        holds: ratio <= RATIO_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_measured_with_and_without() {
        let effort = Effort { rounds: 1, packets: 1_000 };
        let rows = measure(None, &[10], effort, |_| {}).expect("all are registered");
        assert_eq!(rows.len(), super::super::entries(None).expect("all").len());
        assert!(rows.iter().all(|row| row.nanos > 0.0 && row.ratio > 0.0), "{rows:?}");
        assert!(measure(Some("none"), &[10], effort, |_| {}).is_err());
    }
}
