//! Promises of a policy, simulated: several runs of the scenario that each names, an interval of
//! confidence, and whether it lies where it should.
//!
//! Runs differ in their seeds only. The interval is Student's at 95 %; a promise is *kept* if all
//! of it is on the right side of the goal, *broken* if all of it is on the wrong one, *undecided*
//! between. With one run, or with runs that are alike, the interval is a point.

use crate::report::{ClassReport, Report};
use crate::run::{RunError, run_noting_peaks};
use crate::scenario::Scenario;
use serde::Serialize;
use weir_core::ids::ClassId;
use weir_core::sched::Tree;
use weir_core::units::Duration;
use weir_policy::calculus;
use weir_policy::policy::{Goal, Measure, Metric, Promised};

/// The result of one promise.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Proof {
    /// The measured value, the mean over the runs; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// Half the width of the confidence interval.
    pub plus_minus: f64,
    /// The value that it was compared with, the mean over the runs.
    pub goal: Option<f64>,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// Whether a promise holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval meets the goal.
    Kept,
    /// The goal lies within the confidence interval.
    Undecided,
    /// The whole interval misses the goal, or nothing was measured.
    Broken,
}

/// The values of one run that promises refer to.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    report: Report,
    /// The most that waited in each leaf, in bytes.
    peaks: Vec<u64>,
    fairness: Option<f64>,
}

impl Verdict {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Undecided => "undecided",
            Verdict::Broken => "broken",
        }
    }
}

/// Runs `scenario` with `runs` seeds, the first being its own.
///
/// # Errors
/// As [`crate::run()`].
pub fn observe(scenario: &Scenario, runs: u32) -> Result<Vec<Observation>, RunError> {
    let mut scenario = scenario.clone();
    let first = scenario.seed;
    let observation = |run: u32| {
        scenario.seed = first.wrapping_add(run.into());
        let (report, peaks) = run_noting_peaks(&scenario, &mut |_: Duration| {})?;
        let fairness = fairness(&scenario, &report);
        Ok(Observation { report, peaks, fairness })
    };
    (0..runs).map(observation).collect()
}

/// Compares observations with promises; `tree` is the policy's.
pub fn prove(promised: &Promised<ClassId>, tree: &Tree, seen: &[Observation]) -> Proof {
    let measure = |measure| -> Option<Vec<f64>> {
        seen.iter().map(|run| measured(measure, tree, run)).collect()
    };
    let own = measure(promised.measure).filter(|rows| !rows.is_empty());
    let goals = match promised.goal {
        Goal::Value(value) => Some(vec![value; seen.len()]),
        Goal::Part(part, other) => {
            measure(other).map(|rows| rows.iter().map(|row| row * part).collect())
        }
    };
    let (Some(own), Some(goals)) = (own, goals) else {
        return Proof { measured: None, plus_minus: 0.0, goal: None, verdict: Verdict::Broken };
    };
    // Both come from the same run, so they are compared run by run.
    let differences: Vec<_> = own.iter().zip(&goals).map(|(own, goal)| own - goal).collect();
    let (mean, half) = interval(&differences);
    let holds = |difference| promised.comparison.holds(difference, 0.0);
    let verdict = match (holds(mean - half), holds(mean + half)) {
        (true, true) => Verdict::Kept,
        (false, false) => Verdict::Broken,
        _ => Verdict::Undecided,
    };
    let average = |rows: &[f64]| rows.iter().sum::<f64>() / rows.len() as f64;
    Proof { measured: Some(average(&own)), plus_minus: half, goal: Some(average(&goals)), verdict }
}

fn measured(measure: Measure<ClassId>, tree: &Tree, run: &Observation) -> Option<f64> {
    let Measure::Class(class, metric) = measure else { return run.fairness };
    let name = &tree.class(class).name;
    let row = run.report.classes.iter().find(|row| row.name == *name)?;
    match metric {
        Metric::BacklogMax => {
            let below = |leaf: &weir_core::ids::LeafId| {
                tree.path(tree.class_of(*leaf)).any(|above| above == class)
            };
            let leaves = tree.leaves().map(|row| row.0).filter(below);
            // For several leaves the sum is an upper bound, since they need not be full at once.
            leaves.map(|leaf| run.peaks.get(leaf.index()).map(|&peak| peak as f64)).sum()
        }
        _ => of_class(metric, row),
    }
}

fn of_class(metric: Metric, row: &ClassReport) -> Option<f64> {
    let seconds =
        |duration: Duration| (row.delay.count > 0).then(|| duration.as_nanos() as f64 / 1e9);
    match metric {
        Metric::Rate => Some(row.sent.bits_per_second as f64),
        Metric::Delay(500) => seconds(row.delay.p50),
        Metric::Delay(900) => seconds(row.delay.p90),
        Metric::Delay(990) => seconds(row.delay.p99),
        Metric::Delay(_) => seconds(row.delay.max),
        Metric::DelayMean => seconds(row.delay.mean),
        Metric::Drops => Some(row.dropped.total.packets as f64),
        Metric::Loss => {
            let offered = row.offered.packets;
            (offered > 0).then(|| row.dropped.total.packets as f64 / offered as f64)
        }
        Metric::BacklogMax => None,
    }
}

/// Returns Jain's index over the leaves with traffic, of what each sent in relation to what the
/// fluid ideal gives it.
fn fairness(scenario: &Scenario, report: &Report) -> Option<f64> {
    let tree = &scenario.link.tree;
    let row = |class: &str| report.classes.iter().find(|row| row.name == class);
    let rates = |pick: fn(&ClassReport) -> u64| -> Option<Vec<f64>> {
        tree.leaves().map(|(_, class)| Some(pick(row(&class.name)?) as f64)).collect()
    };
    let offered = rates(|row| row.offered.bits_per_second)?;
    let sent = rates(|row| row.sent.bits_per_second)?;
    let due = calculus::due(&scenario.link, &offered);
    let parts: Vec<_> =
        sent.iter().zip(&due).filter(|row| *row.1 > 0.0).map(|(sent, due)| sent / due).collect();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    let sum: f64 = parts.iter().sum();
    (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

/// The mean, and half the width of Student's interval at 95 %.
fn interval(rows: &[f64]) -> (f64, f64) {
    let count = rows.len() as f64;
    let mean = rows.iter().sum::<f64>() / count;
    let squares: f64 = rows.iter().map(|row| (row - mean) * (row - mean)).sum();
    let freedom = rows.len().saturating_sub(1);
    if freedom == 0 || squares <= 0.0 {
        return (mean, 0.0);
    }
    let quantile = STUDENT.get(freedom - 1).copied().unwrap_or(STUDENT_MANY);
    (mean, quantile * (squares / freedom as f64 / count).sqrt())
}

/// Student's 97.5 % quantiles for 1, 2, ... degrees of freedom.
const STUDENT: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
];
/// The quantile for more degrees of freedom, slightly too large.
const STUDENT_MANY: f64 = 2.086;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_student() {
        assert_eq!(interval(&[3.0]), (3.0, 0.0));
        assert_eq!(interval(&[3.0, 3.0, 3.0]), (3.0, 0.0));
        let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // s = 1.5811, and 2.776 times that over the root of 5.
        assert_eq!(mean, 3.0);
        assert!((half - 1.9629).abs() < 1e-3, "{half}");
    }
}
