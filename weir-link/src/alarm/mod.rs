//! Alarms: conditions on classes that a deployment watches, and what follows when one holds.
//!
//! The run loop leaves what the watched classes count in a gauge, once a second (`gauge.rs`).
//! Another thread computes the measures of that second and compares them ([`Alarms`]); an alarm
//! that begins or ends is an event, and another process runs the program of the alarm or tells its
//! webhook. Invariant: each alarm begins and ends in turn in each direction.

mod gauge;
mod guard;
mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_core::ids::{ClassId, LeafId};
use weir_core::units::Instant;
use weir_policy::Policy;
use weir_policy::deployment::{Alarm, Deployment, Direction, Watch};
use weir_policy::policy::{Goal, Measure, Metric, Promised};

use crate::bridge::Bridge;
use crate::events::fault::{Fault, Manner, Moment, Observation};
use crate::events::{About, Kind, Measured, Reporter};
pub(crate) use gauge::{Gauge, Gauged, LeafMeasures};
pub use guard::{Broken, Guards};
use weir_host::wait::{monotonic_ns, realtime_ns};
use window::Window;

/// The alarms of a deployment, at work.
#[derive(Debug)]
pub struct Alarms {
    watched: Vec<Watched>,
    reporter: Reporter,
}

/// An alarm in one direction.
#[derive(Debug)]
struct Watched {
    name: String,
    /// The condition as written, the direction, and for how long, for people.
    when: String,
    class: String,
    condition: Promised<ClassId>,
    gauge: Arc<Gauge>,
    /// For the class of the measure, and for that of the goal: where its leaves are in the gauge.
    leaves: [Vec<usize>; 2],
    before: Option<(Instant, Vec<LeafMeasures>)>,
    /// The last measured value and its limit, as text.
    measured: Measured,
    fault: Fault,
}

impl Alarms {
    /// Watches the classes that the alarms of a deployment name; `bridges` are those of the
    /// deployment, in its order, and count for it from now on.
    pub fn watch(deployment: &Deployment, bridges: &mut [Bridge], reporter: Reporter) -> Self {
        let (alarms, gauged) = Self::plan(deployment, reporter);
        bridges.iter_mut().zip(gauged).for_each(|(bridge, gauged)| bridge.gauge(gauged));
        alarms
    }

    /// As [`Alarms::watch`], for bridges that count later: returns what each of them is to count.
    pub(crate) fn plan(deployment: &Deployment, reporter: Reporter) -> (Self, Vec<Gauged>) {
        let mut watched = Vec::new();
        let mut gauged: Vec<_> = deployment.bridges.iter().map(|_| Gauged::default()).collect();
        for alarm in &deployment.alarms {
            for watch in &alarm.watches {
                let Some(places) = Places::of(watch, deployment, &mut gauged) else { continue };
                let direction = &deployment.directions[watch.direction];
                watched.push(Watched::new(alarm, watch, direction, places));
            }
        }
        (Self { watched, reporter }, gauged)
    }

    /// Goes on with alarms that began under the policies before.
    pub fn go_on_from(&mut self, before: Self) {
        for old in before.watched {
            let is_same = |new: &&mut Watched| new.name == old.name && new.when == old.when;
            if let Some(new) = self.watched.iter_mut().find(is_same) {
                (new.fault, new.measured) = (old.fault, old.measured);
            }
        }
    }

    /// Computes what is new, and tells which alarms began or ended. Call it a few times a second,
    /// from a thread that does not forward.
    pub fn check(&mut self) {
        for watched in &mut self.watched {
            let gauge = Arc::clone(&watched.gauge);
            if let Some((at, counts)) = gauge.newer(watched.before.as_ref().map(|before| before.0))
            {
                watched.check(at, counts, &self.reporter);
            }
        }
    }
}

/// Where what a condition is about is counted.
struct Places {
    gauge: Arc<Gauge>,
    /// Of the class of the measure, and of that of the goal.
    leaves: [Vec<usize>; 2],
}

impl Places {
    /// Has the bridge of a direction count the classes of a condition.
    fn of(watch: &Watch, deployment: &Deployment, gauged: &mut [Gauged]) -> Option<Self> {
        let mut bridges = deployment.bridges.iter().enumerate();
        // A lane for each direction comes first in its bridge.
        let (bridge, lane) = bridges.find_map(|(bridge, of)| {
            let lane = of.directions.iter().position(|way| *way == watch.direction)?;
            Some((bridge, lane))
        })?;
        let policy = &deployment.directions[watch.direction].policy;
        let [measured, goal] = Watched::classes(watch, policy)
            .map(|leaves| leaves.into_iter().map(|leaf| (lane, leaf)).collect::<Vec<_>>());
        let (gauge, measured) = gauged[bridge].add(measured);
        let leaves = [measured, gauged[bridge].add(goal).1];
        Some(Self { gauge, leaves })
    }
}

