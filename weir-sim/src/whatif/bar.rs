//! The error bar of a forecast: a 90 % interval from what the known case and the replications tell.
//!
//! Two errors add up, as independent ones do, by the root of the sum of their squares.
//!
//! - *The model's.* In the known case a group's figure was off by a part of itself, or the
//!   distribution that it is of was: the root of the mean square of its quantiles' errors. One such
//!   error is one draw, and a small one may be luck, so its square counts as the mean of itself and
//!   the mean over the groups (of throughputs: over those that react, or that do not), unless it is
//!   larger than that. What 90 % of such errors do not exceed is Student's quantile with as many
//!   degrees of freedom as there were groups.
//! - *Chance.* Replications differ in starts and in what inference does not know for sure. The
//!   truth is one run more, not their mean, so their deviation counts with a root of 1 + 1/n, and
//!   Student's quantile, over the replications of all policies together.
//!
//! Invariant: no constant here was fitted to forecasts whose truth is known.

use super::measured::Measured;
use super::tally::Measure;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The errors of the known case over the groups, by which that of one group is judged.
pub(super) struct Pool {
    /// By figure: the squares of groups, and whether each reacts.
    squares: Vec<Vec<(f64, bool)>>,
    /// The groups of the finest partition.
    freedom: usize,
}

impl Pool {
    /// Of these groups, each with whether it reacts; the finest partition of them has so many.
    pub fn of<'a>(
        groups: impl Iterator<Item = (&'a Measured, bool)> + Clone,
        freedom: usize,
    ) -> Self {
        let squares = |place: usize| {
            let telling = groups.clone().filter(|(group, _)| group.is_telling(place));
            let errors = telling.filter_map(|(group, reacts)| {
                let error = group.misfit(place)?;
                Some((error * error, reacts))
            });
            errors.collect()
        };
        Self { squares: (0..Measure::ALL.len()).map(squares).collect(), freedom: freedom.max(1) }
    }

    /// Returns the deviation of a group's figure in other cases, from its error in the known one: a
    /// part of the value, or a difference.
    pub fn deviation(&self, place: usize, reacts: bool, own: f64) -> f64 {
        let is_alike =
            |other: &bool| Measure::ALL[place] != Measure::Throughput || *other == reacts;
        let alike = self.squares[place].iter().filter(|row| is_alike(&row.1));
        let (sum, count) = alike.fold((0.0, 0), |(sum, count), row| (sum + row.0, count + 1));
        let mean = sum / f64::from(count.max(1));
        let own = own * own;
        (if own > mean { own } else { f64::midpoint(own, mean) }).sqrt()
    }

    /// Returns half of the interval that has 90 % of errors with this deviation.
    pub fn half(&self, deviation: f64) -> f64 {
        deviation * student(self.freedom)
    }
}

/// Returns within how much of the mean of a policy's runs another run is, with 90 %; `None` of
/// single runs. The runs of all policies tell how much they scatter.
pub(super) fn chance(measured: &Measured, policy: usize, place: usize) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    let is_relative = Measure::ALL[place].is_relative();
    let own = measured.estimate(policy, place)?.mean.abs();
    for other in 0..measured.runs.len() {
        let Some(mean) = measured.estimate(other, place).map(|estimate| estimate.mean) else {
            continue;
        };
        let unit = if is_relative { own / mean.abs().max(f64::MIN_POSITIVE) } else { 1.0 };
        let values = measured.runs[other].iter().filter_map(|run| run[place]);
        squares += values.map(|value| ((value - mean) * unit).powi(2)).sum::<f64>();
        freedom += measured.runs[other].len().saturating_sub(1);
    }
    let count = measured.runs[policy].len() as f64;
    let deviation = (squares / freedom.max(1) as f64 * (1.0 + 1.0 / count)).sqrt();
    (freedom > 0).then(|| deviation * student(freedom))
}

/// Student's quantile of a 90 % interval.
fn student(freedom: usize) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom as f64).expect("there is a degree of freedom");
    student.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0)
}

/// The part of true values that is to be within the bar.
const CONFIDENCE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::tally::Figures;

    /// A group with this throughput in the capture, and in the runs under each policy.
    fn group(captured: f64, runs: &[&[f64]]) -> Measured {
        let figures = |value: f64| -> Figures {
            let mut figures = Figures::default();
            figures[0] = Some(value);
            figures
        };
        let runs = runs.iter().map(|all| all.iter().map(|value| figures(*value)).collect());
        let spreads = Default::default();
        Measured { captured: figures(captured), runs: runs.collect(), spreads }
    }

    #[test]
    fn luck_in_the_known_case_counts_half() {
        let (exact, off) = (group(1e7, &[&[1e7]]), group(1e7, &[&[1.2e7]]));
        let steady = group(1e6, &[&[1e6]]);
        let groups = [(&exact, true), (&off, true), (&steady, false)];
        let pool = Pool::of(groups.into_iter(), 2);
        // The mean square of those that react is that of 0 and 20 %.
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        near(pool.deviation(0, true, 0.2), 0.2);
        near(pool.deviation(0, true, 0.0), 0.1);
        near(pool.deviation(0, false, 0.0), 0.0);
        // Student's t(0.95) of two degrees of freedom.
        assert!((pool.half(0.1) - 0.292).abs() < 1e-4);
    }

    #[test]
    fn a_group_that_sent_nothing_tells_nothing_of_others() {
        let (steady, silent) = (group(1e6, &[&[1.1e6]]), group(0.0, &[&[1e5]]));
        let pool = Pool::of([(&steady, true), (&silent, true)].into_iter(), 2);
        let own = silent.misfit(0).expect("it was simulated");
        assert!(own.is_finite() && own > 10.0, "{own}");
        assert!((pool.deviation(0, true, 0.1) - 0.1).abs() < 1e-2);
    }

    #[test]
    fn the_truth_is_one_run_more() {
        let group = group(10.0, &[&[9.0, 10.0, 11.0], &[18.0, 20.0, 22.0]]);
        // Both scatter by 10 %; t(0.95) of four degrees of freedom is 2.132.
        let expected = 20.0 * 0.1 * (1.0 + 1.0 / 3.0f64).sqrt() * 2.1318;
        assert!(chance(&group, 1, 0).is_some_and(|found| (found - expected).abs() < 1e-3));
        assert_eq!(chance(&super::tests::group(1.0, &[&[1.0]]), 0, 0), None);
    }
}
