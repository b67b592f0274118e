//! The promises of a link: conditions on a replay.
//!
//! They come from the policy's `[[promise]]` tables, from the delays that its classes want, from
//! the rates that its scheduler guarantees, and from the caller. Invariant: a condition is fixed
//! once, by the policies of the load; a change that would keep it does not move its goal.

use super::tally::Tally;
use crate::load::Load;
use serde::Serialize;
use weir_core::ids::ClassId;
use weir_policy::calculus;
use weir_policy::policy::{Comparison, Goal, Measure, Metric, Promised};

/// A condition that a replay keeps or breaks.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// As text: `voice.delay.p99 < 10 ms`.
    pub that: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The condition as read.
    pub promised: Promised<ClassId>,
}

/// Where a condition comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The caller asked for it.
    Asked,
    /// A `[[promise]]` of the policy.
    Promise,
    /// The `delay` of a class.
    Delay,
    /// The rate that the scheduler guarantees a class.
    Rate,
}

/// Whether a replay keeps a condition.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The condition, as text.
    pub that: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The measure, in bit/s, seconds, packets, bytes or a part of 1; `None` if nothing was
    /// measured.
    pub measured: Option<f64>,
    /// The goal in the same unit.
    pub goal: Option<f64>,
    /// The condition holds; `None` if nothing was measured.
    pub kept: Option<bool>,
}

impl Condition {
    /// Reads a condition on classes of the load's first policy.
    ///
    /// # Errors
    /// When the text is no condition, or names no class of the policy.
    pub fn read(text: &str, load: &Load) -> Result<Self, String> {
        let promised = weir_policy::policy::read_promise(text)?;
        let policy = &load.stages[0].policy;
        let promised = promised.map(|name| policy.class(name));
        let promised =
            promised.ok_or_else(|| format!("`{text}` names a class that is not there"))?;
        Ok(Self { that: text.to_owned(), origin: Origin::Asked, promised })
    }

    /// Returns the conditions of the load's first policy, where `seen` is its replay.
    pub fn of_policy(load: &Load, seen: &Tally) -> Vec<Self> {
        let policy = &load.stages[0].policy;
        let written = policy.promises.iter().map(|promise| Self {
            that: promise.that.clone(),
            origin: Origin::Promise,
            promised: promise.promised.clone(),
        });
        let mut conditions: Vec<Self> = written.collect();
        let tree = &policy.link.tree;
        let at_least = calculus::at_least(&policy.link, &policy.demands);
        for (leaf, spec) in tree.leaves() {
            let class = tree.class_of(leaf);
            if let Some(delay) = policy.demands.get(leaf.index()).and_then(|demand| demand.delay) {
                conditions.push(Self {
                    that: format!("{}.delay.max <= {delay}", spec.name),
                    origin: Origin::Delay,
                    promised: Promised {
                        measure: Measure::Class(class, Metric::Delay(1000)),
                        comparison: Comparison::AtMost,
                        goal: Goal::Value(delay.as_nanos() as f64 / 1e9),
                    },
                });
            }
            let proven = at_least.get(leaf.index()).and_then(|row| row.proven);
            let due = proven.map(|rate| seen.due(class, rate, tree.mtu().get()) * RATE_PART);
            if let Some(due) = due.filter(|&due| due > 0.0) {
                conditions.push(Self {
                    that: format!("{}.rate >= {:.3} Mbit/s", spec.name, due / 1e6),
                    origin: Origin::Rate,
                    promised: Promised {
                        measure: Measure::Class(class, Metric::Rate),
                        comparison: Comparison::AtLeast,
                        goal: Goal::Value(due),
                    },
                });
            }
        }
        conditions
    }

    /// Returns whether `seen` keeps it.
    pub fn judge(&self, seen: &Tally) -> Judged {
        let measured = seen.value(self.promised.measure);
        let goal = match self.promised.goal {
            Goal::Value(value) => Some(value),
            Goal::Part(part, other) => seen.value(other).map(|value| value * part),
        };
        let kept = measured
            .zip(goal)
            .map(|(measured, goal)| self.promised.comparison.holds(measured, goal));
        Judged { that: self.that.clone(), origin: self.origin, measured, goal, kept }
    }

    /// Returns whether judging needs the peaks of queues.
    pub fn needs_peaks(&self) -> bool {
        let peak = |measure| matches!(measure, Measure::Class(_, Metric::BacklogMax));
        let other = match self.promised.goal {
            Goal::Part(_, other) => peak(other),
            Goal::Value(_) => false,
        };
        peak(self.promised.measure) || other
    }

    /// Returns the class that it is about.
    pub fn class(&self) -> Option<ClassId> {
        match self.promised.measure {
            Measure::Class(class, _) => Some(class),
            Measure::Fairness | Measure::Behind(_) => None,
        }
    }
}

/// A guaranteed rate counts as kept from this part of it: a load begins and ends within a round.
const RATE_PART: f64 = 0.95;
