//! The cost of explaining why packets wait: the workload of the bench with and without.
//!
//! Three links take turns: two without explanation, whose ratio shows the machine's noise, and one
//! with it. Taking the sojourns out counts.

use super::figure::Figure;
use super::road::{Road, group_of, population};
use super::{Effort, Entry, Workload, affordable, entries, median};
use serde::Serialize;

/// The largest ratio of the cost with explanation to that without.
pub const RATIO_MAX: f64 = 1.25;

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet without explanation, the median of the rounds.
    pub nanos: f64,
    /// ns per packet with explanation, the median of the rounds.
    pub explained_nanos: f64,
    /// One link without explanation to another in the same round, the median of the rounds: noise.
    pub noise: f64,
    /// With explanation to without in the same round, the median of the rounds.
    pub ratio: f64,
    /// Whether that is at most [`RATIO_MAX`].
    pub holds: bool,
}

/// Measures every scheduler of the workload at each number of leaves.
///
/// # Errors
/// When no scheduler has one of the keywords.
pub fn measure(workload: Workload<'_>, mut progress: impl FnMut(&Row)) -> Result<Vec<Row>, String> {
    let entries = entries(workload.only)?;
    let mut rows = Vec::new();
    for &leaves in workload.leaves {
        for entry in &entries {
            rows.push(measure_one(entry, leaves, workload));
            progress(rows.last().expect("a row was just pushed"));
        }
    }
    Ok(rows)
}

/// The rows as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |row: &Row| {
        let what = format!("{}, {} leaves: cost when explained", row.scheduler, row.leaves);
        Figure::at_most(what, RATIO_MAX, row.ratio)
    };
    rows.iter().map(figure).collect()
}

fn measure_one(entry: &Entry, leaves: usize, workload: Workload<'_>) -> Row {
    let Workload { lengths, effort, .. } = workload;
    let road = || Road::new(entry, leaves, group_of(leaves), population(leaves), lengths);
    let mut roads = [road(), road(), road()];
    roads[2].explain();
    let [first, ..] = &mut roads;
    let effort = Effort { packets: affordable(first, effort.packets / 2), ..effort };
    for each in &mut roads[1..] {
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
    use super::super::Lengths;
    use super::*;

    #[test]
    fn every_scheduler_is_measured_with_and_without() {
        let effort = Effort { rounds: 1, packets: 1_000 };
        let workload = Workload { only: &[], leaves: &[10], lengths: Lengths::Mixed, effort };
        let rows = measure(workload, |_| {}).expect("all are registered");
        assert_eq!(rows.len(), entries(&[]).expect("all").len());
        assert!(rows.iter().all(|row| row.nanos > 0.0 && row.ratio > 0.0), "{rows:?}");
    }
}