impl Watched {
    fn new(alarm: &Alarm, watch: &Watch, direction: &Direction, places: Places) -> Self {
        let tree = &direction.policy.link.tree;
        let class = class_of(&watch.when.measure).map(|class| tree.class(class));
        Self {
            name: alarm.name.clone(),
            when: format!("`{}` in `{}`", alarm.when, direction.name),
            class: class.map(|class| class.name.clone()).unwrap_or_default(),
            condition: watch.when.clone(),
            gauge: places.gauge,
            leaves: places.leaves,
            before: None,
            measured: Measured::default(),
            fault: Fault::new(Manner {
                kind: Kind::AlarmBegan,
                patience: alarm.lasts,
                calm: alarm.lasts,
                is_state: false,
            }),
        }
    }

    /// Returns the leaves of the class of the measure, and of that of the goal.
    fn classes(watch: &Watch, policy: &Policy) -> [Vec<LeafId>; 2] {
        let goal = match &watch.when.goal {
            Goal::Part(_, measure) => class_of(measure),
            Goal::Value(_) => None,
        };
        [class_of(&watch.when.measure), goal].map(|class| {
            let tree = &policy.link.tree;
            let is_below = |leaf: &LeafId| {
                class.is_some_and(|class| tree.path(tree.class_of(*leaf)).any(|one| one == class))
            };
            tree.leaves().map(|(leaf, _)| leaf).filter(is_below).collect()
        })
    }

    fn check(&mut self, at: Instant, counts: Vec<LeafMeasures>, reporter: &Reporter) {
        let Some((since, before)) = self.before.replace((at, counts)) else { return };
        let (_, now) = self.before.as_ref().expect("it was just put there");
        let window = |class: usize| {
            Window::of(
                at.since(since),
                self.leaves[class].iter().map(|at| (&before[*at], &now[*at])),
            )
        };
        let judged = judge(&self.condition, [window(0), window(1)]);
        let dropped = self.leaves[0].iter().map(|at| now[*at].dropped).sum();
        let observation = Observation { since: judged.holds.then_some(since), total: dropped };
        let age = Instant::from_nanos(monotonic_ns()).since(at).as_nanos();
        let moment = Moment { now: at, wall_ns: realtime_ns().saturating_sub(age) };
        // An alarm whose class fell silent ends with what was measured last.
        let verb = if judged.value.is_some() { "is" } else { "was" };
        let Measured { value, limit } = std::mem::take(&mut self.measured);
        self.measured =
            Measured { value: judged.value.unwrap_or(value), limit: judged.limit.unwrap_or(limit) };
        let measured = &self.measured;
        let detail = format!("{}: it {verb} {}", self.when, measured.value);
        let (subject, class) = (self.name.as_str(), self.class.as_str());
        let about = About { subject, class, detail: &detail, measured: Some(measured) };
        self.fault.observe(moment, observation, about, reporter);
    }
}

/// Whether a condition holds in a window, and by which measured value.
#[derive(Debug)]
struct Judged {
    holds: bool,
    /// The measured value, if there was anything to measure, and the limit.
    value: Option<String>,
    limit: Option<String>,
}

/// Compares the measures of a window: that of the class, and that of the class of the goal. What
/// was not measured, because no packet left, does not hold.
fn judge(condition: &Promised<ClassId>, windows: [Window; 2]) -> Judged {
    let metric = match &condition.measure {
        Measure::Class(_, metric) => *metric,
        // No alarm has it.
        Measure::Fairness => Metric::Rate,
    };
    let value = windows[0].measure(metric);
    let goal = match &condition.goal {
        Goal::Value(value) => Some(*value),
        Goal::Part(part, Measure::Class(_, metric)) => {
            windows[1].measure(*metric).map(|value| value * part)
        }
        Goal::Part(_, Measure::Fairness) => None,
    };
    // A class that has nothing to send is in no trouble, however little it sends.
    let wants = metric == Metric::Rate && condition.comparison.wants_less();
    let may_hold = !wants || windows[0].waits;
    let holds = match (value, goal) {
        (Some(value), Some(goal)) => may_hold && condition.comparison.holds(value, goal),
        _ => false,
    };
    let text = |value: Option<f64>| value.map(|it| window::text(metric, it));
    Judged { holds, value: text(value), limit: text(goal) }
}

fn class_of(measure: &Measure<ClassId>) -> Option<ClassId> {
    match measure {
        Measure::Class(class, _) => Some(*class),
        Measure::Fairness => None,
    }
}
