//! The cost of a packet, for every scheduler and number of leaves, by the calls that the product
//! makes.
//!
//! `road` is the loop that is measured. Every scheduler runs in turn with `fifo` at the same number
//! of leaves, so the ratio is taken within one run; absolute figures vary with the machine.
//! Classification has a column of its own: a packet is classified before the link sees it, by as
//! many rules as there are leaves, whatever the scheduler.

pub mod autorate;
pub mod check;
pub mod classify;
pub mod droppers;
pub mod explain;
pub mod figure;
pub mod instructions;
pub mod live;
pub mod memory;
pub mod peer;
pub mod profile;
pub mod reload;
mod road;

pub use road::Lengths;

use figure::Figure;
use road::{Road, group_of, population};
use serde::Serialize;
use weir_core::classify::CLASSIFIERS;
use weir_core::sched::{Entry, SCHEDULERS};

/// The numbers of leaves that `weir bench` runs.
pub const LEAVES: &[usize] = &[8, 104, 1_024];

/// The numbers of leaves of `weir bench --goals`: some with goals, others only reported.
pub const LEAVES_REPORTED: &[usize] = &[104, 1_024, 53_248, 1_000_000];

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The number of leaves.
    pub leaves: usize,
    /// ns per packet, the median of the rounds.
    pub nanos: f64,
    /// The ratio to `fifo` in the same round, the median of the rounds.
    pub ratio: f64,
    /// The least and the largest ratio of a round.
    pub ratios: (f64, f64),
    /// ns to classify a packet by as many rules as there are leaves; `None` above
    /// [`CLASSIFIED_MAX`].
    pub classify_nanos: Option<f64>,
    /// The goal of the ratio, if there is one.
    pub goal: Option<f64>,
    /// The ratio is not above the goal.
    pub holds: bool,
}

/// The measurements to make.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The schedulers; all if there are none.
    pub only: &'a [String],
    /// The numbers of leaves.
    pub leaves: &'a [usize],
    /// The lengths of packets.
    pub lengths: Lengths,
    /// How long to measure.
    pub effort: Effort,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, of which the median is taken.
    pub rounds: usize,
    /// Packets in a round; fewer where they would take longer than [`ROUND_NANOS_MAX`].
    pub packets: u64,
}

impl Workload<'_> {
    /// The number of rows that this makes.
    ///
    /// # Errors
    /// When no scheduler has one of the keywords.
    pub fn rows(&self) -> Result<usize, String> {
        Ok(entries(self.only)?.len() * self.leaves.len())
    }
}

/// Measures every scheduler of the workload at each number of leaves.
///
/// # Errors
/// When no scheduler has one of the keywords.
pub fn measure(workload: Workload<'_>, mut progress: impl FnMut(&Row)) -> Result<Vec<Row>, String> {
    let entries = entries(workload.only)?;
    let mut rows = Vec::new();
    for &leaves in workload.leaves {
        let classify_nanos = classify_nanos(leaves, workload.effort);
        for entry in &entries {
            let row = measure_one(entry, leaves, workload);
            rows.push(Row { classify_nanos, ..row });
            progress(rows.last().expect("a row was just pushed"));
        }
    }
    Ok(rows)
}

/// Returns the rows with goals, as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |row: &Row| {
        let what = format!("{}, {} leaves: cost to `{}`", row.scheduler, row.leaves, yardstick());
        Some(Figure::at_most_in_rounds(what, row.goal?, row.ratio, row.ratios))
    };
    rows.iter().filter_map(figure).collect()
}

/// Every scheduler, or those named.
fn entries(only: &[String]) -> Result<Vec<&'static Entry>, String> {
    let find = |keyword: &String| {
        weir_core::sched::find(keyword).ok_or_else(|| {
            let all = keywords().collect::<Vec<_>>().join(", ");
            format!("no scheduler is called `{keyword}`; there are {all}")
        })
    };
    if only.is_empty() { Ok(SCHEDULERS.iter().collect()) } else { only.iter().map(find).collect() }
}

