//! A condition of an alarm or a guard, measured second by second from what the loop left.

use std::sync::Arc;

use weir_core::ids::{ClassId, LeafId};
use weir_core::units::Instant;
use weir_policy::Policy;
use weir_policy::deployment::{Deployment, Watch};
use weir_policy::policy::{Goal, Measure, Metric, Promised};

use super::window::Window;
use super::{Gauge, Gauged, LeafMeasures};

/// A condition in one direction, with the counts of its classes.
#[derive(Debug)]
pub(super) struct Condition {
    pub promised: Promised<ClassId>,
    pub gauge: Arc<Gauge>,
    /// For the class of the measure, and for that of the goal: where its leaves are in the gauge.
    pub leaves: [Vec<usize>; 2],
    pub before: Option<(Instant, Vec<LeafMeasures>)>,
}

/// The measures of about a second.
pub(super) struct Second {
    pub since: Instant,
    pub at: Instant,
    /// Of the class of the measure, and of that of the goal.
    pub windows: [Window; 2],
    /// Packets that the class of the measure dropped or lost since the start.
    pub dropped: u64,
}

impl Condition {
    /// Has the bridge of a direction count the classes of a condition.
    pub fn of(watch: &Watch, deployment: &Deployment, gauged: &mut [Gauged]) -> Option<Self> {
        let mut bridges = deployment.bridges.iter().enumerate();
        // A lane for each direction comes first in its bridge.
        let (bridge, lane) = bridges.find_map(|(bridge, of)| {
            let lane = of.directions.iter().position(|way| *way == watch.direction)?;
            Some((bridge, lane))
        })?;
        let policy = &deployment.directions[watch.direction].policy;
        let [measured, goal] = classes(&watch.when, policy)
            .map(|leaves| leaves.into_iter().map(|leaf| (lane, leaf)).collect::<Vec<_>>());
        let (gauge, measured) = gauged[bridge].add(measured);
        let leaves = [measured, gauged[bridge].add(goal).1];
        Some(Self { promised: watch.when.clone(), gauge, leaves, before: None })
    }

    /// Returns the measures since the last call, if the loop has left counts since.
    pub fn newer(&mut self) -> Option<Second> {
        let known = self.before.as_ref().map(|before| before.0);
        let (at, counts) = self.gauge.newer(known)?;
        self.add(at, counts)
    }

    /// Returns the measures between the counts before and these of `at`.
    pub fn add(&mut self, at: Instant, counts: Vec<LeafMeasures>) -> Option<Second> {
        let (since, before) = self.before.replace((at, counts))?;
        let (_, now) = self.before.as_ref().expect("it was just put there");
        let window = |leaves: &Vec<usize>| {
            Window::of(at.since(since), leaves.iter().map(|leaf| (&before[*leaf], &now[*leaf])))
        };
        let windows = self.leaves.each_ref().map(window);
        let dropped = self.leaves[0].iter().map(|leaf| now[*leaf].dropped).sum();
        Some(Second { since, at, windows, dropped })
    }
}

/// Returns the measured value and the limit; `None` where there was nothing to measure.
pub(super) fn measure(
    promised: &Promised<ClassId>,
    windows: &[Window; 2],
) -> (Option<f64>, Option<f64>) {
    let of = |measure: &Measure<ClassId>, window: &Window| match measure {
        Measure::Class(_, metric) => window.measure(*metric),
        // No alarm and no guard has it.
        Measure::Fairness | Measure::Behind(_) => None,
    };
    let limit = match &promised.goal {
        Goal::Value(value) => Some(*value),
        Goal::Part(part, measure) => of(measure, &windows[1]).map(|value| value * part),
    };
    (of(&promised.measure, &windows[0]), limit)
}

/// Returns the metric that a condition is about.
pub(super) fn metric_of(promised: &Promised<ClassId>) -> Metric {
    match promised.measure {
        Measure::Class(_, metric) => metric,
        Measure::Fairness | Measure::Behind(_) => Metric::Rate,
    }
}

/// Returns the leaves of the class of the measure, and of that of the goal.
fn classes(promised: &Promised<ClassId>, policy: &Policy) -> [Vec<LeafId>; 2] {
    let goal = match &promised.goal {
        Goal::Part(_, measure) => class_of(measure),
        Goal::Value(_) => None,
    };
    [class_of(&promised.measure), goal].map(|class| {
        let tree = &policy.link.tree;
        let is_below = |leaf: &LeafId| {
            class.is_some_and(|class| tree.path(tree.class_of(*leaf)).any(|one| one == class))
        };
        tree.leaves().map(|(leaf, _)| leaf).filter(is_below).collect()
    })
}

/// Returns the class that a measure is about.
pub(super) fn class_of(measure: &Measure<ClassId>) -> Option<ClassId> {
    match measure {
        Measure::Class(class, _) => Some(*class),
        Measure::Fairness | Measure::Behind(_) => None,
    }
}
