//! Guards of a change: conditions that must hold after it.
//!
//! A guard is measured as an alarm is, second by second; the first second that breaks it is enough,
//! since what follows is only that the policy of before comes back.

use weir_core::account::HISTOGRAMS_MAX;
use weir_core::ids::ClassId;
use weir_policy::deployment::{Deployment, Watch, watch};
use weir_policy::policy::{Measure, Metric, Promised};

use super::Gauged;
use super::condition::{Condition, measure, metric_of};
use super::window::{self, Window};

/// The guards of a change.
#[derive(Debug, Default)]
pub struct Guards {
    guards: Vec<Guard>,
}

/// A guard that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The guard, where it was broken, and what was measured.
    pub text: String,
}

#[derive(Debug)]
struct Guard {
    /// As written, and in which direction.
    text: String,
    condition: Condition,
}

impl Guards {
    /// Has the bridges of a deployment count what these guards are about.
    ///
    /// # Errors
    /// When one is no condition, or no direction has its classes; the text has the cure.
    pub(crate) fn plan(
        texts: &[String],
        deployment: &Deployment,
        gauged: &mut [Gauged],
    ) -> Result<Self, String> {
        if texts.len() > GUARDS_MAX {
            let count = texts.len();
            return Err(format!("{count} guards are too many; give at most {GUARDS_MAX}"));
        }
        let mut guards = Vec::new();
        for text in texts {
            let watches = watch(text, &deployment.directions);
            let watches = watches.map_err(|why| format!("guard `{text}`: {why}"))?;
            if watches.iter().any(|watch| lacks_delays(watch, deployment)) {
                return Err(format!(
                    "guard `{text}`: in a direction with more than {HISTOGRAMS_MAX} leaf classes \
                     delays are not measured; guard a rate, drops or losses"
                ));
            }
            let mut one = |watch: &Watch| Guard::new(text, watch, deployment, gauged);
            guards.extend(watches.iter().filter_map(&mut one));
        }
        Ok(Self { guards })
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Measures what is new; returns the first guard that is broken. Call it a few times a second.
    pub fn check(&mut self) -> Option<Broken> {
        self.guards.iter_mut().find_map(Guard::check)
    }
}

impl Guard {
    fn new(
        text: &str,
        watch: &Watch,
        deployment: &Deployment,
        gauged: &mut [Gauged],
    ) -> Option<Self> {
        let condition = Condition::of(watch, deployment, gauged)?;
        let way = &deployment.directions[watch.direction].name;
        Some(Self { text: format!("`{text}` in `{way}`"), condition })
    }

    fn check(&mut self) -> Option<Broken> {
        let second = self.condition.newer()?;
        let measured = breach(&self.condition.promised, &second.windows)?;
        Some(Broken { text: format!("{}: it was {measured}", self.text) })
    }
}

/// Returns whether a condition is about delays that are not measured.
fn lacks_delays(watch: &Watch, deployment: &Deployment) -> bool {
    let tree = &deployment.directions[watch.direction].policy.link.tree;
    let metric = match watch.when.measure {
        Measure::Class(_, metric) => Some(metric),
        Measure::Fairness | Measure::Behind(_) => None,
    };
    let is_delay = matches!(metric, Some(Metric::Delay(_) | Metric::DelayMean));
    is_delay && tree.leaf_count() > HISTOGRAMS_MAX
}

/// Returns what was measured if the windows of the class and of the class of the goal break the
/// condition. What was not measured, because no packet left, breaks none; nor does a class that
/// sends less than it should because it has no more to send.
fn breach(condition: &Promised<ClassId>, windows: &[Window; 2]) -> Option<String> {
    let (metric, (value, goal)) = (metric_of(condition), measure(condition, windows));
    let (value, goal) = value.zip(goal)?;
    let is_idle = metric == Metric::Rate && !condition.comparison.wants_less() && !windows[0].waits;
    let is_broken = !is_idle && !condition.comparison.holds(value, goal);
    is_broken.then(|| window::text(metric, value))
}

/// Bound: guards of a change; a change with more is refused.
pub const GUARDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::LeafMeasures;
    use super::*;
    use weir_core::units::Duration;
    use weir_policy::policy::{Comparison, Goal};

    /// A second in which so many packets of 1000 bytes left, each this late, and packets waited all
    /// the time or not; checks whether it breaks the condition.
    fn check(
        (metric, comparison, goal): (Metric, Comparison, f64),
        (sent, delay_ms, waits): (u64, u64, bool),
        is_broken: bool,
    ) {
        let mut now = LeafMeasures {
            offered: sent,
            sent_bytes: sent * 1000,
            waits,
            ..LeafMeasures::default()
        };
        (0..sent).for_each(|_| now.delays.record(Duration::from_millis(delay_ms)));
        let before = LeafMeasures::default();
        let window = || Window::of(Duration::from_secs(1), std::iter::once((&before, &now)));
        let measure = Measure::Class(ClassId(1), metric);
        let condition = Promised { measure, comparison, goal: Goal::Value(goal) };
        let found = breach(&condition, &[window(), window()]);
        assert_eq!(found.is_some(), is_broken, "{metric:?} {comparison} {goal}: {found:?}");
    }

    #[test]
    fn a_second_breaks_a_guard_only_by_what_was_measured() {
        let slow = (Metric::Delay(990), Comparison::Below, 0.010);
        check(slow, (10, 5, false), false);
        check(slow, (10, 50, false), true);
        check(slow, (0, 0, true), false);
        let fast = (Metric::Rate, Comparison::AtLeast, 1e6);
        check(fast, (200, 1, false), false);
        check(fast, (50, 1, true), true);
        // It has no more to send.
        check(fast, (50, 1, false), false);
        check((Metric::Rate, Comparison::Below, 1e6), (200, 1, false), true);
    }
}