/// The scheduler that every other is compared with: the first in the registry, which is the
/// plainest.
pub fn yardstick() -> &'static str {
    SCHEDULERS[0].descriptor.keyword
}

/// The schedulers with goals.
pub fn goal_schedulers() -> Vec<String> {
    GOALS.map(|goal| goal.0.to_owned()).to_vec()
}

fn keywords() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.iter().map(|entry| entry.descriptor.keyword)
}

/// Returns the time to classify a packet by `rules` rules, with a policy's default classifier.
fn classify_nanos(rules: usize, effort: Effort) -> Option<f64> {
    let all = CLASSIFIERS.first().filter(|_| rules <= CLASSIFIED_MAX)?;
    Some(classify::nanos(all.keyword, rules, effort))
}

/// Alternates the scheduler with the yardstick, so that both run at the same time on the machine.
fn measure_one(entry: &Entry, leaves: usize, workload: Workload<'_>) -> Row {
    let Workload { lengths, effort, .. } = workload;
    let road = |entry| Road::new(entry, leaves, group_of(leaves), population(leaves), lengths);
    let (mut subject, mut yardstick) = (road(entry), road(&SCHEDULERS[0]));
    yardstick.run(effort.packets / 4);
    let packets = affordable(&mut subject, effort.packets);
    let (mut nanos, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let mine = subject.run(packets);
        nanos.push(mine);
        ratios.push(mine / yardstick.run(effort.packets / 2));
    }
    let scheduler = entry.descriptor.keyword;
    let (ratio, goal) = (median(&mut ratios), goal_of(scheduler, leaves));
    Row {
        scheduler,
        leaves,
        nanos: median(&mut nanos),
        ratio,
        // The median has sorted them.
        ratios: (ratios[0], ratios[ratios.len() - 1]),
        classify_nanos: None,
        goal,
        holds: goal.is_none_or(|goal| ratio <= goal),
    }
}

/// Returns as many packets as a round has time for; warms the caches.
fn affordable(road: &mut Road, packets: u64) -> u64 {
    let few = (packets / 100).max(1);
    let nanos = road.run(few).min(road.run(few));
    let affordable = (ROUND_NANOS_MAX / nanos.max(1.0)) as u64;
    let packets = packets.min(affordable.max(few));
    road.run(packets / 4);
    packets
}

/// The goal of a packet's cost, relative to the yardstick.
fn goal_of(scheduler: &str, leaves: usize) -> Option<f64> {
    let goal = GOALS.iter().find(|goal| goal.0 == scheduler && GOAL_LEAVES.contains(&leaves));
    goal.map(|goal| goal.1)
}

/// Returns the median, and sorts the values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The most that a packet of mixed lengths may cost in these schedulers, relative to `fifo`.
const GOALS: [(&str, f64); 4] = [("htb", 2.5), ("cbq", 5.3), ("wf2q+", 3.0), ("hfsc", 5.5)];
/// With these numbers of leaves.
const GOAL_LEAVES: [usize; 2] = [104, 1_024];
/// Time of a round at most, in ns.
pub const ROUND_NANOS_MAX: f64 = 60_000_000.0;
/// The most rules that are built quickly.
pub const CLASSIFIED_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_has_a_row_and_goals_become_figures() {
        let effort = Effort { rounds: 1, packets: 1_000 };
        let workload = Workload { only: &[], leaves: &[104], lengths: Lengths::Mixed, effort };
        let rows = measure(workload, |_| {}).expect("all are registered");
        assert_eq!(rows.len(), SCHEDULERS.len());
        assert_eq!(workload.rows(), Ok(rows.len()));
        assert!(rows.iter().all(|row| row.nanos > 0.0 && row.classify_nanos > Some(0.0)));
        assert_eq!(figures(&rows).len(), GOALS.len());
    }

    #[test]
    fn an_unknown_scheduler_is_named() {
        let only = ["fiffo".to_owned()];
        let error = entries(&only).err().unwrap_or_default();
        assert!(error.contains("`fiffo`; there are fifo,"), "{error}");
    }
}
