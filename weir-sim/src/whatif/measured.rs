//! The figures of a group of flows: in the capture, and in each run under each policy.
//!
//! Invariant: the first policy is the one that was in force.

use super::tally::{Figures, Measure, Spread};
use crate::replicate::Estimate;

/// The figures of a group in the capture, and by policy and run.
pub(super) struct Measured {
    pub captured: Figures,
    pub runs: Vec<Vec<Figures>>,
    /// Of the capture, and of the runs under the policy that was in force.
    pub spreads: (Spread, Vec<Spread>),
}

impl Measured {
    /// Returns the mean over the runs under a policy, in which all runs have the figure.
    pub fn estimate(&self, policy: usize, measure: usize) -> Option<Estimate> {
        let values: Option<Vec<f64>> = self.runs[policy].iter().map(|run| run[measure]).collect();
        values.filter(|values| !values.is_empty()).map(|values| Estimate::of(&values))
    }

    /// Returns whether each run under a policy has the same figure as under the one in force.
    pub fn is_same(&self, policy: usize, measure: usize) -> bool {
        let mut pairs = self.runs[policy].iter().zip(&self.runs[0]);
        pairs.all(|(one, other)| one[measure] == other[measure])
    }

    /// Returns the error of the simulation of the known case.
    pub fn error(&self, measure: usize) -> Option<f64> {
        let simulated = self.estimate(0, measure)?.mean;
        let captured = self.captured[measure]?;
        let (error, measure) = ((simulated - captured).abs(), Measure::ALL[measure]);
        let whole = if measure.is_relative() { captured.max(measure.resolution()) } else { 1.0 };
        Some(error / whole)
    }

    /// Returns whether the error of the known case tells of other groups: a part of nothing, as of
    /// a flow that was over before, does not.
    pub fn is_telling(&self, measure: usize) -> bool {
        let which = Measure::ALL[measure];
        let is_some = |captured: f64| captured >= which.resolution();
        !which.is_relative() || self.captured[measure].is_some_and(is_some)
    }

    /// Returns by how much the simulation of the known case is off: in this figure, or in the
    /// distribution that it is of. A delay that a full queue fixes is right whatever sources do;
    /// its other quantiles are not.
    pub fn misfit(&self, place: usize) -> Option<f64> {
        let measure = Measure::ALL[place];
        let own = self.error(place)?;
        let of = |spread: &'_ Spread| match measure {
            Measure::DelayP50 | Measure::DelayP99 => spread.delays.clone(),
            Measure::CompletionP50 | Measure::CompletionP95 => spread.objects.clone(),
            _ => Vec::new(),
        };
        let captured = of(&self.spreads.0);
        let runs: Vec<Vec<f64>> = self.spreads.1.iter().map(of).collect();
        if captured.is_empty() || runs.iter().any(Vec::is_empty) {
            return Some(own);
        }
        let least = measure.resolution();
        let square = |(at, captured): (usize, &f64)| {
            let mean = runs.iter().map(|run| run[at]).sum::<f64>() / runs.len() as f64;
            (((mean - captured).abs() - least).max(0.0) / captured.max(least)).powi(2)
        };
        let squares: f64 = captured.iter().enumerate().map(square).sum();
        let excess = own - least / self.captured[place]?.max(least);
        Some(excess.max((squares / captured.len() as f64).sqrt()))
    }
}
