//! Promises of a policy, simulated: several runs of the scenario that each names, an interval of
//! confidence, and whether it lies where it should.
//!
//! Runs differ in their seeds only. The interval is Student's at 95 %, widened by what the buckets
//! of a histogram leave open; a promise is *kept* if all of it is on the right side of the goal,
//! *broken* if all of it is on the wrong one, *undecided* between. One run has no interval, so what
//! it measures decides nothing.

use crate::behind::BehindReport;
use crate::replicate::Estimate;
use crate::report::{ClassReport, Report};
use crate::run::{RunError, run_noting_peaks};
use crate::scenario::Scenario;
use serde::Serialize;
use weir_core::ids::ClassId;
use weir_core::sched::Tree;
use weir_core::units::Duration;
use weir_policy::calculus;
use weir_policy::policy::{Behind, Goal, Measure, Metric, Promised};

/// The result of one promise.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Proof {
    /// The measured value, the mean over the runs; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// Half the width of the confidence interval; `None` for one run.
    pub plus_minus: Option<f64>,
    /// The value that it was compared with, the mean over the runs.
    pub goal: Option<f64>,
    /// The promise was kept, broken, or neither for certain.
    pub verdict: Verdict,
}

/// Whether a promise holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval meets the goal.
    Kept,
    /// The goal lies within the confidence interval, or there is none.
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
    let measure = |measure| -> Option<Vec<Measured>> {
        seen.iter().map(|run| measured(measure, tree, run)).collect()
    };
    let own = measure(promised.measure).filter(|rows| !rows.is_empty());
    let goals = match promised.goal {
        Goal::Value(value) => Some(vec![Measured::exact(value); seen.len()]),
        Goal::Part(part, other) => {
            measure(other).map(|rows| rows.iter().map(|row| row.times(part)).collect())
        }
    };
    let (Some(own), Some(goals)) = (own, goals) else {
        return Proof { measured: None, plus_minus: None, goal: None, verdict: Verdict::Broken };
    };
    // Both come from the same run, so they are compared run by run.
    let differences: Vec<_> = own.iter().zip(&goals).map(|(own, goal)| own.minus(*goal)).collect();
    let difference = estimate(&differences);
    let holds = |difference| promised.comparison.holds(difference, 0.0);
    let ends = difference.within.map(|half| [difference.mean - half, difference.mean + half]);
    let verdict = match ends.map(|ends| ends.map(holds)) {
        Some([true, true]) => Verdict::Kept,
        Some([false, false]) => Verdict::Broken,
        _ => Verdict::Undecided,
    };
    Proof {
        measured: Some(estimate(&own).mean),
        plus_minus: difference.within,
        goal: Some(estimate(&goals).mean),
        verdict,
    }
}

/// The measure of one run, and how far the truth of that run may be from it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    value: f64,
    resolution: f64,
}

impl Measured {
    fn exact(value: f64) -> Self {
        Self { value, resolution: 0.0 }
    }

    fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, resolution: self.resolution * factor }
    }

    fn minus(self, other: Self) -> Self {
        let resolution = self.resolution + other.resolution;
        Self { value: self.value - other.value, resolution }
    }
}

fn estimate(rows: &[Measured]) -> Estimate {
    let values: Vec<_> = rows.iter().map(|row| row.value).collect();
    let resolutions: f64 = rows.iter().map(|row| row.resolution).sum();
    Estimate::of(&values).widened(resolutions / rows.len() as f64)
}

fn measured(measure: Measure<ClassId>, tree: &Tree, run: &Observation) -> Option<Measured> {
    let (class, metric) = match measure {
        Measure::Class(class, metric) => (class, metric),
        Measure::Fairness => return run.fairness.map(Measured::exact),
        Measure::Behind(metric) => return behind(metric, run.report.behind.as_ref()?),
    };
    let name = &tree.class(class).name;
    let row = run.report.classes.iter().find(|row| row.name == *name)?;
    match metric {
        Metric::BacklogMax => {
            let below = |leaf: &weir_core::ids::LeafId| {
                tree.path(tree.class_of(*leaf)).any(|above| above == class)
            };
            let leaves = tree.leaves().map(|row| row.0).filter(below);
            // For several leaves the sum is an upper bound, since they need not be full at once.
            let peaks = leaves.map(|leaf| run.peaks.get(leaf.index()).map(|&peak| peak as f64));
            peaks.sum::<Option<f64>>().map(Measured::exact)
        }
        _ => of_class(metric, row),
    }
}

/// Returns a metric of the bottleneck behind the link. Its quantiles are known to a bucket of 3 %.
fn behind(metric: Behind, report: &BehindReport) -> Option<Measured> {
    let delays = &report.delay;
    let value = match metric {
        Behind::Used => return Some(Measured::exact(report.used)),
        Behind::Delay(500) => delays.p50,
        Behind::Delay(950) => delays.p95,
        Behind::Delay(_) => delays.p99,
    };
    let seconds = value.as_nanos() as f64 / 1e9;
    (delays.count > 0).then_some(Measured { value: seconds, resolution: seconds * 0.03 })
}

fn of_class(metric: Metric, row: &ClassReport) -> Option<Measured> {
    let delay = |value: Duration, resolution: Duration| {
        let seconds = |duration: Duration| duration.as_nanos() as f64 / 1e9;
        let measured = Measured { value: seconds(value), resolution: seconds(resolution) };
        (row.delay.count > 0).then_some(measured)
    };
    let [p50, p90, p99] = row.delay.resolution;
    match metric {
        Metric::Rate => Some(Measured::exact(row.sent.bits_per_second as f64)),
        Metric::Delay(500) => delay(row.delay.p50, p50),
        Metric::Delay(900) => delay(row.delay.p90, p90),
        Metric::Delay(990) => delay(row.delay.p99, p99),
        Metric::Delay(_) => delay(row.delay.max, Duration::ZERO),
        Metric::DelayMean => delay(row.delay.mean, Duration::ZERO),
        Metric::Drops => Some(Measured::exact(row.dropped.total.packets as f64)),
        Metric::Loss => {
            let offered = row.offered.packets;
            let loss = row.dropped.total.packets as f64 / offered as f64;
            (offered > 0).then_some(Measured::exact(loss))
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
